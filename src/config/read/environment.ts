/**
 * Environment variables over the file: every scalar outside `routes` has a variable named after its path
 * (`listen.port` -> ONCEWAY_LISTEN_PORT, `dataDir` -> ONCEWAY_DATA_DIR). Empty means unset.
 */
import { pathText } from './problem.ts'
import type { Path } from './problem.ts'
import type { Environment } from './interpolate.ts'
import type { SchemaNode } from './schema-words.ts'
import { coerce, scalarPaths } from './schema-walk.ts'
import { putAt, removeAt, valueAt } from './tree.ts'

/** Which variable a value came from, by the text of its path. */
export type Origins = Map<string, string>

/** What other programs read too. ONCEWAY_ wins over the file; the shared name only fills what the file leaves open. */
const SHARED = [
  { path: ['stores', 'postgres', 'url'], own: 'ONCEWAY_DATABASE_URL', shared: 'DATABASE_URL', instead: [] },
  {
    path: ['stores', 'redis', 'url'],
    own: 'ONCEWAY_REDIS_URL',
    shared: 'REDIS_URL',
    instead: [['stores', 'redis', 'sentinel'], ['stores', 'redis', 'cluster']]
  }
] as const

/**
 * What an image says of both listeners and of its volume, since its network and its files are its own: only where
 * nothing else names one.
 */
const DEFAULTS = [
  { variable: 'ONCEWAY_DEFAULT_HOST', paths: [['listen', 'host'], ['admin', 'host']] },
  { variable: 'ONCEWAY_DEFAULT_DATA_DIR', paths: [['dataDir']] }
] as const

/** Kubernetes sets NAME_PORT=tcp://… in every pod beside a service NAME: a service `onceway-admin` is not our admin port. */
const SERVICE_LINK = /^(tcp|udp|sctp):\/\//

/** Writes the overrides into `tree`, in place. */
export function override (tree: unknown, schema: SchemaNode, env: Environment): Origins {
  const origins: Origins = new Map()
  const set = (path: Path, variable: string, text: string) => {
    if (!putAt(tree, path, coerce(schemaOf(scalars, path), text))) return
    removeAt(tree, fileOrValue(path))
    origins.set(pathText(path), variable)
  }
  const scalars = scalarPaths(schema, tree).filter(({ path }) => path[0] !== 'routes' && path[0] !== 'version')
  for (const { path, own, shared, instead } of SHARED) {
    const open = [path, fileOrValue(path), ...instead].every((place) => valueAt(tree, place) === undefined)
    if (isSet(env[own])) set(path, own, env[own])
    else if (isSet(env[shared]) && open) set(path, shared, env[shared])
  }
  for (const { path } of scalars) {
    const variable = variableOf(path)
    const text = env[variable]
    if (isSet(text) && !(path.at(-1) === 'port' && SERVICE_LINK.test(text))) set(path, variable, text)
  }
  for (const { variable, paths } of DEFAULTS) {
    const text = env[variable]
    for (const path of paths) if (isSet(text) && valueAt(tree, path) === undefined) set(path, variable, text)
  }
  return origins
}

/** ['stores', 'redis', 'copies', 'bytesMax'] -> ONCEWAY_STORES_REDIS_COPIES_BYTES_MAX */
export function variableOf (path: Path): string {
  return ['onceway', ...path]
    .map((part) => String(part).replace(/([a-z0-9])([A-Z])/g, '$1_$2').replace(/[^A-Za-z0-9]/g, '_').toUpperCase())
    .join('_')
}

/** `url` and `urlFile` are two ways to say one thing: the one that is set takes the other's place. */
function fileOrValue (path: Path): Path {
  const last = String(path.at(-1))
  return [...path.slice(0, -1), last.endsWith('File') ? last.slice(0, -'File'.length) : `${last}File`]
}

function schemaOf (scalars: ReturnType<typeof scalarPaths>, path: Path): SchemaNode | null {
  return scalars.find((scalar) => pathText(scalar.path) === pathText(path))?.schema ?? null
}

function isSet (text: string | undefined): text is string {
  return text !== undefined && text !== ''
}
