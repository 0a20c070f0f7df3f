/**
 * The composition root: a configuration becomes stores, a gateway, its background and two listeners, and they come down
 * in order again. The only file that constructs drivers.
 */
import type { AddressInfo } from 'node:net'
import { hostname } from 'node:os'
import type { FastifyInstance } from 'fastify'
import { heartbeat } from './background/heartbeat.ts'
import { sweeper } from './background/sweeper.ts'
import { banner } from './banner.ts'
import { SYSTEM_CLOCK, SYSTEM_RANDOM } from './clock.ts'
import type { Config } from './config/config.ts'
import type { GuardedRoute } from './core/policy.ts'
import { StartError } from './errors.ts'
import { Gateway } from './gateway/gateway.ts'
import { pause, within } from './gateway/patience.ts'
import type { World } from './gateway/world.ts'
import { createAdmin } from './http/admin.ts'
import type { Readiness } from './http/admin.ts'
import { PeerTrust } from './http/peer.ts'
import { createServer } from './http/server.ts'
import { JoseVerifier } from './identity/jwt.ts'
import { reload } from './reload.ts'
import { compileRoutes } from './routing/match.ts'
import { Stores } from './stores.ts'
import { createLog } from './telemetry/log.ts'
import { createMetrics } from './telemetry/metrics.ts'
import { UndiciUpstream } from './upstream/sender.ts'

export interface App {
  readonly url: string
  readonly adminUrl: string
  /** Takes the configuration that `load` reads, if it is one that a running process can take (reload.ts); null: there is no file. Never throws. */
  readonly reload: (load: (() => Config) | null) => void
  /** Drains (docs/deployment.md) and closes everything. Never rejects. */
  readonly stop: () => Promise<void>
}

/** After the drain's end: what was sent is settled as indeterminate, which takes a statement or two. */
const CUT_OFF_MS = 5_000
/** The default lease, where no route guards. */
const LEASE_MS = 15_000

/** What a reload changes, as the listeners look at it: anew for every request. */
interface Live { config: Config, routes: ReturnType<typeof compileRoutes>, peers: PeerTrust }

function liveOf (config: Config): Live {
  return { config, routes: compileRoutes(config.routes), peers: new PeerTrust(config.trustProxies) }
}

export async function startApp (config: Config, options: { readonly announce: (line: string) => void }): Promise<App> {
  const instance = `${hostname()}-${process.pid}`
  const live = liveOf(config)
  const log = createLog({ level: config.log.level, instance })
  const metrics = createMetrics()
  const leases = leasesOf(config)
  const stores = await Stores.open(config, { log, meter: metrics, instance, shortestLeaseMs: leases.shortestMs })
  const upstream = new UndiciUpstream(config.upstreams)
  const tokens = new JoseVerifier()
  const gateway = new Gateway({
    ...settingsOf(config),
    records: stores.records,
    locks: stores.locks,
    upstream,
    tokens,
    clock: SYSTEM_CLOCK,
    random: SYSTEM_RANDOM,
    meter: metrics,
    log,
    instance
  }, leases.shortestMs)
  gateway.noteLapsed(stores.lapsedAtStart)
  const phase = { draining: false }
  const server = await createServer({
    gateway,
    log,
    meter: metrics,
    closing: () => phase.draining,
    get routes () { return live.routes },
    get peers () { return live.peers },
    get problemBaseUri () { return live.config.problemBaseUri },
    get limits () { return live.config.limits }
  })
  const admin = createAdmin({ readiness: () => readinessOf(gateway, stores, phase.draining), metrics, log, get mode () { return live.config.admin.readiness } })
  /** What is let in from now on meets the new configuration; what is under way holds the route that it met. */
  const take = (next: Config): void => {
    const taken = liveOf(next)
    log.level = next.log.level
    upstream.become(next.upstreams)
    tokens.forgetFiles()
    gateway.become(settingsOf(next))
    server.server.maxConnections = next.limits.connections
    Object.assign(live, taken)
  }
  const services = [heartbeat(gateway), sweeper(gateway)]
  const close = async (): Promise<void> => {
    gateway.stop()
    await soon(Promise.allSettled(services.map(async service => { await service.stop() })))
    await soon(Promise.allSettled([server.close(), admin.close()]))
    await soon(Promise.allSettled([upstream.close(), stores.close()]))
  }
  try {
    const adminUrl = await listen(admin, config.admin, 'admin')
    const url = await listen(server, config.listen, 'guarded')
    for (const service of services) service.start()
    for (const line of banner(config, stores.where, url, adminUrl)) options.announce(line)
    return {
      url,
      adminUrl,
      reload: load => {
        if (phase.draining) log.warn({}, 'SIGHUP: this process is draining; nothing is reloaded')
        else reload(live.config, load, { log, reloaded: metrics.reloaded, shortestLeaseMs: leases.shortestMs, take })
      },
      stop: async () => {
        // The clock's timers hold no process; the end of this one must be waited for.
        const alive = setInterval(() => {}, KEEP_ALIVE_TICK_MS)
        await drain(live.config, gateway, server, phase, log)
        await close()
        clearInterval(alive)
      }
    }
  } catch (error) {
    await close()
    throw error
  }
}

