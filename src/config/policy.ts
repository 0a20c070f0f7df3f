/** Turns a checked file into the program's own shapes: resolves units and references, and applies profiles. Checks nothing. */
import { resolve } from 'node:path'
import { adminAuthOf, adminAuthWarnings, adminHosts } from './admin-auth.ts'
import { isClientsKey } from '../core/key/sources.ts'
import type { IdempotencyPolicy, IssuedKeysPolicy, KeepPolicy, KeyPolicy, Route, UpstreamPolicy } from '../core/policy/policy.ts'
import { routeMatch } from './routes/check.ts'
import type { Config, PostgresConfig, PostgresTlsConfig } from './config.ts'
import { corsOf } from './cors.ts'
import { fingerprintOf } from './routes/fingerprint.ts'
import { attemptsOfSchedule } from './routes/delivered.ts'
import { inboxOf } from './routes/inbox.ts'
import { spreadTargets } from './routes/targets.ts'
import { listenerTlsOf, listenerTlsWarnings } from './listener-tls.ts'
import { issuedKeysOf, jwtOf } from './issued-keys.ts'
import { dropOf } from './routes/drop.ts'
import { probeOf } from './routes/probe.ts'
import { keyHeaderOf, readKeySources } from './routes/key-source.ts'
import { redisOf } from './redis.ts'
import { readScope } from './routes/scope.ts'
import type { ConfigFile, UpstreamFile } from './schema.ts'
import { INBOX_MODE_DEFAULTS, RELAY_DEFAULTS, shortenWait } from './routes/schema.ts'
import type { IdempotencyFile, RouteFile } from './routes/schema.ts'
import type { SecretsRead } from './read/secret-files.ts'
import { isTree, valueAt } from './read/tree.ts'
import { parseDuration, parseSize } from './read/units.ts'
import { otlpOf } from './telemetry.ts'
import { verifyOf, verifyWarnings } from './routes/verify.ts'

/** `name`: of the file, or null. `base`: the directory of relative file names. */
/** `sources`: which members were read from files. */
export function configOf (
  file: ConfigFile,
  { name, base, sources }: { readonly name: string | null, readonly base: string, readonly sources: SecretsRead['sources'] }
): Omit<Config, 'printed'> {
  const upstreams = Object.entries(file.upstreams).map(([upstream, entry]) => upstreamOf(upstream, entry))
  const issuedKeys = issuedKeysOf(file.issuedKeys, base)
  return {
    file: name,
    dataDir: resolve(file.dataDir),
    secrets: [file.secret, file.previousSecret].flatMap((text) => text === undefined ? [] : [Buffer.from(text, 'utf8')]),
    problemBaseUri: file.problemBaseUri,
    listen: { host: file.listen.host, port: file.listen.port, tls: listenerTlsOf(file.listen.tls, base) },
    admin: {
      host: file.admin.host,
      port: file.admin.port,
      tls: listenerTlsOf(file.admin.tls, base),
      hosts: adminHosts(file.admin),
      token: file.admin.token ?? null,
      auth: adminAuthOf(file.admin.auth, base),
      readiness: file.admin.readiness
    },
    trustProxies: file.trustProxies,
    stores: { postgres: postgresOf(file, base, sources.get('stores.postgres.url')?.file ?? null), redis: redisOf(file.stores.redis) },
    workers: file.workers,
    limits: {
      executions: file.limits.executions,
      waiters: file.limits.waiters,
      inFlightPerScope: file.limits.inFlightPerScope,
      bufferedBytes: bytes(file.limits.bufferedBytes),
      unsettledBytes: bytes(file.limits.unsettledBytes),
      recentBytes: bytes(file.limits.recentBytes),
      connections: file.limits.connections,
      share: file.limits.share,
      eventLoopDelayMs: ms(file.limits.eventLoopDelay),
      requestBodyMs: ms(file.limits.requestBody),
      clientIdleMs: ms(file.limits.clientIdle),
      tunnelIdleMs: ms(file.limits.tunnelIdle)
    },
    drain: { delayMs: ms(file.drain.delay), timeoutMs: ms(file.drain.timeout) },
    log: file.log,
    otlp: otlpOf(file.telemetry),
    issuedKeys,
    cors: corsOf(file.cors),
    upstreams,
    routes: file.routes.map((route) => routeOf(route, { upstreams, issuedKeys, base })),
    warnings: [
      ...adminAuthWarnings(file.admin.auth),
      ...listenerTlsWarnings('listen', file.listen.tls, base),
      ...listenerTlsWarnings('admin', file.admin.tls, base),
      ...verifyWarnings(file.routes)
    ]
  }
}

/**
 * Adds the defaults of profile and mode where the file has no value, in place. Runs before the schema fills in the defaults of `api`.
 * Maps are merged. Lists and scalars of the file stay unchanged.
 */
export function spreadProfiles (tree: unknown): void {
  const routes = valueAt(tree, ['routes'])
  if (!Array.isArray(routes)) return
  for (const route of routes) {
    const policy = valueAt(route, ['idempotency'])
    if (isTree(policy) && policy.profile === 'relay') underlay(policy, RELAY_DEFAULTS)
    if (isTree(policy) && policy.mode === 'inbox') underlay(policy, INBOX_MODE_DEFAULTS)
    if (isTree(policy) && policy.mode === 'drop') policy.drop ??= {}
    if (isTree(policy) && isTree(policy.inbox)) {
      spreadTargets(policy.inbox)
      attemptsOfSchedule(policy.inbox)
    }
    if (isTree(policy)) shortenWait(policy)
  }
}

