/** Checks one route's policy, and converts its match for the matcher. */
import { accessSync, constants, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { plainName } from '../../core/headers/fields.ts'
import type { KeySource } from '../../core/policy/key-source.ts'
import { headersRead } from '../../core/key/sources.ts'
import type { RouteMatch, ScopePolicy } from '../../core/policy/policy.ts'
import { CLOCKS_APART_MS } from '../../core/key/repeatability.ts'
import { masked } from '../read/mask.ts'
import { mistake } from '../read/problem.ts'
import type { Mistake, Path } from '../read/problem.ts'
import { checkDrop } from './drop.ts'
import { checkFingerprint } from './fingerprint.ts'
import { checkInbox } from './inbox.ts'
import { checkProbe } from './probe.ts'
import { readKeySources } from './key-source.ts'
import { isNotForwarded } from './header-names.ts'
import { readScope } from './scope.ts'
import type { IdempotencyFile, RouteFile } from './schema.ts'
import { checkVerify } from './verify.ts'
import { parseDuration, parseSize } from '../read/units.ts'

/** Fields that cannot have a key: they have another meaning, are removed on the way, or are credentials. */
const NO_KEY_HEADER = /^(host|content-.*|transfer-encoding|connection|keep-alive|te|trailer|upgrade|expect|authorization|proxy-.*|cookie|via|forwarded|x-forwarded-.*|onceway[-_].*|idempotency-(status|original-status|expires|stored|policy|attempt))$/
const GUARDED_METHODS = ['POST', 'PATCH'] as const

interface RouteContext {
  readonly match: Pick<RouteFile['match'], 'path'>
  readonly path: Path
  readonly base: string
  /** null: the upstream is unknown. */
  readonly upstreamTimeoutMs: number | null
  /** The names of all upstreams. null: they cannot be read. */
  readonly upstreams: readonly string[] | null
  /** Redis is used: it and Postgres are both configured. */
  readonly redis: boolean
}

export function checkIdempotency (
  policy: IdempotencyFile,
  { path, match, base, upstreamTimeoutMs, upstreams, redis }: RouteContext
): Mistake[] {
  const at = (...rest: readonly string[]) => [...path, ...rest]
  const key = readKeySources(policy.key.from)
  const scope = readScope(policy.scope)
  return [
    ...('wrong' in key ? [mistake(at('key', 'from'), key.wrong)] : []),
    ...('value' in key
      ? headersOf(key.value)
        .filter((name) => NO_KEY_HEADER.test(name) || NO_KEY_HEADER.test(plainName(name)))
        .map((name) => mistake(at('key', 'from'), `cannot be ${name}: that field has another meaning`))
      : []),
    ...('value' in key
      ? key.value
        .flatMap(partsOf)
        .filter(isNotForwarded)
        .map((name) => mistake(at('key', 'from'), `cannot have ${name}: the upstream does not get that field unchanged`))
      : []),
    ...('value' in key
      ? unknownParts(key.value, match).map((name) => mistake(at('key', 'from'), `names {path:${name}}, which match.path does not have`))
      : []),
    ...('wrong' in scope
      ? [mistake(at('scope'), scope.wrong)]
      : [
          ...notForwardedParts(scope.value).map((name) =>
            mistake(at('scope'), `cannot have header:${name}: the upstream does not get that field unchanged`)),
          ...checkJwt(policy, path, base)
        ]),
    ...('value' in key ? checkWindow(key.value, policy, path) : []),
    ...checkFingerprint(policy, 'value' in key ? key.value : [], path),
    ...checkTimes(policy, path, upstreamTimeoutMs),
    ...checkProbe(policy, path, upstreamTimeoutMs),
    ...checkDrop(policy, path, redis),
    ...checkInbox(policy, path, upstreams),
    ...checkVerify(policy, path)
  ]
}

function headersOf (sources: readonly KeySource[]): string[] {
  return sources.flatMap((source) => source.kind === 'header' ? [source.name] : [])
}

/** Headers that a template reads. */
function partsOf (source: KeySource): readonly string[] {
  return source.kind === 'template' ? headersRead(source) : []
}

function notForwardedParts (scope: ScopePolicy): string[] {
  return scope.kind === 'parts' ? scope.parts.flatMap((part) => part.kind === 'header' && isNotForwarded(part.name) ? [part.name] : []) : []
}

/** `{path:…}` placeholders that the route's path does not have. */
function unknownParts (sources: readonly KeySource[], match: Pick<RouteFile['match'], 'path'>): string[] {
  const named = new Set(match.path.split('/').filter((segment) => segment.startsWith(':')).map((segment) => segment.slice(1)))
  const parts = sources.flatMap((source) => source.kind === 'template' ? source.parts : [])
  return parts.flatMap((part) => part.kind === 'path' && !named.has(part.name) ? [part.name] : [])
}

/** The matcher's shape: methods in upper case, host in lower case, and the default methods of a guarded route. */
export function routeMatch ({ match, idempotency }: RouteFile): RouteMatch {
  const methods = match.methods ?? (idempotency === undefined ? [] : GUARDED_METHODS)
  return {
    path: match.path,
    methods: methods.map((method) => method.toUpperCase()),
    host: match.host?.toLowerCase() ?? null,
    exact: match.exact
  }
}

/** Whether `jwks` is a URL. Otherwise it is a file name. */
export function isUrl (jwks: string): boolean {
  return /^https?:\/\//i.test(jwks)
}

export function checkJwt ({ scope, jwt }: Pick<IdempotencyFile, 'scope' | 'jwt'>, path: Path, base: string): Mistake[] {
  const uses = [scope].flat().some((part) => /^jwt\??:/.test(part))
  if (uses && jwt === undefined) {
    return [mistake([...path, 'jwt'], 'is missing; a jwt: scope needs jwt: { jwks, issuer, audience } to verify tokens with', 'key')]
  }
  if (jwt === undefined) return []
  return [
    ...(uses ? [] : [mistake([...path, 'jwt'], 'is not used: no part of the scope is jwt:', 'key')]),
    ...wrongJwks(jwt.jwks, base).map((message) => mistake([...path, 'jwt', 'jwks'], message))
  ]
}

function wrongJwks (jwks: string, base: string): string[] {
  if (isUrl(jwks)) return URL.canParse(jwks) ? [] : ['is no URL']
  const path = resolve(base, jwks)
  // A mistyped URL looks like a file name, and may have a password. Then the name is not shown.
  const file = masked(jwks, 'url') === jwks ? path : 'the file'
  try {
    accessSync(path, constants.R_OK)
    const set = JSON.parse(readFileSync(path, 'utf8')) as { keys?: unknown } | null
    return Array.isArray(set?.keys) ? [] : [`${file} is no JWK set: it has no list of keys`]
  } catch (error) {
    return [
      error instanceof SyntaxError
        ? `${file} is no JSON`
        : `${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown error'})`
    ]
  }
}

/** Checks `key.window`: how long equal content is the same request, or the maximum age of the first sending. */
function checkWindow (
  sources: readonly KeySource[],
  { mode, key: { window }, lease, retention, unknownRetention }: IdempotencyFile,
  path: Path
): Mistake[] {
  const at = [...path, 'key', 'window']
  const [windowMs, leaseMs, retentionMs] = [
    parseDuration(window ?? retention) ?? 0,
    parseDuration(lease) ?? 0,
    parseDuration(retention) ?? 0
  ]
  const repeatable = sources.some((source) => source.kind === 'preset' && source.preset.name === 'repeatability')
  if (mode === 'drop' && repeatable) {
    return [mistake([...path, 'key', 'from'], 'cannot have repeatability with mode drop: it keeps no answer to repeat')]
  }
  if (mode === 'drop') return window === undefined ? [] : [mistake(at, 'has no effect with mode drop: drop.window does')]
  // If a client's clock is ahead, a request looks younger than it is.
  if (repeatable && windowMs < 2 * CLOCKS_APART_MS) {
    return [mistake(
      window === undefined ? [...path, 'retention'] : at,
      'must be at least ten minutes with repeatability: clocks may differ by five'
    )]
  }
  if (repeatable && (parseDuration(unknownRetention) ?? 0) < windowMs) {
    return [mistake(
      [...path, 'unknownRetention'],
      'must be at least key.window (else retention) with repeatability: older records may be gone'
    )]
  }
  if (window === undefined) return []
  if (!repeatable && !sources.some(({ kind }) => kind === 'hash')) {
    return [mistake(at, 'has no effect: no source is hash: or repeatability')]
  }
  if (windowMs < 2 * leaseMs) return [mistake(at, `must be at least two leases (2 x ${lease})`)]
  return repeatable && windowMs > retentionMs
    ? [mistake(at, `must be at most retention (${retention}): older records may be gone`)]
    : []
}

function checkTimes (policy: IdempotencyFile, path: Path, upstreamTimeoutMs: number | null): Mistake[] {
  const ms = (text: string) => parseDuration(text) ?? 0
  const [leaseMs, retentionMs, unknownMs] = [ms(policy.lease), ms(policy.retention), ms(policy.unknownRetention)]
  const sendingMs = (upstreamTimeoutMs ?? 0) + leaseMs
  const rules: Array<[broken: boolean, name: readonly string[], message: string]> = [
    // An operator's delete and a copy in Redis both take two leases. A shorter retention would end before them.
    [retentionMs < 2 * leaseMs, ['retention'], `must be at least two leases (2 x ${policy.lease})`],
    [unknownMs < 2 * leaseMs, ['unknownRetention'], `must be at least two leases (2 x ${policy.lease})`],
    // Until then the first sending may be in flight, and the key must not run again beside it.
    [
      upstreamTimeoutMs !== null && unknownMs >= 2 * leaseMs && unknownMs < sendingMs,
      ['unknownRetention'],
      'must be at least the upstream\'s timeout and a lease: until then the first sending may be in flight'
    ],
    [ms(policy.inFlight.wait) > ms(policy.answerWithin), ['inFlight', 'wait'], `is longer than answerWithin (${policy.answerWithin})`],
    [
      policy.onMismatch.action === 'replay' && policy.fingerprint === 'none',
      ['onMismatch', 'action'],
      'has no effect with fingerprint none: nothing is compared'
    ]
  ]
  return rules.flatMap(([broken, name, message]) => broken ? [mistake([...path, ...name], message)] : [])
}

/** Most bytes of bodies that one execution of the route holds in memory. */
export function bodyBytesMax (policy: IdempotencyFile): number {
  return (parseSize(policy.keep.requestBytesMax) ?? 0) + (parseSize(policy.keep.responseBytesMax) ?? 0)
}
