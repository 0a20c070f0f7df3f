/**
 * Asks the upstreams about records of unknown outcome, its own and those that dead gateways left behind (`unknown: probe`).
 * A record is handed to one gateway at a time; what a dead one has taken up is handed out again. Each route has its share
 * of the questions that are under way: an upstream that is silent holds up nobody else's.
 */
import type { Gateway } from '../gateway/gateway.ts'
import { probe } from '../gateway/probe/probe.ts'
import type { ProbedRoute } from '../gateway/shared/deps.ts'
import { Service } from './service.ts'

/** Questions under way at once in a process, of a route and of all: an upstream that has trouble is not to be asked by hundreds. */
const ROUTE_MAX = 4
const ALL_MAX = 64
/** Between two looks when nobody says that there is something; sooner where a route asks in shorter intervals. */
const EVERY_MS = 5_000
const EVERY_LEAST_MS = 50
/** On top of a question's own time: for the statements before and behind it. */
const MARGIN_MS = 10_000

export function reconciler (gateway: Gateway): Service {
  const { clock, log } = gateway.deps
  const inFlight = new Map<string, number>()
  const service = new Service({
    name: 'reconciler',
    get everyMs () { return everyMs(gateway) },
    clock,
    log,
    round: async () => {
      for (const route of gateway.deps.probed.values()) await startProbes(gateway, route, inFlight, () => { service.runSoon() })
      return false
    }
  })
  gateway.onQuestion = () => { service.runSoon() }
  return service
}

/** `asking`: how many questions of each route are under way. */
async function startProbes (gateway: Gateway, route: ProbedRoute, inFlight: Map<string, number>, onEnd: () => void): Promise<void> {
  const { records } = gateway.deps
  const all = [...inFlight.values()].reduce((sum, count) => sum + count, 0)
  const mine = inFlight.get(route.name) ?? 0
  const limit = Math.min(ROUTE_MAX - mine, ALL_MAX - all)
  if (limit <= 0 || gateway.drain.stopped) return
  const due = await records.takeProbes({ routes: [route.name], withinMs: route.idempotency.probe.timeoutMs + MARGIN_MS, limit })
  if (due.length === 0) return
  inFlight.set(route.name, mine + due.length)
  const full = due.length === limit
  for (const each of due) {
    void probe(gateway, each).catch((error: unknown) => {
      if (!gateway.drain.stopped) {
        gateway.deps.log.warn(
          { record: each.token.id.toString('base64url'), error: error instanceof Error ? error.message : String(error) },
          'asking about an unknown outcome failed; it will be asked again'
        )
      }
    }).finally(() => {
      const left = (inFlight.get(route.name) ?? 1) - 1
      if (left === 0) inFlight.delete(route.name)
      else inFlight.set(route.name, left)
      // Where all places were taken, more may be waiting for this one.
      if (full && !gateway.drain.stopped) onEnd()
    })
  }
}

function everyMs (gateway: Gateway): number {
  const intervals = [...gateway.deps.probed.values()].map(({ idempotency: { probe: { intervalMs, confirmAfterMs } } }) =>
    Math.min(intervalMs, confirmAfterMs))
  return Math.max(EVERY_LEAST_MS, Math.min(EVERY_MS, ...intervals))
}