function settingsOf (config: Config): Pick<World, 'limits' | 'claimWithinMs' | 'longestLeaseMs' | 'copyTtlMs'> {
  return {
    limits: config.limits,
    claimWithinMs: config.stores.postgres?.claimTimeoutMs ?? CLAIM_WITHIN_MS,
    longestLeaseMs: leasesOf(config).longestMs,
    copyTtlMs: config.stores.redis?.copies.ttlMs ?? 0
  }
}

/** A claim has this long where no database's own limit says otherwise (P6). */
const CLAIM_WITHIN_MS = 2_000

/** docs/deployment.md: not ready and `Connection: close` at once; still serving for a while; then no more, and to the end. */
async function drain (config: Config, gateway: Gateway, server: FastifyInstance, phase: { draining: boolean }, log: { info: (fields: object, message: string) => void }): Promise<void> {
  if (phase.draining) return
  phase.draining = true
  log.info({ executions: gateway.executions.size, delayMs: config.drain.delayMs, timeoutMs: config.drain.timeoutMs }, 'draining')
  await pause(SYSTEM_CLOCK, config.drain.delayMs)
  gateway.refusing = true
  const closed = new Promise<void>(resolve => { server.server.close(() => { resolve() }) })
  const endsAt = performance.now() + config.drain.timeoutMs
  const finished = await gateway.idle(config.drain.timeoutMs)
  if (!finished) {
    log.info({ executions: gateway.executions.size }, 'drain is over; what still runs is cut off')
    gateway.cutOff()
    await gateway.idle(CUT_OFF_MS)
  }
  // Connections whose requests wait for an execution elsewhere stay open until they are answered; at the end they are told so.
  if (!await within(SYSTEM_CLOCK, endsAt - performance.now(), closed.then(() => true)).then(ended => ended === true)) gateway.part()
  await Promise.race([closed, pause(SYSTEM_CLOCK, ANSWERS_MS)])
  server.server.closeAllConnections()
}

const KEEP_ALIVE_TICK_MS = 1_000

/** A store that hangs must not hold up the end: what it was asked last is in doubt either way. */
async function soon (closing: Promise<unknown>): Promise<void> {
  await Promise.race([closing, pause(SYSTEM_CLOCK, CLOSE_MS)])
}

const CLOSE_MS = 3_000

/** The last answers are on their way to their clients. */
const ANSWERS_MS = 500

function readinessOf (gateway: Gateway, stores: Stores, draining: boolean): Readiness {
  const degraded = []
  if (!stores.opened || !gateway.contact.standing()) degraded.push(stores.records.name)
  if (stores.opened && stores.wantsRedis && !stores.locks.available()) degraded.push('redis')
  return { phase: draining ? 'draining' : stores.opened ? 'ready' : 'starting', degraded, blocked: stores.blocked }
}

function leasesOf (config: Config): { readonly shortestMs: number, readonly longestMs: number } {
  const leases = config.routes.filter((route): route is GuardedRoute => route.idempotency !== null).map(route => route.idempotency.leaseMs)
  return leases.length === 0 ? { shortestMs: LEASE_MS, longestMs: LEASE_MS } : { shortestMs: Math.min(...leases), longestMs: Math.max(...leases) }
}

async function listen (server: FastifyInstance, { host, port }: { readonly host: string, readonly port: number }, what: string): Promise<string> {
  try {
    await server.listen({ host, port })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EADDRINUSE') throw new StartError(`port ${port} on ${host} is in use by another process; choose another for the ${what} listener`, 1, error)
    if (code === 'EACCES') throw new StartError(`port ${port} on ${host} needs more rights than this process has; choose another for the ${what} listener`, 1, error)
    throw new StartError(`the ${what} listener cannot listen on ${host}:${port}: ${error instanceof Error ? error.message : String(error)}`, 1, error)
  }
  const { address, port: boundPort } = server.server.address() as AddressInfo
  return `http://${shownHost(address)}:${boundPort}`
}

/** 0.0.0.0 is where it listens, not where one goes. */
function shownHost (address: string): string {
  if (address === '0.0.0.0' || address === '::') return '127.0.0.1'
  return address.includes(':') ? `[${address}]` : address
}
