/**
 * Ends what is over: leases that nobody settled become indeterminate (after E2b's wait), records and messages whose
 * retention has passed are deleted in small batches. Also counts what waits for an operator.
 */
import type { Gateway } from '../gateway/gateway.ts'
import { Service } from './service.ts'

/**
 * Rows a statement: ten milliseconds of work on two busy cores, so that nobody waits long behind it. (At 500 the p99 of
 * requests beside a sweep of a million was 2.06 times what it was without: bench/results/2026-11-21-growth.md.)
 */
const BATCH_MAX = 250
/** Between two sweeps when nothing is left over; shorter only where leases are shorter (tests). */
const EVERY_MS = 5_000

export function sweeper (gateway: Gateway): Service {
  const { clock, log, longestLeaseMs } = gateway.deps
  return new Service({ name: 'sweeper', everyMs: Math.min(EVERY_MS, longestLeaseMs / 2), clock, log, round: async () => sweep(gateway) })
}

async function sweep (gateway: Gateway): Promise<boolean> {
  const { records, inbox, meter, log } = gateway.deps
  // What the arbiter's clock calls over is not, when it has stepped ahead.
  if (gateway.arbiterClock.aheadMs > 0) {
    meter.unresolved(await records.unresolved())
    return false
  }
  let lapsed = 0
  if (gateway.lapseGuard.mayLapse()) {
    const dead = await records.lapse({
      ids: null,
      running: gateway.executions.owners(),
      limit: BATCH_MAX,
      still: () => gateway.lapseGuard.mayLapse()
    })
    gateway.writes.noteLapsed(dead)
    lapsed = dead.length
  }
  let swept = 0
  for (const { state, count } of await records.sweep(BATCH_MAX)) {
    meter.swept(state, count)
    swept += count
    // Forgetting an unknown outcome means that its key can run again: that is said aloud.
    if (state === 'indeterminate') {
      log.error({ event: 'unknown-forgotten', count }, 'unresolved records reached the end of unknownRetention and were forgotten')
    }
  }
  meter.unresolved(await records.unresolved())
  const marks = await gateway.deps.marks.sweep(BATCH_MAX)
  if (marks > 0) meter.swept('mark', marks)
  const messages = await inbox.sweep(BATCH_MAX)
  const counts = await gateway.deps.counts.sweep(BATCH_MAX)
  if (gateway.ids.inTransition) {
    await records.endEarlierScheme()
    await gateway.ids.refresh()
  }
  return lapsed === BATCH_MAX || marks === BATCH_MAX || swept >= BATCH_MAX || messages >= BATCH_MAX || counts === BATCH_MAX
}
