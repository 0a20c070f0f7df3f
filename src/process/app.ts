/**
 * The composition root: a configuration becomes stores, a gateway, its background and its listeners, and they come down
 * in order again. The only file that constructs drivers. A worker (workers/) is the same without an admin port.
 */
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { counting } from '../background/record-counts.ts'
import { Deliverer } from '../background/deliverer.ts'
import { heartbeat } from '../background/heartbeat.ts'
import { inboxDepths } from '../background/inbox-depths.ts'
import { reconciler } from '../background/reconciler.ts'
import { registering } from '../background/registration.ts'
import { StandingWatch } from '../background/durability.ts'
import { sweeper } from '../background/sweeper.ts'
import { banner } from './banner.ts'
import { SYSTEM_CLOCK, SYSTEM_RANDOM } from './clock.ts'
import type { Config } from '../config/config.ts'
import { leasesOf, longestRetentionOf } from '../config/derived.ts'
import type { LeaseRange } from '../config/derived.ts'
import { StoreUnavailable } from '../ports/errors.ts'
import { ArbiterClock } from '../gateway/shared/arbiter-clock.ts'
import { reportRecovered } from '../gateway/inbox/deliver.ts'
import { Gateway } from '../gateway/gateway.ts'
import { MODES } from './modes.ts'
import { pause, withTimeout } from '../gateway/shared/timeout.ts'
import { inboxRoutes, probedRoutes } from '../gateway/shared/deps.ts'
import type { Deps } from '../gateway/shared/deps.ts'
import { createAdmin } from '../http/admin.ts'
import type { Readiness } from '../http/admin.ts'
import { listen } from '../http/listen.ts'
import { PeerTrust } from '../http/shared/peer.ts'
import { createServer } from '../http/server.ts'
import type { GuardedListener } from '../http/server.ts'
import { JoseVerifier } from '../identity/jwt.ts'
import type { CountedRoute, Log, Meter } from '../ports/telemetry.ts'
import { reload } from './reload.ts'
import { compileRoutes } from '../routing/match.ts'
import { Stores } from './stores.ts'
import { createLogs } from '../telemetry/log.ts'
import type { Logs } from '../telemetry/log.ts'
import { createMetrics } from '../telemetry/metrics.ts'
import { UndiciPassThrough } from '../upstream/passer.ts'
import { UndiciUpstream } from '../upstream/sender.ts'

export interface App {
  readonly url: string
  readonly adminUrl: string
  /**
   * Takes the configuration that `load` reads, if it is one that a running process can take (reload.ts); null: there is
   * no file. Never throws.
   */
  readonly reload: (load: (() => Config) | null) => void
  /** What a drain waits for, and how long at most. */
  readonly stopping: () => UnderWay & Config['drain']
  /** Drains (docs/guides/deploy-in-containers.md) and closes everything. Never rejects. */
  readonly stop: () => Promise<void>
}

export interface UnderWay { readonly executions: number, readonly deliveries: number }

/** What serves: everything of a process but its admin port. */
export interface Serving {
  readonly instance: string
  /** Where records live, for the banner. */
  readonly where: readonly string[]
  readonly leases: LeaseRange
  /** The one that counts. */
  readonly config: () => Config
  /** Opens the guarded listener and starts the background; resolves with the URL. @throws StartError */
  readonly listen: () => Promise<string>
  readonly readiness: () => Readiness
  /** What is let in from now on meets this configuration; what is under way holds the route that it met. */
  readonly take: (next: Config) => void
  readonly underWay: () => UnderWay
  readonly drain: () => Promise<void>
  readonly close: () => Promise<void>
}

export interface ServingOptions {
  readonly logs: Logs
  readonly meter: Meter
  readonly instance: string
  /** Those that the whole gateway knows; absent: the configuration's own. */
  readonly leases?: LeaseRange
  /** false: another process of the same gateway logs which promise holds. */
  readonly saysStanding?: boolean
}

/** After the drain's end: what was sent is settled as indeterminate, which takes a statement or two. */
const CUT_OFF_MS = 5_000

/** What a reload changes, as the listeners look at it: anew for every request. */
interface Live { config: Config, routes: ReturnType<typeof compileRoutes>, peers: PeerTrust }

function liveOf (config: Config): Live {
  return { config, routes: compileRoutes(config.routes), peers: new PeerTrust(config.trustProxies) }
}

export function instanceName (): string {
  return `${hostname()}-${process.pid}`
}

