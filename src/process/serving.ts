/**
 * The composition root of one serving process. It opens the stores, builds the gateway and starts its background and
 * its listener, and takes them down again in order. Drivers are constructed here, in stores.ts (the stores) and in app.ts
 * (log and metrics).
 */
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { burstMemory } from '../background/burst-memory.ts'
import { recordCountSync } from '../background/record-counts.ts'
import { Deliverer } from '../background/deliverer.ts'
import { heartbeat } from '../background/heartbeat.ts'
import { inboxDepths } from '../background/inbox-depths.ts'
import { reconciler } from '../background/reconciler.ts'
import { registrar } from '../background/registration.ts'
import type { Service } from '../background/service.ts'
import { DurabilityWatch } from '../background/durability.ts'
import { sweeper } from '../background/sweeper.ts'
import { ListenerCertificates } from './certificates.ts'
import { SYSTEM_CLOCK, SYSTEM_RANDOM } from './clock.ts'
import type { Config } from '../config/config.ts'
import { leasesOf, longestRetentionOf } from '../config/derived.ts'
import type { LeaseRange } from '../config/derived.ts'
import { StoreUnavailable } from '../ports/errors.ts'
import { ArbiterClock } from '../gateway/shared/arbiter-clock.ts'
import { reportRecovered } from '../gateway/inbox/deliver.ts'
import { Gateway } from '../gateway/gateway.ts'
import { collectMemory } from './collect.ts'
import { drain, withinCloseTime } from './drain.ts'
import type { BelievedClock } from './operator-stores.ts'
import { countFromNow, measure } from './measures.ts'
import { MODES } from './modes.ts'
import { inboxRoutes, probedRoutes } from '../gateway/shared/deps.ts'
import type { Deps } from '../gateway/shared/deps.ts'
import type { Readiness } from '../http/admin.ts'
import { listen } from '../http/listen.ts'
import { PeerTrust } from '../http/shared/peer.ts'
import { createServer } from '../http/server.ts'
import type { GuardedListener } from '../http/server.ts'
import { JoseVerifier } from '../identity/jwt.ts'
import type { Marks } from '../ports/marks.ts'
import type { Meter } from '../ports/telemetry.ts'
import { compileRoutes } from '../routing/match.ts'
import { Stores } from './stores.ts'
import type { Logs } from '../telemetry/log.ts'
import { openTracing } from '../telemetry/otlp.ts'
import type { OpenTracing } from '../telemetry/otlp.ts'
import { UndiciPassThrough } from '../upstream/passer.ts'
import { UndiciUpstream } from '../upstream/sender.ts'

export interface UnderWay { readonly executions: number, readonly deliveries: number }

/** Everything of a process that serves, without its admin port. */
export interface Serving {
  readonly instance: string
  /** Where the records are. The banner shows it. */
  readonly where: readonly string[]
  readonly leases: LeaseRange
  /** The configuration that is in force. */
  readonly config: () => Config
  /** How far the clock of the store is believed. */
  readonly clock: BelievedClock
  /** The marks of a route with mode drop. */
  readonly marksOf: Marks['of']
  /** Opens the guarded listener and starts the background. Resolves with the URL. @throws StartError */
  readonly listen: () => Promise<string>
  readonly readiness: () => Readiness
  /** New requests get this configuration. Requests in flight keep the route that they matched. */
  readonly reconfigure: (next: Config) => void
  readonly underWay: () => UnderWay
  readonly drain: () => Promise<void>
  readonly close: () => Promise<void>
}

export interface ServingOptions {
  readonly logs: Logs
  readonly meter: Meter
  readonly instance: string
  /** The leases that the whole gateway knows. Absent: those of the configuration. */
  readonly leases?: LeaseRange
  /** false: another process of the same gateway logs the durability and the differences between gateways. */
  readonly logsForGateway?: boolean
  /** The descriptor of the guarded listener. Absent or null: it is opened by the configuration. */
  readonly socket?: number | null
}

/** What a reload replaces. The listener reads it anew for every request. */
interface Live { config: Config, routes: ReturnType<typeof compileRoutes>, peers: PeerTrust }

/** The drivers and the gateway that was built on them. */
interface Parts {
  readonly live: Live
  readonly stores: Stores
  readonly upstream: UndiciUpstream
  readonly passing: UndiciPassThrough
  readonly tokens: JoseVerifier
  /** null: no traces are made. */
  readonly traces: OpenTracing | null
  /** null: the listener speaks plain HTTP. */
  readonly certificates: ListenerCertificates | null
  readonly gateway: Gateway
}

type Drivers = Omit<Parts, 'gateway'>

/** What all steps of the start know. */
interface Start extends Required<ServingOptions> { readonly config: Config, readonly arbiterClock: ArbiterClock }

interface Background {
  readonly durability: DurabilityWatch
  readonly registration: Service
  readonly heartbeat: Service
  /** All but the heartbeat, which starts before them. */
  readonly services: ReadonlyArray<{ start: () => unknown, stop: () => Promise<void> }>
}

export function instanceName (): string {
  return `${hostname()}-${process.pid}`
}

