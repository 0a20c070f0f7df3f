/**
 * A gateway in this process, with a real listener, real upstream sockets, and memory stores or the test's own.
 * process-gateway.ts has processes that can be killed and restarted.
 */
import { readClocks } from '../../src/gateway/shared/clock-reading.ts'
import assert from 'node:assert/strict'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import { SYSTEM_CLOCK, SYSTEM_RANDOM } from '../../src/process/clock.ts'
import type { CorsPolicy } from '../../src/core/headers/cors.ts'
import type { GuardedRoute, IdempotencyPolicy, IssuedKeysPolicy, Route, UpstreamPolicy } from '../../src/core/policy/policy.ts'
import type { Rules } from '../../src/core/record/rules.ts'
import { recordCountSync } from '../../src/background/record-counts.ts'
import { Deliverer } from '../../src/background/deliverer.ts'
import { heartbeat } from '../../src/background/heartbeat.ts'
import { inboxDepths } from '../../src/background/inbox-depths.ts'
import { reconciler } from '../../src/background/reconciler.ts'
import { sweeper } from '../../src/background/sweeper.ts'
import { Gateway } from '../../src/gateway/gateway.ts'
import { MODES } from '../../src/process/modes.ts'
import { inboxesOf } from '../../src/core/inbox/targets.ts'
import { inboxRoutes, probedRoutes } from '../../src/gateway/shared/deps.ts'
import type { Deps } from '../../src/gateway/shared/deps.ts'
import { PeerTrust } from '../../src/http/shared/peer.ts'
import type { ListenerTls } from '../../src/http/connection/tls.ts'
import type { ServerLimits } from '../../src/http/shared/options.ts'
import { createServer } from '../../src/http/server.ts'
import { JoseVerifier } from '../../src/identity/jwt.ts'
import type { Log, Meter, PassLog, RequestLog } from '../../src/ports/telemetry.ts'
import { compileRoutes } from '../../src/routing/match.ts'
import { NO_SUBSCRIPTIONS } from '../../src/store/shared/inbox-subscriptions.ts'
import { MemoryCounts } from '../../src/store/memory/counts.ts'
import { MemoryLocks } from '../../src/store/memory/locks.ts'
import { MemoryInbox } from '../../src/store/memory/inbox.ts'
import { NO_REGISTRY } from '../../src/store/shared/no-registry.ts'
import { RouteMarks } from '../../src/store/route-marks.ts'
import { MemoryStore } from '../../src/store/memory/records.ts'
import { UndiciPassThrough } from '../../src/upstream/passer.ts'
import { UndiciUpstream } from '../../src/upstream/sender.ts'
import { call } from './call.ts'
import type { Called, CallOptions } from './call.ts'
import { eventually } from './eventually.ts'
import { SIGN } from './sign.ts'
import { startWitness } from './witness.ts'
import type { Behaviour, Witness } from './witness.ts'

export const SILENT: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

