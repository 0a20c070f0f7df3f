/**
 * Reads secrets and certificates from files (`urlFile`, `tokenFile`, `caFile`). The file's text, without its last line end, becomes the
 * value of the member without `File`.
 */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { mistake, pathText } from './problem.ts'
import type { Mistake, Path } from './problem.ts'
import { isTree, removeAt, putAt, valueAt } from './tree.ts'

/** Enough for a URL, a token or some certificates. A larger file is the wrong one. */
const SECRET_BYTES_MAX = 64 * 1024

const AUTH = ['admin', 'auth'] as const
const REDIS = ['stores', 'redis'] as const
/** Read from files like secrets. */
const TLS = ['ca', 'cert', 'key'] as const

const SECRETS: readonly Path[] = [
  ['secret'],
  ['previousSecret'],
  ['admin', 'token'],
  [...AUTH, 'sessionKey'],
  [...AUTH, 'oidc', 'clientSecret'],
  [...AUTH, 'oidc', 'ca'],
  ['stores', 'postgres', 'url'],
  [...REDIS, 'url'],
  [...REDIS, 'password'],
  [...REDIS, 'sentinel', 'password'],
  ...TLS.map((name) => [...REDIS, 'tls', name]),
  ...TLS.map((name) => [...REDIS, 'sentinel', 'tls', name])
]

/** All paths, with those in lists and maps. */
function secretsOf (tree: unknown): readonly Path[] {
  const [ring, routes, upstreams] = [valueAt(tree, ['issuedKeys', 'secrets']), valueAt(tree, ['routes']), valueAt(tree, ['upstreams'])]
  return [
    ...SECRETS,
    ...(isTree(upstreams) ? Object.keys(upstreams).map((name) => ['upstreams', name, 'ca']) : []),
    ...(Array.isArray(ring) ? ring.map((_, index) => ['issuedKeys', 'secrets', index, 'secret']) : []),
    ...(Array.isArray(routes)
      ? routes.flatMap((route, index) => [...SIGNATURE_BLOCKS, ...signedTargets(route)].flatMap((block) => SIGNATURE_SECRETS.map((name) => [
        'routes', index, 'idempotency', ...block, name
      ])))
      : [])
  ]
}

/** `inbox.verify` is the old name of `verify`. */
const SIGNATURE_BLOCKS = [['verify'], ['inbox', 'verify'], ['inbox', 'sign'], ['inbox', 'deadLetter', 'sign']] as const
function signedTargets (route: unknown): Path[] {
  const targets = valueAt(route, ['idempotency', 'inbox', 'targets'])
  return isTree(targets)
    ? Object.keys(targets).flatMap((name) => [['inbox', 'targets', name, 'sign'], ['inbox', 'targets', name, 'deadLetter', 'sign']])
    : []
}

const SIGNATURE_SECRETS = ['secret', 'previousSecret'] as const

export interface SecretsRead {
  readonly mistakes: readonly Mistake[]
  /** Members whose files could not be read. They must not be reported as missing too. */
  readonly unread: readonly Path[]
  /** The file of each member that was read, by the text of its path. */
  readonly sources: ReadonlyMap<string, { readonly path: Path, readonly file: string }>
}

/** Replaces every `…File` in `tree`, in place. `base`: the directory of relative names. */
export function readSecretFiles (tree: unknown, base: string): SecretsRead {
  const mistakes: Mistake[] = []
  const unread: Path[] = []
  const sources = new Map<string, { path: Path, file: string }>()
  for (const path of secretsOf(tree)) {
    const pathOfFile = [...path.slice(0, -1), `${String(path.at(-1))}File`]
    const file = valueAt(tree, pathOfFile)
    if (typeof file !== 'string') continue
    if (valueAt(tree, path) !== undefined) {
      mistakes.push(mistake(pathOfFile, `conflicts with ${String(path.at(-1))}: set only one`, 'key'))
      continue
    }
    removeAt(tree, pathOfFile)
    const secret = readSecret(resolve(base, file))
    if ('text' in secret) {
      sources.set(pathText(path), { path: pathOfFile, file: resolve(base, file) })
      putAt(tree, path, secret.text)
      continue
    }
    mistakes.push(mistake(pathOfFile, secret.wrong))
    unread.push(path)
  }
  return { mistakes, unread, sources }
}

function readSecret (file: string): { text: string } | { wrong: string } {
  try {
    const bytes = readFileSync(file)
    if (bytes.length > SECRET_BYTES_MAX) return { wrong: `${file} is too large (${bytes.length} bytes)` }
    const text = bytes.toString('utf8').replace(/\r?\n$/, '')
    return text === '' ? { wrong: `${file} is empty` } : { text }
  } catch (error) {
    return { wrong: `${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown error'})` }
  }
}
