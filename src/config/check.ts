/**
 * The rules that the schema cannot express, such as which settings exclude each other. The tree has its defaults. Parts that the schema
 * refuses are skipped, and all others are checked, so that one run reports every mistake.
 */
import { SECRET_BYTES_MIN } from '../core/record/schemes.ts'
import { hides } from '../routing/match.ts'
import { checkAdminAuth } from './admin-auth.ts'
import { areAuthorities } from './certificates.ts'
import { bodyBytesMax, checkIdempotency, routeMatch } from './routes/check.ts'
import { checkCors } from './cors.ts'
import { checkIssuedKeys, checkOnlyIssued } from './issued-keys.ts'
import { checkCertificateScope, checkListenerTls } from './listener-tls.ts'
import { isNetwork } from './networks.ts'
import { didYouMean } from './read/nearest.ts'
import { mistake, pathText, printable } from './read/problem.ts'
import type { Mistake, Path } from './read/problem.ts'
import { checkRedis } from './redis.ts'
import type { ConfigFile, UpstreamFile } from './schema.ts'
import type { IdempotencyFile, RouteFile } from './routes/schema.ts'
import type { InboxFile } from './routes/schema-inbox.ts'
import { parseDuration, parseSize } from './read/units.ts'
import { checkTelemetry } from './telemetry.ts'

/** Fields that `requestHeaders` must not set: a static value would break framing, record ids, or the chain of proxies. */
const PROTECTED_HEADER = /^(host|content-length|content-type|content-encoding|transfer-encoding|connection|keep-alive|proxy-connection|te|trailer|upgrade|expect|accept-encoding|via|forwarded|x-forwarded-.*|x-request-id|traceparent|tracestate|idempotency-.*|onceway[-_].*)$/i
const SAFE_METHODS = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'CONNECT'])

/** `broken`: paths that the schema still refuses. `base`: the directory of relative file names. */
export function check (file: ConfigFile, broken: readonly Path[], base: string): Mistake[] {
  const sound = (path: Path) => !broken.some((other) => touches(path, other))
  const routes = sound(['routes']) || Array.isArray(file.routes) ? [...file.routes.entries()] : []
  return [
    ...checkSecrets(file),
    ...checkPorts(file),
    ...checkListenerTls(['listen', 'tls'], file.listen.tls, base),
    ...checkListenerTls(['admin', 'tls'], file.admin.tls, base),
    ...checkAdminAuth(file.admin.auth, file.admin.token, sound, base),
    ...file.trustProxies.flatMap((text, index) => sound(['trustProxies', index]) ? checkProxy(text, index) : []),
    ...(sound(['limits', 'eventLoopDelay']) ? checkEventLoopDelay(file) : []),
    ...checkStores(file),
    ...(sound(['workers']) && sound(['stores']) ? checkWorkers(file) : []),
    ...(sound(['issuedKeys']) ? checkIssuedKeys(file.issuedKeys, base) : []),
    ...(sound(['issuedKeys']) ? checkCertificateScope(['issuedKeys', 'scope'], file.issuedKeys?.scope ?? [], file.listen.tls) : []),
    ...(sound(['cors']) ? checkCors(file.cors) : []),
    ...(sound(['telemetry']) ? checkTelemetry(file.telemetry) : []),
    ...Object.entries(file.upstreams ?? {}).flatMap(([name, upstream]) =>
      sound(['upstreams', name, 'url']) ? checkUpstream(name, upstream) : []),
    ...routes.flatMap(([index, route]) => checkRoute(route, index, file, base, sound)),
    ...checkNames(routes, sound),
    ...checkHidden(routes.filter(([index]) => sound(['routes', index, 'match'])))
  ]
}

function touches (path: Path, other: Path): boolean {
  const shorter = Math.min(path.length, other.length)
  return pathText(path.slice(0, shorter)) === pathText(other.slice(0, shorter))
}

function checkSecrets ({ secret, previousSecret }: ConfigFile): Mistake[] {
  const short = ([, text]: readonly [string, string | undefined]): boolean =>
    text !== undefined && Buffer.byteLength(text) < SECRET_BYTES_MIN
  return [
    ...([['secret', secret], ['previousSecret', previousSecret]] as const).filter(short).map(([name]) =>
      mistake([name], `must have at least ${SECRET_BYTES_MIN} random bytes; \`openssl rand -base64 32\` makes one`)),
    ...(previousSecret !== undefined && secret === undefined
      ? [mistake(['previousSecret'], 'needs secret: it is the previous one', 'key')]
      : []),
    ...(previousSecret !== undefined && previousSecret === secret ? [mistake(['previousSecret'], 'is the same as secret')] : [])
  ]
}

function checkPorts ({ listen, admin }: ConfigFile): Mistake[] {
  if (listen.port !== admin.port || listen.port === 0) return []
  return [mistake(['admin', 'port'], `is the port of listen too (${listen.port}); the admin port must differ`)]
}

/** Ordinary work, such as a garbage collection or a large body, delays the event loop by up to this time. */
const EVENT_LOOP_DELAY_LEAST_MS = 50

