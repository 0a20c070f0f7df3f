/**
 * Probes the upstreams about records with an unknown outcome, those of this gateway and of dead ones (`unknown:
 * probe`). The store gives a record to one gateway at a time. If that gateway dies, another gets it. Each route has its
 * share of the probes in flight, so a silent upstream delays no other route.
 */
import type { Gateway } from '../gateway/gateway.ts'
import { probe } from '../gateway/probe/probe.ts'
import type { ProbedRoute } from '../gateway/shared/deps.ts'
import { Service } from './service.ts'

/** The most probes in flight in a process, of one route and of all. An upstream in trouble must not get hundreds. */
const ROUTE_MAX = 4
const ALL_MAX = 64
/** Between two rounds without a notification. It is shorter if a route has a shorter interval. */
const EVERY_MS = 5_000
const EVERY_LEAST_MS = 50
/** Added to the time limit of a probe, for the statements before and after it. */
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

/** `inFlight`: the probes in flight, by route. */
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
          {
            event: 'probe-error',
            record: each.token.id.toString('base64url'),
            error: error instanceof Error ? error.message : String(error)
          },
          'asking about an unknown outcome failed; it will be asked again'
        )
      }
    }).finally(() => {
      const left = (inFlight.get(route.name) ?? 1) - 1
      if (left === 0) inFlight.delete(route.name)
      else inFlight.set(route.name, left)
      // If all places were taken, more records may wait.
      if (full && !gateway.drain.stopped) onEnd()
    })
  }
}

function everyMs (gateway: Gateway): number {
  const intervals = [...gateway.deps.probed.values()].map(({ idempotency: { probe: { intervalMs, confirmAfterMs } } }) =>
    Math.min(intervalMs, confirmAfterMs))
  return Math.max(EVERY_LEAST_MS, Math.min(EVERY_MS, ...intervals))
}
