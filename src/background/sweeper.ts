/**
 * Ends what is over. Leases without a settle become indeterminate (after the wait of E2b). Records and messages past
 * their retention are deleted in small batches. The sweeper also counts what waits for an operator.
 */
import type { Gateway } from '../gateway/gateway.ts'
import { KeptRequestsSweep } from './kept-requests.ts'
import { Service } from './service.ts'

/**
 * Rows per statement: ten milliseconds of work on two busy cores, so nothing waits long behind it. (At 500 the p99 of
 * requests beside a sweep of a million was 2.06 times the p99 without: bench/results/2026-11-21-growth.md.)
 */
const BATCH_MAX = 250
/** Between two sweeps without a backlog. It is shorter only if leases are shorter (tests). */
const EVERY_MS = 5_000

export function sweeper (gateway: Gateway): Service {
  const { clock, log, longestLeaseMs } = gateway.deps
  const kept = new KeptRequestsSweep(gateway)
  const everyMs = Math.min(EVERY_MS, longestLeaseMs / 2)
  return new Service({ name: 'sweeper', everyMs, clock, log, round: async () => sweep(gateway, kept) })
}

async function sweep (gateway: Gateway, kept: KeptRequestsSweep): Promise<boolean> {
  const { records, inbox, meter, log } = gateway.deps
  // If the arbiter's clock has stepped ahead, its word on what is over cannot be trusted.
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
    // After an unknown outcome is forgotten, its key can run again. So it is an error in the log.
    if (state === 'indeterminate') {
      log.error(
        { event: 'unknown-forgotten', count },
        'unresolved records reached the end of unknownRetention and were forgotten'
      )
    }
  }
  meter.unresolved(await records.unresolved())
  const marks = await gateway.deps.marks.sweep(BATCH_MAX)
  if (marks > 0) meter.swept('mark', marks)
  const messages = await inbox.sweep(BATCH_MAX)
  const hasMoreKept = await kept.round(BATCH_MAX)
  const counts = await gateway.deps.counts.sweep(BATCH_MAX)
  if (gateway.ids.inTransition) {
    await records.endEarlierScheme()
    await gateway.ids.refresh()
  }
  return lapsed === BATCH_MAX || marks === BATCH_MAX || swept >= BATCH_MAX || messages >= BATCH_MAX || counts === BATCH_MAX || hasMoreKept
}
