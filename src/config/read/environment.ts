/**
 * Environment variables that override the file. Every scalar outside `routes` has one, named after its path (`listen.port` ->
 * ONCEWAY_LISTEN_PORT, `dataDir` -> ONCEWAY_DATA_DIR). Empty means unset.
 */
import { pathText } from './problem.ts'
import type { Path } from './problem.ts'
import type { Environment } from './interpolate.ts'
import type { SchemaNode } from './schema-words.ts'
import { coerce, scalarPaths } from './schema-walk.ts'
import { putAt, removeAt, valueAt } from './tree.ts'

/** The variable that a value came from, by the text of its path. */
export type Origins = Map<string, string>

/** Variables that other programs read too. An ONCEWAY_ name wins over the file. A shared name only fills a gap in the file. */
const SHARED = [
  { path: ['stores', 'postgres', 'url'], own: 'ONCEWAY_DATABASE_URL', shared: 'DATABASE_URL', instead: [] },
  {
    path: ['stores', 'redis', 'url'],
    own: 'ONCEWAY_REDIS_URL',
    shared: 'REDIS_URL',
    instead: [['stores', 'redis', 'sentinel'], ['stores', 'redis', 'cluster']]
  }
] as const

/** Defaults that a container image sets for its listeners and its volume. They apply only if nothing else sets a value. */
const DEFAULTS = [
  { variable: 'ONCEWAY_DEFAULT_HOST', paths: [['listen', 'host'], ['admin', 'host']] },
  { variable: 'ONCEWAY_DEFAULT_DATA_DIR', paths: [['dataDir']] }
] as const

/** Kubernetes sets NAME_PORT=tcp://… for each service NAME. The variable of a service `onceway-admin` is not the admin port. */
const SERVICE_LINK = /^(tcp|udp|sctp):\/\//

/** Writes the values of variables into `tree`, in place. */
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

/** The other of `url` and `urlFile`, which set the same value. The variable replaces both. */
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