export async function startApp (config: Config, options: { readonly announce: (line: string) => void }): Promise<App> {
  const instance = instanceName()
  const logs = createLogs({ level: config.log.level, instance })
  const { log } = logs
  const metrics = createMetrics()
  const serving = await openGateway(config, { logs, meter: metrics, instance })
  const admin = createAdmin({
    readiness: serving.readiness,
    metrics,
    log,
    get mode () { return serving.config().admin.readiness },
    get hosts () { return serving.config().admin.hosts }
  })
  const close = async (): Promise<void> => {
    await Promise.all([serving.close(), soon(Promise.allSettled([admin.close()]))])
  }
  try {
    const adminUrl = await listen(admin, config.admin, 'admin')
    const url = await serving.listen()
    for (const remark of config.warnings) log.warn({ event: 'config-remark', file: config.file }, remark)
    for (const line of banner(config, serving.where, url, adminUrl)) options.announce(line)
    return {
      url,
      adminUrl,
      reload: (load) => {
        if (serving.readiness().phase === 'draining') {
          log.warn({ event: 'reload-skipped' }, 'SIGHUP: this process is draining; nothing is reloaded')
        } else {
          reload(serving.config(), load, {
            log,
            reloaded: metrics.reloaded,
            shortestLeaseMs: serving.leases.shortestMs,
            take: serving.take
          })
        }
      },
      stopping: () => ({ ...serving.underWay(), ...serving.config().drain }),
      stop: async () => {
        await serving.drain()
        await close()
      }
    }
  } catch (error) {
    await close()
    throw error
  }
}

/** Nothing listens yet. @throws StartError where no waiting mends it. */
export async function openGateway (config: Config, options: ServingOptions): Promise<Serving> {
  const { logs, meter, instance, leases = leasesOf(config), saysStanding = true } = options
  const { log } = logs
  const live = liveOf(config)
  const arbiterClock = new ArbiterClock({
    clock: SYSTEM_CLOCK,
    random: SYSTEM_RANDOM,
    log,
    meter,
    instance,
    shortestLeaseMs: leases.shortestMs,
    longestKeepMs: longestRetentionOf(config)
  })
  const stores = await Stores.open(config, {
    log,
    meter,
    instance,
    shortestLeaseMs: leases.shortestMs,
    believedMs: arbiterClock.believedMs,
    meet: async (records) => { await arbiterClock.beat(records) }
  })
  const upstream = new UndiciUpstream(config.upstreams, config.limits.share)
  const passing = new UndiciPassThrough(config.upstreams, config.limits.share)
  const tokens = new JoseVerifier({ clock: SYSTEM_CLOCK, log })
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
    log,
    deliveryLog: logs.deliveries,
    instance
  }, MODES, leases.shortestMs)
  gateway.registration.reconfigure(config.routes)
  // A standby that does not acknowledge is no reason to stay down: signs of life and claims hear of the scheme too.
  if (stores.opened) await gateway.ids.refresh().catch((error: unknown) => { if (!(error instanceof StoreUnavailable)) throw error })
  meter.guarded(countedRoutes(config))
  gateway.writes.noteLapsed(stores.lapsedAtStart)
  reportRecovered(gateway.deps, stores.recoveredAtStart)
  const listener = createServer({
    gateway,
    passing,
    log,
    requests: logs.requests,
    meter,
    closing: () => gateway.drain.draining,
    get routes () { return live.routes },
    get issuedKeys () { return live.config.issuedKeys },
    get cors () { return live.config.cors },
    get peers () { return live.peers },
    get problemBaseUri () { return live.config.problemBaseUri },
    get limits () { return live.config.limits }
  })
  const { server } = listener
  meter.holds('connections', listener.connections)
  meter.holds('tunnels', listener.tunnels)
  meter.holds('passing', () => passing.size)
  meter.holds('bufferedBytes', () => gateway.limits.buffered.held)
  meter.reaches(stores.records.name, () => stores.opened && stores.blocked === null && gateway.lapseGuard.hasContact())
  if (stores.wantsRedis) meter.reaches('redis', () => stores.locks.available())
  const standing = new StandingWatch({
    standing: async () => stores.standing(),
    remarks: () => stores.remarks(),
    meter,
    clock: SYSTEM_CLOCK,
    log,
    says: saysStanding,
    onChange: ({ promise }) => { gateway.rowsMayVanish = promise === 'weakened' }
  })
  const registrar = registering(gateway, saysStanding)
  const beats = heartbeat(gateway)
  const services = [
    registrar, sweeper(gateway), reconciler(gateway), inboxDepths(gateway), counting(gateway), new Deliverer(gateway),
    standing
  ]
  // The clock's timers hold no process; the end of this one must be waited for.
  let alive: NodeJS.Timeout | undefined
  beats.start()
  // Before anything listens: whoever is told that this process is ready may send to it.
  await redisInUse(stores)
  return {
    instance,
    where: stores.where,
    leases,
    config: () => live.config,
    readiness: () => readinessOf(gateway, stores, standing),
    listen: async () => {
      const url = await listen(server, config.listen, 'guarded')
      for (const service of services) service.start()
      return url
    },
    take: (next) => {
      const taken = liveOf(next)
      logs.setLevel(next.log.level)
      upstream.reconfigure(next.upstreams, next.limits.share)
      passing.reconfigure(next.upstreams, next.limits.share)
      tokens.forgetFiles()
      gateway.reconfigure(settingsOf(next, stores.secretsBy(next)))
      gateway.registration.reconfigure(next.routes)
      meter.guarded(countedRoutes(next))
      registrar.soon()
      Object.assign(live, taken)
    },
    underWay: () => ({ executions: gateway.executionsInFlight, deliveries: gateway.drain.deliveries.size }),
    drain: async () => {
      alive = setInterval(() => {}, KEEP_ALIVE_TICK_MS)
      await drain(live.config, gateway, listener, log)
    },
    close: async () => {
      gateway.stop()
      await soon(Promise.allSettled([beats, ...services].map(async (service) => { await service.stop() })))
      await soon(Promise.allSettled([server.close()]))
      await soon(Promise.allSettled([stores.registry.withdraw(gateway.registration.gateway)]))
      await soon(Promise.allSettled([upstream.close(), passing.close(), stores.close()]))
      clearInterval(alive)
    }
  }
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