/** Does not listen yet. @throws StartError if waiting cannot help. */
export async function openGateway (config: Config, options: ServingOptions): Promise<Serving> {
  const start = startOf(config, options)
  const drivers = await openDrivers(start)
  const gateway = await makeGateway(start, drivers)
  const parts = { ...drivers, gateway }
  const listener = listenerOf(start, parts)
  measure(options.meter, parts, listener)
  const background = backgroundOf(start, parts, listener)
  background.heartbeat.start()
  // Before the listener opens. A client may send as soon as this process reports ready.
  await redisInUse(drivers.stores)
  return servingOf(start, parts, listener, background)
}

function startOf (config: Config, options: ServingOptions): Start {
  const { logs: { log }, meter, instance, leases = leasesOf(config), logsForGateway = true, socket = null } = options
  const arbiterClock = new ArbiterClock({
    clock: SYSTEM_CLOCK,
    random: SYSTEM_RANDOM,
    log,
    meter,
    instance,
    shortestLeaseMs: leases.shortestMs,
    longestKeepMs: longestRetentionOf(config)
  })
  return { ...options, leases, logsForGateway, socket, config, arbiterClock }
}

async function openDrivers ({ config, logs: { log }, meter, instance, leases, arbiterClock }: Start): Promise<Drivers> {
  const live = liveOf(config)
  const traces = config.otlp === null ? null : await openTracing(config.otlp, { log, meter, instance })
  // Before a store is opened: this can fail.
  const certificates = ListenerCertificates.open('listen', config.listen.tls, { log, meter })
  const stores = await Stores.open(config, {
    log,
    meter,
    instance,
    shortestLeaseMs: leases.shortestMs,
    believedMs: arbiterClock.believedMs,
    readClock: async (records) => { await arbiterClock.beat(records) }
  })
  return {
    live,
    stores,
    upstream: new UndiciUpstream(config.upstreams, config.limits.share),
    passing: new UndiciPassThrough(config.upstreams, config.limits.share),
    tokens: new JoseVerifier({ clock: SYSTEM_CLOCK, log }),
    traces,
    certificates
  }
}

async function makeGateway (
  { config, logs, meter, instance, leases, arbiterClock }: Start,
  { stores, upstream, tokens, traces }: Drivers
): Promise<Gateway> {
  const settings = settingsOf(config, stores.secrets)
  const gateway = new Gateway({
    ...settings,
    longestLeaseMs: Math.max(settings.longestLeaseMs, leases.longestMs),
    records: stores.records,
    locks: stores.locks,
    inbox: stores.inbox,
    wakes: stores.wakes,
    registry: stores.registry,
    counts: stores.counts,
    marks: stores.marks,
    upstream,
    tokens,
    clock: SYSTEM_CLOCK,
    arbiterClock,
    random: SYSTEM_RANDOM,
    meter,
    log: logs.log,
    tracing: traces?.tracing ?? null,
    deliveryLog: logs.deliveries,
    instance
  }, MODES, leases.shortestMs)
  gateway.registration.reconfigure(config.routes)
  // A standby that does not acknowledge must not prevent the start. Heartbeats and claims report the scheme too.
  if (stores.opened) await gateway.ids.refresh().catch((error: unknown) => { if (!(error instanceof StoreUnavailable)) throw error })
  countFromNow(meter, config)
  gateway.writes.noteLapsed(stores.lapsedAtStart)
  reportRecovered(gateway.deps, stores.recoveredAtStart)
  return gateway
}

function listenerOf ({ logs, meter }: Start, { live, passing, certificates, gateway }: Parts): GuardedListener {
  return createServer({
    gateway,
    passing,
    log: logs.log,
    requests: logs.requests,
    passes: logs.passes,
    meter,
    closing: () => gateway.drain.draining,
    get routes () { return live.routes },
    get issuedKeys () { return live.config.issuedKeys },
    get cors () { return live.config.cors },
    get peers () { return live.peers },
    get problemBaseUri () { return live.config.problemBaseUri },
    get limits () { return live.config.limits }
  }, certificates ?? undefined)
}

function backgroundOf (
  { logs: { log }, meter, logsForGateway }: Start,
  { stores, gateway }: Parts,
  { connections }: GuardedListener
): Background {
  const durability = new DurabilityWatch({
    durability: async () => stores.durability(),
    remarks: () => stores.remarks(),
    meter,
    clock: SYSTEM_CLOCK,
    log,
    logsChanges: logsForGateway,
    onChange: ({ promise }) => { gateway.rowsMayVanish = promise === 'weakened' }
  })
  const registration = registrar(gateway, logsForGateway)
  return {
    durability,
    registration,
    heartbeat: heartbeat(gateway),
    services: [
      registration, sweeper(gateway), reconciler(gateway), inboxDepths(gateway), recordCountSync(gateway), new Deliverer(gateway),
      burstMemory({ clock: SYSTEM_CLOCK, log, connections, collect: collectMemory }), durability
    ]
  }
}