function checkEventLoopDelay ({ limits }: ConfigFile): Mistake[] {
  const delayMs = parseDuration(limits.eventLoopDelay) ?? 0
  if (delayMs === 0 || delayMs >= EVENT_LOOP_DELAY_LEAST_MS) return []
  return [mistake(
    ['limits', 'eventLoopDelay'],
    `must be at least ${EVENT_LOOP_DELAY_LEAST_MS}ms, because ordinary work delays the loop by less; or 0s for no limit`
  )]
}

function checkProxy (text: string, index: number): Mistake[] {
  return isNetwork(text)
    ? []
    : [mistake(['trustProxies', index], `"${printable(text)}" is no address and no CIDR block; write 10.0.0.0/8 or fd00::/8`)]
}

function checkStores ({ stores: { postgres, redis } = {} }: ConfigFile): Mistake[] {
  return [
    ...(postgres === undefined ? [] : [...checkPostgresUrl(postgres.url), ...checkTls(postgres)]),
    ...(redis === undefined ? [] : checkRedis(redis))
  ]
}

/** TLS settings in both the URL and the `tls` block would contradict each other. */
function checkTls ({ url, tls }: NonNullable<NonNullable<ConfigFile['stores']>['postgres']>): Mistake[] {
  if (tls === undefined) return []
  const path = ['stores', 'postgres', 'tls']
  const said = /[?&](ssl\w*|uselibpqcompat)=/.exec(url ?? '')?.[1]
  return [
    ...(said === undefined ? [] : [mistake(path, `conflicts with ${said}= in the url: set only one`, 'key')]),
    ...((tls.certFile === undefined) === (tls.keyFile === undefined) ? [] : [mistake(path, 'needs certFile and keyFile together', 'key')])
  ]
}

function checkWorkers ({ workers, stores }: ConfigFile): Mistake[] {
  if (workers === 'auto' || workers === 1 || stores?.postgres !== undefined) return []
  return [mistake(['workers'], 'must be 1 without Postgres (auto is 1 then): the embedded store belongs to one process')]
}

/** The messages never show the URL, because it may have a password. */
function checkPostgresUrl (url: string | undefined): Mistake[] {
  const path = ['stores', 'postgres', 'url']
  if (url === undefined) return [mistake(path, 'is missing; the postgres block needs one (postgres://user@host:5432/database)', 'key')]
  const fits = URL.canParse(url) && /^postgres(ql)?:$/.test(new URL(url).protocol)
  return fits ? [] : [mistake(path, 'is no postgres URL; write postgres://user@host:5432/database')]
}

function checkUpstream (name: string, { url, ca, requestHeaders }: UpstreamFile): Mistake[] {
  const wrong = wrongOrigin(url)
  return [
    ...(wrong === null ? [] : [mistake(['upstreams', name, 'url'], wrong)]),
    ...(ca === undefined || areAuthorities(ca) ? [] : [mistake(['upstreams', name, 'ca'], 'is no certificate in PEM')]),
    ...(ca !== undefined && wrong === null && new URL(url).protocol === 'http:'
      ? [mistake(['upstreams', name, 'ca'], 'needs https:// in the url', 'key')]
      : []),
    ...Object.entries(requestHeaders ?? {}).flatMap(([header, value]) => {
      const path = ['upstreams', name, 'requestHeaders', header]
      if (PROTECTED_HEADER.test(header)) return [mistake(path, 'is set by the gateway or by HTTP itself and cannot be overridden', 'key')]
      // RFC 9110 5.5: visible characters, spaces and tabs. Anything else could end the field.
      return /^[\t\x20-\x7e\x80-\xff]*$/.test(value) ? [] : [mistake(path, 'has characters that no header may have')]
    })
  ]
}