export function recordingLog (): Log & { readonly lines: Array<{ level: string, message: string } & Record<string, unknown>> } {
  const lines: Array<{ level: string, message: string } & Record<string, unknown>> = []
  const at = (level: string) => (fields: object, message: string): void => { lines.push({ level, message, ...fields }) }
  return { lines, debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

/** A meter that counts calls by name, for tests of counters. */
export function countingMeter (): Meter & { readonly counts: Map<string, number> } {
  const counts = new Map<string, number>()
  const count = (name: string): void => { counts.set(name, (counts.get(name) ?? 0) + 1) }
  const meter = new Proxy({ counts }, { get: (target, name) => name === 'counts' ? target.counts : () => { count(String(name)) } })
  return meter as unknown as Meter & { readonly counts: Map<string, number> }
}

export function upstreamPolicy (url: string, changes: Partial<UpstreamPolicy> = {}): UpstreamPolicy {
  return {
    name: 'test',
    origin: url,
    timeoutMs: 10_000,
    connectTimeoutMs: 1_000,
    keepAliveMs: 4_000,
    connectionsMax: 100,
    passThroughMax: 100,
    idleMs: 10_000,
    host: 'upstream',
    hops: { none: false, header: null },
    ca: null,
    requestHeaders: [],
    ...changes
  }
}

export function apiPolicy (changes: Partial<IdempotencyPolicy> = {}): IdempotencyPolicy {
  return {
    profile: 'api',
    drop: null,
    key: {
      sources: [{ kind: 'header', name: 'idempotency-key' }],
      header: 'idempotency-key',
      required: false,
      syntax: 'lenient',
      store: 'hash',
      windowMs: 86_400_000
    },
    scope: { kind: 'credential', anonymous: true, cookies: 'refuse' },
    jwt: null,
    verify: null,
    issued: null,
    fingerprint: { of: ['method', 'target', 'mediaType', 'body'], body: 'auto' },
    inFlight: { waitMs: 0, status: 409 },
    answerWithinMs: 10_000,
    unknown: 'hold',
    probe: null,
    keep: {
      statuses: new Map(),
      body: true,
      requestBytesMax: 1024 * 1024,
      responseBytesMax: 256 * 1024,
      dropHeaders: new Set(),
      keepHeaders: new Set()
    },
    hops: { none: false, header: null },
    retentionMs: 3_600_000,
    unknownRetentionMs: 7_200_000,
    leaseMs: 15_000,
    recordsPerCaller: null,
    recordsPerPeer: null,
    onMismatch: { action: 'reject', status: 422 },
    onRelease: { action: 'pass', status: 503 },
    onStoreDown: 'reject',
    forwardKey: true,
    retryHints: false,
    inbox: null,
    inboxFor: 'asked',
    ...changes
  }
}

export function relayPolicy (changes: Partial<IdempotencyPolicy> = {}): IdempotencyPolicy {
  return apiPolicy({
    profile: 'relay',
    inFlight: { waitMs: 3_000, status: 503 },
    unknown: 'retry',
    onRelease: { action: 'retry', status: 503 },
    fingerprint: { of: ['method', 'target'], body: 'none' },
    ...changes
  })
}

export function guardedRoute (url: string, policy: Partial<IdempotencyPolicy> = {}, upstream: Partial<UpstreamPolicy> = {}): GuardedRoute {
  return {
    name: 'things',
    match: { path: '/*', methods: ['POST', 'PATCH'], host: null, exact: false },
    upstream: upstreamPolicy(url, upstream),
    idempotency: apiPolicy(policy)
  }
}

/** Limits that only tests of a bound reach. */
export const SERVER_LIMITS: ServerLimits = {
  connections: 10_000,
  share: 1,
  eventLoopDelayMs: 0,
  requestBodyMs: 60_000,
  clientIdleMs: 30_000,
  tunnelIdleMs: 60_000
}

export interface TestGateway {
  readonly url: string
  readonly gateway: Gateway
  readonly world: Deps
  /** Open client connections of the gateway, the tunnels among them, and requests that pass through. */
  readonly held: () => { readonly connections: number, readonly tunnels: number, readonly passing: number }
  /** The end of a drain: cuts open connections. */
  readonly cut: () => void
  close: () => Promise<void>
}

export interface TestGatewayOptions {
  readonly routes: readonly Route[]
  readonly world?: Partial<Deps>
  readonly issuedKeys?: IssuedKeysPolicy
  readonly cors?: CorsPolicy
  readonly trustProxies?: readonly string[]
  /** The rules of the scheme in the store. Absent: 1. */
  readonly rules?: Rules
  readonly background?: boolean
  /** The share of an upstream's connections. Absent: no shares. */
  readonly share?: number
  /** Absent: {@link SERVER_LIMITS}. */
  readonly server?: Partial<ServerLimits>
  /** Gets the log line of each request. */
  readonly requests?: RequestLog
  /** Gets that of each request that passes through. Absent: nobody does. */
  readonly passes?: PassLog
  /** Absent: plain HTTP. */
  readonly tls?: ListenerTls
}

export async function startGateway (
  t: Pick<TestContext, 'after'>,
  {
    routes,
    world: changes = {},
    issuedKeys,
    cors,
    trustProxies = [],
    rules = 1,
    background = true,
    share = 1,
    server: serverLimits = {},
    requests = { note: () => {} },
    passes,
    tls
  }: TestGatewayOptions
): Promise<TestGateway> {
  const leases = routes.flatMap((route) => route.idempotency === null ? [] : [route.idempotency.leaseMs])
  const known = [...routes, ...inboxesOf(routes)].map(({ upstream }) => [`${upstream.name} ${upstream.origin}`, upstream] as const)
  const upstreams = Array.from(new Map(known).values())
  const nowMs = (changes.clock ?? SYSTEM_CLOCK).wallMs
  const world: Deps = {
    records: new MemoryStore({ nowMs, scheme: String(rules) }),
    locks: new MemoryLocks({ nowMs }),
    inbox: new MemoryInbox({ nowMs }),
    wakes: NO_SUBSCRIPTIONS,
    registry: NO_REGISTRY,
    counts: new MemoryCounts(nowMs),
    marks: new RouteMarks((changes.clock ?? SYSTEM_CLOCK).monotonicMs, false),
    upstream: new UndiciUpstream(upstreams, share),
    tokens: new JoseVerifier({ clock: changes.clock ?? SYSTEM_CLOCK, log: changes.log ?? SILENT }),
    clock: SYSTEM_CLOCK,
    random: SYSTEM_RANDOM,
    meter: countingMeter(),
    log: SILENT,
    deliveryLog: { note: () => {} },
    instance: 'test',
    probed: probedRoutes(routes),
    inboxes: inboxRoutes(routes),
    limits: {
      share: 1,
      executions: 1_000,
      waiters: 1_000,
      inFlightPerScope: 0,
      bufferedBytes: 64 * 1024 * 1024,
      unsettledBytes: 1024 * 1024,
      recentBytes: 32 * 1024 * 1024
    },
    claimWithinMs: 2_000,
    longestLeaseMs: Math.max(...leases, 1),
    copyTtlMs: 60_000,
    ...changes
  }
  const gateway = new Gateway(world, MODES, Math.min(...leases))
  await gateway.ids.refresh().catch(() => {})
  gateway.registration.reconfigure(routes)
  const passing = new UndiciPassThrough(upstreams, share)
  const { server, connections, tunnels, cut } = createServer({
    gateway,
    passing,
    routes: compileRoutes(routes),
    problemBaseUri: 'urn:onceway:problem:',
    peers: new PeerTrust(trustProxies),
    limits: { ...SERVER_LIMITS, ...serverLimits },
    log: world.log,
    meter: world.meter,
    requests,
    ...passes !== undefined && { passes },
    closing: () => false,
    issuedKeys: issuedKeys ?? null,
    cors: cors ?? null
  }, tls)
  const services = background
    ? [
        heartbeat(gateway).start(),
        sweeper(gateway).start(),
        reconciler(gateway).start(),
        inboxDepths(gateway).start(),
        recordCountSync(gateway).start(),
        new Deliverer(gateway).start()
      ]
    : []
  // Without a heartbeat it would not know the generation of copies in Redis.
  if (!background) {
    gateway.generation.heartbeat = async () => {
      const asked = readClocks(gateway.deps.clock)
      gateway.generation.learn((await world.records.beat(SIGN)).generation, asked)
    }
    await gateway.generation.heartbeat().catch(() => {})
  }
  await server.listen({ host: '127.0.0.1', port: 0 })
  let closed: Promise<void> | null = null
  const close = async (): Promise<void> => {
    gateway.drain.advance('draining')
    gateway.cutOff()
    await eventually(() => bookIsEmpty(gateway), () => `the gateway still holds ${heldBy(gateway)}`)
    await Promise.all(services.map(async (service) => { await service.stop() }))
    gateway.stop()
    cut()
    await server.close()
    await Promise.all([world.upstream.close(), passing.close()])
    assert.equal(heldBy(gateway), heldBy(null))
  }
  const closeOnce = async (): Promise<void> => { await (closed ??= close()) }
  t.after(closeOnce)
  return {
    url: `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${(server.server.address() as AddressInfo).port}`,
    gateway,
    world,
    held: () => ({ connections: connections(), tunnels: tunnels(), passing: passing.size }),
    cut,
    close: closeOnce
  }
}

/** Scopes are made by these rules from now on. Ids are made as before ({@link switchRules}). */
export function underRules (gateway: Gateway, rules: Rules): void {
  Object.defineProperty(gateway.ids, 'rules', { value: rules, configurable: true })
}

/** Switches the database to other rules under a running gateway. */
export async function switchRules ({ gateway, world }: Pick<TestGateway, 'gateway' | 'world'>, rules: Rules): Promise<void> {
  const { kind } = (world.records as MemoryStore).switchScheme(String(rules))
  assert.equal(kind, 'switched')
  await gateway.ids.refresh()
}

/** Checks that a test leaves nothing behind. */
function heldBy (gateway: Gateway | null): string {
  const { executions = 0, deliveries = 0, waiters = 0, callers = 0, bufferedBytes = 0, unsettledBytes = 0 } = gateway === null
    ? {}
    : {
        executions: gateway.executionsInFlight,
        deliveries: gateway.drain.deliveries.size,
        waiters: gateway.limits.waiting.held,
        callers: gateway.limits.callerSlots.size,
        bufferedBytes: gateway.limits.buffered.held,
        unsettledBytes: gateway.limits.unsettled.held
      }
  return `${executions} executions, ${deliveries} deliveries, ${waiters} waiters, ${callers} callers, ${bufferedBytes} buffered and ${unsettledBytes} unsettled bytes`
}

function bookIsEmpty (gateway: Gateway): boolean {
  return heldBy(gateway) === heldBy(null)
}

export interface GuardedOptions extends Omit<TestGatewayOptions, 'routes'> {
  readonly policy?: Partial<IdempotencyPolicy>
  readonly upstream?: Partial<UpstreamPolicy>
  readonly answer?: Behaviour
}

export interface Guarded extends TestGateway {
  readonly witness: Witness
  /** A POST to /things with this key. */
  readonly ask: (key: string, options?: CallOptions) => Promise<Called>
}

/** The usual fixture: one witness, one guarded route to it, one gateway. */
export async function startGuarded (
  t: TestContext,
  { policy = {}, upstream = {}, answer, ...options }: GuardedOptions = {}
): Promise<Guarded> {
  const witness = await startWitness(answer)
  const started = await startGateway(t, { ...options, routes: [guardedRoute(witness.url, policy, upstream)] })
  t.after(async () => { await started.close(); await witness.close() })
  const ask = async (key: string, { headers = {}, ...more }: CallOptions = {}): Promise<Called> =>
    call(started.url, '/things', { body: 'same', ...more, headers: { 'Idempotency-Key': key, ...headers } })
  return { ...started, witness, ask }
}