function servingOf (start: Start, parts: Parts, listener: GuardedListener, background: Background): Serving {
  const { config, logs: { log }, instance, leases } = start
  const { live, stores, gateway } = parts
  // Timers of SYSTEM_CLOCK do not keep the process alive. The drain must be waited for.
  let keepAlive: NodeJS.Timeout | undefined
  return {
    instance,
    where: stores.where,
    leases,
    config: () => live.config,
    clock: start.arbiterClock,
    marksOf: (route, policy) => stores.marks.of(route, policy),
    readiness: () => readinessOf(gateway, stores, background.durability),
    listen: async () => {
      const url = await listen(listener.server, config.listen, 'guarded', start.socket)
      for (const service of background.services) service.start()
      return url
    },
    reconfigure: (next) => { reconfigure(start, parts, background, next) },
    underWay: () => ({ executions: gateway.executionsInFlight, deliveries: gateway.drain.deliveries.size }),
    drain: async () => {
      keepAlive = setInterval(() => {}, KEEP_ALIVE_TICK_MS)
      await drain(live.config, gateway, listener, log)
    },
    close: async () => {
      await close(parts, listener, background)
      clearInterval(keepAlive)
    }
  }
}

const KEEP_ALIVE_TICK_MS = 1_000

/** What can throw comes first, so that a configuration is taken whole or not at all. */
function reconfigure (
  { logs, meter }: Start,
  { live, stores, upstream, passing, tokens, certificates, gateway }: Parts,
  { registration }: Background,
  next: Config
): void {
  const taken = liveOf(next)
  logs.setLevel(next.log.level)
  logs.setAccess(next.log.access)
  upstream.reconfigure(next.upstreams, next.limits.share)
  passing.reconfigure(next.upstreams, next.limits.share)
  tokens.forgetFiles()
  certificates?.reconfigure(next.listen.tls)
  gateway.reconfigure(settingsOf(next, stores.secretsBy(next)))
  gateway.registration.reconfigure(next.routes)
  countFromNow(meter, next)
  registration.runSoon()
  Object.assign(live, taken)
}

async function close (
  { stores, upstream, passing, traces, certificates, gateway }: Parts,
  { server }: GuardedListener,
  { heartbeat: beats, services }: Background
): Promise<void> {
  gateway.stop()
  certificates?.close()
  await withinCloseTime(Promise.allSettled([beats, ...services].map(async (service) => { await service.stop() })))
  await withinCloseTime(Promise.allSettled([server.close()]))
  await withinCloseTime(Promise.allSettled([stores.registry.withdraw(gateway.registration.gateway)]))
  await withinCloseTime(Promise.allSettled([upstream.close(), passing.close(), traces?.close(), stores.close()]))
}

function liveOf (config: Config): Live {
  return { config, routes: compileRoutes(config.routes), peers: new PeerTrust(config.trustProxies) }
}

function settingsOf (
  config: Config,
  secrets: readonly Buffer[]
): Pick<
  Deps,
  'limits' | 'claimWithinMs' | 'longestLeaseMs' | 'longestKeepMs' | 'copyTtlMs' | 'probed' | 'inboxes' | 'secrets' | 'marksKeptMs'
> {
  return {
    secrets,
    marksKeptMs: Math.max(0, ...config.routes.map(({ idempotency }) =>
      idempotency?.drop == null || idempotency.drop.store.kind === 'database' ? 0 : idempotency.drop.windowMs)),
    limits: config.limits,
    claimWithinMs: config.stores.postgres?.claimTimeoutMs ?? CLAIM_WITHIN_MS,
    longestLeaseMs: leasesOf(config).longestMs,
    longestKeepMs: longestRetentionOf(config),
    copyTtlMs: config.stores.redis?.copies.ttlMs ?? 0,
    probed: probedRoutes(config.routes),
    inboxes: inboxRoutes(config.routes)
  }
}

/** The time limit of a claim if the configuration of no database sets one (P6). */
const CLAIM_WITHIN_MS = 2_000

/**
 * Waits until Redis can be used, if there is one, so that the first request has it. Redis is used only after the first
 * heartbeats show which database it belongs to (store/redis/mirror.ts).
 */
async function redisInUse (stores: Stores): Promise<void> {
  const endsAt = performance.now() + REDIS_WITHIN_MS
  while (stores.opened && stores.wantsRedis && !stores.locks.available() && performance.now() < endsAt) await sleep(REDIS_LOOK_MS)
}

/** A few round trips. The start goes on without Redis after that. */
const REDIS_WITHIN_MS = 500
const REDIS_LOOK_MS = 5

function readinessOf (gateway: Gateway, stores: Stores, durability: DurabilityWatch): Readiness {
  const degraded = []
  if (!stores.opened || !gateway.lapseGuard.hasContact()) degraded.push(stores.records.name)
  if (gateway.arbiterClock.aheadMs > 0) degraded.push('clock')
  if (stores.opened && stores.wantsRedis && !stores.locks.available()) degraded.push('redis')
  const phase = gateway.drain.draining ? 'draining' : stores.opened ? 'ready' : 'starting'
  return {
    phase,
    degraded,
    blocked: stores.blocked ?? gateway.ids.blocked,
    durability: durability.last,
    ...phase === 'starting' && stores.waiting !== null ? { waiting: stores.waiting } : {}
  }
}