/** Why an upstream's URL is wrong, or null. */
function wrongOrigin (text: string): string | null {
  if (!URL.canParse(text)) return 'is no URL; write http://host:port'
  const url = new URL(text)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    return `has the scheme ${url.protocol.slice(0, -1)}; write http://host:port or https://host:port`
  }
  if (url.username !== '' || url.password !== '') return 'has credentials in it; set them under requestHeaders'
  // URL parsing adds a slash and drops an empty `?` or `#`, so the text itself is checked.
  if (!/^https?:\/\/[^/?#\\]+\/?$/i.test(text)) return 'has a path or a query after the host; requests are forwarded with their own path'
  return null
}

function needsName (inbox: InboxFile | undefined): boolean {
  return inbox?.targets !== undefined || inbox?.deadLetter !== undefined
}

function checkRoute (route: RouteFile, index: number, file: ConfigFile, base: string, sound: (path: Path) => boolean): Mistake[] {
  const path = ['routes', index]
  const upstream = sound([...path, 'upstream']) ? file.upstreams?.[route.upstream] : undefined
  const unknown = upstream === undefined && sound([...path, 'upstream']) && sound(['upstreams', route.upstream])
  const guarded = sound([...path, 'idempotency']) ? route.idempotency : undefined
  return [
    ...(unknown
      ? [mistake([...path, 'upstream'], `"${printable(route.upstream)}" names no upstream; there ${namesText(Object.keys(file.upstreams ?? {}))}${didYouMean(route.upstream, Object.keys(file.upstreams ?? {}))}`)]
      : []),
    ...(sound([...path, 'match']) ? checkMatch(route, index) : []),
    ...(needsName(guarded?.inbox) && route.name === undefined
      ? [mistake([...path, 'name'], 'is missing: a route with inbox.targets or inbox.deadLetter needs one, which begins the names of their inboxes', 'key')]
      : []),
    ...(guarded === undefined ? [] : checkBuffer(guarded, file, path)),
    ...(guarded === undefined ? [] : checkCertificateScope([...path, 'idempotency', 'scope'], guarded.scope, file.listen.tls)),
    ...(guarded === undefined || !sound(['issuedKeys']) ? [] : checkOnlyIssued(guarded, file.issuedKeys, [...path, 'idempotency'])),
    ...(guarded === undefined
      ? []
      : checkIdempotency(guarded, {
        path: [...path, 'idempotency'],
        match: sound([...path, 'match', 'path']) ? route.match : { path: '' },
        base,
        upstreams: sound(['upstreams']) ? Object.keys(file.upstreams ?? {}) : null,
        redis: file.stores?.redis !== undefined && file.stores.postgres !== undefined,
        upstreamTimeoutMs: upstream === undefined || !sound(['upstreams', route.upstream]) ? null : parseDuration(upstream.timeout)
      }))
  ]
}

/** The bodies of one execution must fit into `bufferedBytes`. Otherwise the route always refuses its largest requests. */
function checkBuffer (guarded: IdempotencyFile, { limits }: ConfigFile, path: Path): Mistake[] {
  const fits = bodyBytesMax(guarded) <= (parseSize(limits.bufferedBytes) ?? 0)
  return fits
    ? []
    : [mistake(
        [...path, 'idempotency', 'keep', 'requestBytesMax'],
      `and responseBytesMax together are more than limits.bufferedBytes (${limits.bufferedBytes})`
      )]
}

function namesText (names: readonly string[]): string {
  return names.length === 0 ? 'are none' : `${names.length === 1 ? 'is' : 'are'} ${names.join(', ')}`
}

function checkMatch ({ match, idempotency }: RouteFile, index: number): Mistake[] {
  const path = ['routes', index, 'match']
  const wrong = wrongPath(match.path)
  const safe = (match.methods ?? []).filter((method) => idempotency !== undefined && SAFE_METHODS.has(method.toUpperCase()))
  return [
    ...(wrong === null ? [] : [mistake([...path, 'path'], wrong)]),
    ...(safe.length > 0
      ? [mistake([...path, 'methods'], `${safe.join(', ')} cannot be guarded: a safe method may be repeated as it is`)]
      : []),
    ...(idempotency !== undefined && match.methods?.length === 0
      ? [mistake([...path, 'methods'], 'is empty; a guarded route names its methods')]
      : []),
    ...(match.host !== undefined && !/^[A-Za-z0-9.-]+$|^\[[0-9A-Fa-f:.]+\]$/.test(match.host)
      ? [mistake([...path, 'host'], 'is no host name; write it without scheme and port')]
      : [])
  ]
}

function wrongPath (path: string): string | null {
  const segments = path.split('/').slice(1)
  if (/[?#\\\s]/.test(path)) return 'must be a path alone, without query, fragment, backslash or space'
  if (segments.some((segment) => /^(\.|%2e){1,2}$/i.test(segment))) return 'has a dot segment; requests with one get 400'
  if (segments.slice(0, -1).some((segment) => segment.includes('*')) || !/^[^*]*$|^\*$/.test(segments.at(-1) ?? '')) {
    return 'may have a * only as its last segment: /v1/*'
  }
  if (segments.some((segment) => segment.startsWith(':') && !/^:[A-Za-z_][A-Za-z0-9_]*$/.test(segment))) {
    return 'has a parameter without a name; write :id'
  }
  return null
}

function checkNames (routes: ReadonlyArray<[number, RouteFile]>, sound: (path: Path) => boolean): Mistake[] {
  const seen = new Map<string, number>()
  return routes.flatMap(([index, route]) => {
    if (!sound(['routes', index, 'name'])) return []
    const path = ['routes', index, 'name']
    if (route?.name === undefined) {
      return route?.idempotency === undefined
        ? []
        : [mistake(path, 'is missing; a guarded route has one, because it is part of every record\'s identity', 'key')]
    }
    const first = seen.get(route.name)
    if (first === undefined) seen.set(route.name, index)
    return first === undefined ? [] : [mistake(path, `is the name of routes[${first}] too`)]
  })
}

function checkHidden (routes: ReadonlyArray<[number, RouteFile]>): Mistake[] {
  const matches = routes
    .filter(([, { match }]) => wrongPath(match.path) === null)
    .map(([index, route]) => ({ index, match: routeMatch(route) }))
  return matches.flatMap(({ index, match }, position) => {
    const earlier = matches.slice(0, position).find((other) => hides(other.match, match))
    if (earlier === undefined) return []
    return [mistake(['routes', index, 'match'], `is never reached: routes[${earlier.index}] takes every request of it first`, 'key')]
  })
}
