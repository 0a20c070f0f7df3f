/**
 * Loads a configuration: text -> tree -> variables -> environment -> secret files -> schema with defaults -> checks -> Config. Reports
 * every mistake at once. Reads files, and has no other side effect.
 */
import { readFileSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { StartError } from '../ports/errors.ts'
import { check } from './check.ts'
import type { Config } from './config.ts'
import type { Environment } from './read/interpolate.ts'
import { override } from './read/environment.ts'
import type { Origins } from './read/environment.ts'
import { interpolate } from './read/interpolate.ts'
import { takeUnsupported } from './read/unsupported.ts'
import { configOf, spreadProfiles } from './policy.ts'
import { printConfig } from './print.ts'
import { spreadPresets } from './routes/presets.ts'
import { withoutInherited } from './routes/targets.ts'
import { ConfigInvalid, pathText, shownPath } from './read/problem.ts'
import type { ConfigProblem, Mistake } from './read/problem.ts'
import { rangeMistakes } from './ranges.ts'
import { readSecretFiles } from './read/secret-files.ts'
import type { SecretsRead } from './read/secret-files.ts'
import { ConfigSchema } from './schema.ts'
import type { ConfigFile } from './schema.ts'
import type { SchemaNode } from './read/schema-words.ts'
import { coerce, schemaAt } from './read/schema-walk.ts'
import { FILE_BYTES_MAX, readSource, treeSource } from './read/source.ts'
import type { Source } from './read/source.ts'
import { isTree, putAt, valueAt } from './read/tree.ts'
import { repair, validate } from './validate.ts'

/** Values of the command line. They win over file and environment. */
export interface Flags {
  readonly upstreamUrl?: string | undefined
  /** Where `upstreamUrl` comes from, for messages. Absent: --upstream. */
  readonly upstreamFrom?: string | undefined
  readonly host?: string | undefined
  readonly port?: number | undefined
  readonly adminPort?: number | undefined
  readonly dataDir?: string | undefined
  readonly workers?: Config['workers'] | undefined
}

/** Without a file, access is not decided yet, so only this machine may connect. With a file the default is every address. */
const HOST_WITHOUT_FILE = '127.0.0.1'
/** On these addresses there is no load balancer, so without a file `drain.delay` is 0s. */
const LOOPBACK = /^(?:127\.|::1$|localhost$)/

export interface LoadOptions { readonly env: Environment, readonly flags?: Flags }

/** `effective`: the tree of the file with every default. It still has its secrets, which print.ts masks. */
export interface Loaded { readonly config: Config, readonly effective: ConfigFile }

/**
 * Reads, checks and resolves a file.
 * @throws ConfigInvalid with every problem. StartError if the file cannot be read.
 */
export function loadConfig (file: string, { env, flags = {} }: LoadOptions): Config {
  return load(file, { env, flags }).config
}

export function load (file: string, { env, flags = {} }: LoadOptions): Loaded {
  return resolveSource(readSource(file, readText(file)), { env, flags, name: file, base: dirname(resolve(file)) })
}

/** The configuration without a file: one upstream, and every POST and PATCH with a key is guarded. */
export function defaultConfig ({ env, ...flags }: Flags & { upstreamUrl: string, env: Environment }): Config {
  return loadDefault(flags, env).config
}

export function loadDefault (flags: Flags & { upstreamUrl: string }, env: Environment): Loaded {
  const tree = {
    version: 1,
    upstreams: { default: { url: flags.upstreamUrl } },
    routes: [
      { name: 'default', match: { path: '/*' }, upstream: 'default', idempotency: {} },
      { match: { path: '/*' }, upstream: 'default' }
    ]
  }
  const loaded = resolveSource(treeSource('command line', tree), { env, flags, name: null, base: process.cwd() })
  return { ...loaded, config: { ...loaded.config, routes: loaded.config.routes.map(withAnonymous) } }
}

/**
 * Without a file there is no way to set `scope: public`, and first tests have no credentials. So callers without any share one scope. A
 * request with a cookie is still refused, because its caller cannot be identified.
 */
function withAnonymous (route: Config['routes'][number]): Config['routes'][number] {
  if (route.idempotency === null) return route
  return { ...route, idempotency: { ...route.idempotency, scope: { kind: 'credential', anonymous: true, cookies: 'refuse' } } }
}

interface SourceContext { readonly env: Environment, readonly flags: Flags, readonly name: string | null, readonly base: string }

function resolveSource (source: Source, { env, flags, name, base }: SourceContext): Loaded {
  if (source.problems.length > 0) throw new ConfigInvalid(source.problems)
  const tree = source.tree
  if (!isTree(tree)) {
    throw new ConfigInvalid([{ file: source.file, line: 1, column: 1, path: '', message: 'must be a map: version, upstreams, routes …' }])
  }
  const schema = ConfigSchema as unknown as SchemaNode
  const mistakesBefore = interpolate(tree, env, (path, text) => coerce(schemaAt(schema, path), text))
  const origins = override(tree, schema, env)
  if (name === null && valueAt(tree, ['listen', 'host']) === undefined) putAt(tree, ['listen', 'host'], HOST_WITHOUT_FILE)
  const secrets = readSecretFiles(tree, base)
  mistakesBefore.push(...applyFlags(tree, flags, origins), ...secrets.mistakes, ...takeUnsupported(tree))
  if (name === null && LOOPBACK.test(String(valueAt(tree, ['listen', 'host']))) && valueAt(tree, ['drain', 'delay']) === undefined) {
    putAt(tree, ['drain', 'delay'], '0s')
  }
  mistakesBefore.push(...spreadPresets(tree))
  spreadProfiles(tree)
  const unread = new Set(secrets.unread.map(pathText))
  const mistakes = [
    ...mistakesBefore,
    ...mistakesOf(tree, base).filter(({ path }) => !unread.has(pathText(path))).map((each) => attributed(each, secrets))
  ]
  if (mistakes.length > 0) throw new ConfigInvalid(located(mistakes, source, origins))
  const effective = tree as ConfigFile
  return { config: { ...configOf(effective, { name, base, sources: secrets.sources }), printed: printConfig(effective) }, effective }
}

/** If the value came from a `…File`, the mistake names that file. */
function attributed (found: Mistake, { sources }: SecretsRead): Mistake {
  const source = sources.get(pathText(found.path))
  return source === undefined ? found : { ...found, path: source.path, message: `${source.file} ${found.message}` }
}

/** The schema's mistakes, then those of the checks on all other parts. */
function mistakesOf (tree: unknown, base: string): Mistake[] {
  const shape = validate(tree)
  const { broken } = shape.length > 0 ? repair(tree, shape) : { broken: [] }
  // If the top of the tree is broken, nothing can be checked.
  if (broken.some((path) => path.length === 0)) return shape
  return withoutInherited([...shape, ...rangeMistakes(tree), ...check(tree as ConfigFile, broken, base)])
}

function applyFlags (
  tree: Record<string, unknown>,
  { upstreamUrl, upstreamFrom = '--upstream', host, port, adminPort, dataDir, workers }: Flags,
  origins: Origins
): Mistake[] {
  const set = (path: readonly string[], value: unknown, flag: string) => {
    if (value !== undefined && putAt(tree, path, value)) origins.set(pathText(path), flag)
  }
  set(['listen', 'host'], host, '--host')
  set(['listen', 'port'], port, '--port')
  set(['admin', 'port'], adminPort, '--admin-port')
  set(['dataDir'], dataDir, '--data-dir')
  set(['workers'], workers, '--workers')
  if (upstreamUrl === undefined) return []
  const names = isTree(tree.upstreams) ? Object.keys(tree.upstreams) : []
  const [only] = names
  if (names.length !== 1 || only === undefined) {
    return [{
      path: ['upstreams'],
      at: 'key',
      message: `${upstreamFrom} replaces the only upstream of a file; this file has ${names.length}`
    }]
  }
  set(['upstreams', only, 'url'], upstreamUrl, upstreamFrom)
  return []
}

/** Adds the place of each mistake. Of two mistakes at one path, only the first is kept, because the second mostly follows from it. */
function located (mistakes: readonly Mistake[], source: Source, origins: Origins): ConfigProblem[] {
  const problems = new Map<string, ConfigProblem>()
  for (const { path, at, message } of mistakes) {
    const text = pathText(path)
    if (problems.has(text)) continue
    const origin = origins.get(text)
    const place = origin === undefined ? source.locate(path, at) : null
    problems.set(text, {
      file: origin ?? source.file,
      line: place?.line ?? null,
      column: place?.column ?? null,
      path: shownPath(path),
      message
    })
  }
  return [...problems.values()].sort((a, b) => (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0))
}

function readText (file: string): string {
  try {
    if (statSync(file).size > FILE_BYTES_MAX) throw new StartError(`${file} is too large for a configuration (over 1 MiB).`, 2)
    return readFileSync(file, 'utf8')
  } catch (error) {
    if (error instanceof StartError) throw error
    const code = (error as NodeJS.ErrnoException).code
    throw new StartError(
      code === 'ENOENT'
        ? `There is no configuration file ${file}.`
        : `The configuration file ${file} cannot be read (${code ?? 'unknown error'}).`,
      2,
      error
    )
  }
}