function countedRoutes ({ routes }: Config): CountedRoute[] {
  return routes.flatMap(({ name, idempotency }) => idempotency === null
    ? []
    : [{ name, delivers: idempotency.inbox !== null, probes: idempotency.probe !== null, verifies: idempotency.verify !== null }])
}

/** A claim has this long where no database's own limit says otherwise (P6). */
const CLAIM_WITHIN_MS = 2_000

/**
 * docs/guides/deploy-in-containers.md: not ready and `Connection: close` at once; still serving for a while; then no
 * more, and to the end.
 */
async function drain (
  config: Config,
  gateway: Gateway,
  { server, cut }: GuardedListener,
  log: Pick<Log, 'info'>
): Promise<void> {
  if (gateway.drain.draining) return
  gateway.drain.advance('draining')
  log.info(
    {
      event: 'drain-started',
      executions: gateway.executionsInFlight,
      deliveries: gateway.drain.deliveries.size,
      delayMs: config.drain.delayMs,
      timeoutMs: config.drain.timeoutMs
    },
    'draining'
  )
  await pause(SYSTEM_CLOCK, config.drain.delayMs)
  gateway.drain.advance('refusing')
  const closed = new Promise<void>((resolve) => { server.server.close(() => { resolve() }) })
  const endsAt = performance.now() + config.drain.timeoutMs
  const finished = await gateway.idle(config.drain.timeoutMs)
  if (!finished) {
    log.info(
      { event: 'drain-timeout', executions: gateway.executionsInFlight, deliveries: gateway.drain.deliveries.size },
      'drain is over; what still runs is cut off'
    )
    gateway.cutOff()
    await gateway.idle(CUT_OFF_MS)
  }
  // Connections whose requests wait for an execution elsewhere stay open until they are answered; at the end they are told so.
  if (!await withTimeout(SYSTEM_CLOCK, endsAt - performance.now(), closed.then(() => true)).then((ended) => ended === true)) {
    gateway.releaseWaiters()
  }
  await Promise.race([closed, pause(SYSTEM_CLOCK, ANSWERS_MS)])
  cut()
}

/** From the signal until the data directory is free, unless a store hangs in its closing. */
export function longestDrainMs ({ drain: { delayMs, timeoutMs } }: Pick<Config, 'drain'>): number {
  return delayMs + timeoutMs + CUT_OFF_MS + ANSWERS_MS + CLOSE_MS
}

const KEEP_ALIVE_TICK_MS = 1_000

/** The first request has Redis, if there is one: nothing is asked of it before the first beats say whose it is (store/redis/mirror.ts). */
async function redisInUse (stores: Stores): Promise<void> {
  const endsAt = performance.now() + REDIS_WITHIN_MS
  while (stores.opened && stores.wantsRedis && !stores.locks.available() && performance.now() < endsAt) await sleep(REDIS_LOOK_MS)
}

/** A few round trips; without Redis the start goes on. */
const REDIS_WITHIN_MS = 500
const REDIS_LOOK_MS = 5

/** A store that hangs must not hold up the end: what it was asked last is in doubt either way. */
async function soon (closing: Promise<unknown>): Promise<void> {
  await Promise.race([closing, pause(SYSTEM_CLOCK, CLOSE_MS)])
}

const CLOSE_MS = 3_000

/** The last answers are on their way to their clients. */
const ANSWERS_MS = 500

function readinessOf (gateway: Gateway, stores: Stores, standing: StandingWatch): Readiness {
  const degraded = []
  if (!stores.opened || !gateway.lapseGuard.hasContact()) degraded.push(stores.records.name)
  if (gateway.arbiterClock.aheadMs > 0) degraded.push('clock')
  if (stores.opened && stores.wantsRedis && !stores.locks.available()) degraded.push('redis')
  const phase = gateway.drain.draining ? 'draining' : stores.opened ? 'ready' : 'starting'
  return {
    phase,
    degraded,
    blocked: stores.blocked ?? gateway.ids.blocked,
    standing: standing.last,
    ...phase === 'starting' && stores.waiting !== null ? { waiting: stores.waiting } : {}
  }
}