function underlay (tree: Record<string, unknown>, defaults: object): void {
  for (const [name, value] of Object.entries(defaults)) {
    if (!Object.hasOwn(tree, name)) tree[name] = structuredClone(value)
    else if (isTree(tree[name]) && isTree(value)) underlay(tree[name], value)
  }
}

function postgresOf ({ stores: { postgres } }: ConfigFile, base: string, urlFile: string | null): PostgresConfig | null {
  if (postgres?.url === undefined) return null
  const { url, schema, tls, prepared, migrate, patroni, claimTimeout } = postgres
  const files = tls === undefined ? null : tlsOf(tls, base)
  return { url, urlFile, schema, tls: files, prepared, migrate, patroni, claimTimeoutMs: ms(claimTimeout) }
}

function tlsOf ({ caFile, certFile, keyFile }: { caFile?: string, certFile?: string, keyFile?: string }, base: string): PostgresTlsConfig {
  const at = (file: string | undefined): string | null => file === undefined ? null : resolve(base, file)
  return { caFile: at(caFile), certFile: at(certFile), keyFile: at(keyFile) }
}

function upstreamOf (name: string, file: UpstreamFile): UpstreamPolicy {
  return {
    name,
    origin: new URL(file.url).origin,
    timeoutMs: ms(file.timeout),
    connectTimeoutMs: ms(file.connectTimeout),
    keepAliveMs: ms(file.keepAlive),
    connectionsMax: file.connections,
    passThroughMax: file.passThrough,
    idleMs: ms(file.idleTimeout),
    host: file.host,
    hops: { none: file.hops === 'none', header: file.applicationHeader?.toLowerCase() ?? null },
    ca: file.ca ?? null,
    requestHeaders: Object.entries(file.requestHeaders)
  }
}

interface PolicyContext {
  readonly upstreams: readonly UpstreamPolicy[]
  readonly issuedKeys: IssuedKeysPolicy | null
  readonly base: string
}

function routeOf (route: RouteFile, { upstreams, issuedKeys, base }: PolicyContext): Route {
  const upstream = upstreams.find(({ name }) => name === route.upstream)
  if (upstream === undefined) throw new Error(`no upstream ${route.upstream}: the check let it pass`)
  return {
    name: route.name ?? route.match.path,
    match: routeMatch(route),
    upstream,
    ...(route.idempotency !== undefined && route.match.methods === undefined && { restPasses: true }),
    idempotency: route.idempotency === undefined ? null : idempotencyOf(route.idempotency, { issuedKeys, base, upstream, upstreams })
  }
}

function idempotencyOf (
  file: IdempotencyFile,
  { issuedKeys, base, upstream, upstreams }: PolicyContext & { readonly upstream: UpstreamPolicy }
): IdempotencyPolicy {
  return {
    profile: file.profile,
    drop: dropOf(file),
    key: keyOf(file.key, file.retention),
    scope: sound(readScope(file.scope)),
    jwt: jwtOf(file.jwt, base),
    verify: verifyOf(file),
    issued: file.key.issued === 'required' ? issuedKeys : null,
    // Mode drop identifies an event by its key alone, so nothing is hashed.
    fingerprint: file.mode === 'drop' ? { of: [], body: 'none' } : fingerprintOf(file),
    inFlight: { waitMs: ms(file.inFlight.wait), status: file.inFlight.status },
    answerWithinMs: ms(file.answerWithin),
    unknown: file.unknown,
    probe: file.probe === undefined ? null : probeOf(file.probe, upstream),
    keep: keepOf(file.keep),
    hops: upstream.hops,
    inbox: inboxOf(file, upstreams),
    inboxFor: file.mode === 'inbox' ? 'all' : 'asked',
    retentionMs: ms(file.retention),
    unknownRetentionMs: ms(file.unknownRetention),
    leaseMs: ms(file.lease),
    recordsPerCaller: file.recordsPerCaller ?? null,
    recordsPerPeer: file.recordsPerPeer ?? null,
    onMismatch: file.onMismatch,
    onRelease: file.onRelease,
    onStoreDown: file.onStoreDown,
    forwardKey: file.forwardKey,
    retryHints: file.retryHints
  }
}

/** By default a derived key is stored as text, so that operators can see which requests counted as the same. */
function keyOf ({ from, required, syntax, store, window }: IdempotencyFile['key'], retention: string): KeyPolicy {
  const sources = sound(readKeySources(from))
  const derived = !sources.every(isClientsKey)
  return {
    sources,
    header: keyHeaderOf(sources),
    required,
    syntax,
    store: store ?? (derived ? 'text' : 'hash'),
    windowMs: ms(window ?? retention)
  }
}

function keepOf (file: IdempotencyFile['keep']): KeepPolicy {
  const lower = (names: readonly string[]) => new Set(names.map((name) => name.toLowerCase()))
  return {
    statuses: new Map(Object.entries(file.statuses).map(([status, disposition]) => [Number(status), disposition])),
    body: file.body,
    requestBytesMax: bytes(file.requestBytesMax),
    responseBytesMax: bytes(file.responseBytesMax),
    dropHeaders: lower(file.headers.drop),
    keepHeaders: lower(file.headers.keep)
  }
}

function ms (text: string): number {
  return exact(parseDuration(text), text)
}

function bytes (text: string): number {
  return exact(parseSize(text), text)
}

function exact (value: number | null, text: string): number {
  if (value === null) throw new Error(`${text}: the check let it pass`)
  return value
}

function sound<T> (read: { readonly value: T } | { readonly wrong: string }): T {
  if ('wrong' in read) throw new Error(`${read.wrong}: the check let it pass`)
  return read.value
}
