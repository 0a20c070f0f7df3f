/**
 * The mark of an event of mode drop: written before it is sent, and brought to its end afterwards. What the store does not
 * take at once is tried again for a while; what it may have taken unasked is taken back.
 */
import { DONE_WITHIN_MS, runningMs } from '../core/drop.ts'
import type { MarkFate } from '../core/drop.ts'
import type { Identity } from '../core/identity.ts'
import type { DropPolicy } from '../core/policy.ts'
import { errorText, StoreRejected, StoreUnavailable } from '../errors.ts'
import type { MarkStore } from '../ports.ts'
import type { Dropping, MarkVerdict } from './droppings.ts'
import type { Visit } from './execution.ts'
import type { Drain } from './drain.ts'
import { OUT_OF_PATIENCE, within } from './patience.ts'
import type { World } from './world.ts'

export interface MarkParts {
  readonly world: World
  readonly drain: Drain
  readonly background: (work: Promise<void>) => void
}

/** Between two tries: short enough for a lost reply, long enough for a restart. */
const RETRY_FIRST_MS = 50
const RETRY_LONGEST_MS = 2_000
/** So long after the answer a mark is still written: an outage that is longer lets duplicates through. */
const REMEMBER_FOR_MS = 30_000

/** Only 'marked' and 'unprotected' permit sending. A mark that comes through later is taken back. */
export async function markInTime (gateway: MarkParts, dropping: Dropping, marks: MarkStore, policy: DropPolicy): Promise<MarkVerdict> {
  const { clock, claimWithinMs, log } = gateway.world
  const marking = mark(gateway, dropping, marks, policy)
  const verdict = await within(clock, claimWithinMs, marking)
  if (verdict !== OUT_OF_PATIENCE) return verdict
  const { name, idempotency: { onStoreDown } } = dropping.visit.route
  gateway.background(marking.then(async late => { if (late === 'marked') await takeBack(gateway, dropping, marks) }))
  log.warn({ record: dropping.visit.name, route: name, onStoreDown }, 'event not marked in time')
  return withoutMark(dropping)
}

/** May double: a mark that was written all the same is taken back, or ends by itself. */
function withoutMark ({ visit }: Dropping): MarkVerdict {
  return visit.route.idempotency.onStoreDown === 'forward' ? 'unprotected' : 'unavailable'
}

async function mark (gateway: MarkParts, dropping: Dropping, marks: MarkStore, policy: DropPolicy): Promise<MarkVerdict> {
  const { visit, token } = dropping
  const { clock, claimWithinMs, log } = gateway.world
  const { upstream, name, idempotency: { onStoreDown } } = visit.route
  const [as, keepMs] = policy.mark === 'before' ? ['done', policy.windowMs] as const : ['running', runningMs(upstream.timeoutMs, claimWithinMs)] as const
  for (let pauseMs = RETRY_FIRST_MS; ; pauseMs = Math.min(pauseMs * 2, RETRY_LONGEST_MS)) {
    try {
      const found = await marks.mark({ ...identityOf(visit), token, as, keepMs })
      if (found !== 'marked' && dropping.doubted) gateway.background(takeBack(gateway, dropping, marks))
      return found
    } catch (error) {
      const inDoubt = error instanceof StoreUnavailable && error.inDoubt
      dropping.doubted ||= inDoubt
      // Under the same token: if it was applied, this finds it.
      if (inDoubt && !gateway.drain.stopped && dropping.ageMs(clock) + pauseMs < claimWithinMs / 2) {
        await gateway.drain.pause(pauseMs)
        continue
      }
      if (dropping.doubted) gateway.background(takeBack(gateway, dropping, marks))
      log.warn({ record: visit.name, route: name, onStoreDown, error: errorText(error) }, 'event could not be marked')
      return withoutMark(dropping)
    }
  }
}

/** Nothing was sent under it. Twice: a statement that was given up may still be on its way. */
async function takeBack (gateway: MarkParts, dropping: Dropping, marks: MarkStore): Promise<void> {
  const { visit, token } = dropping
  const { claimWithinMs } = gateway.world
  const forMs = runningMs(visit.route.upstream.timeoutMs, claimWithinMs)
  const remove = async (): Promise<boolean> => marks.remove(visit.id, token)
  await untilDone(gateway, dropping, remove, forMs)
  await gateway.drain.pause(claimWithinMs)
  if (!gateway.drain.stopped) await untilDone(gateway, dropping, remove, forMs)
}

export interface Ended {
  /** The store has taken it, in the time that waiters have for it. */
  readonly inTime: boolean
  /** The mark from before the sending, which was to be removed, stands all the same: a filter cannot forget. */
  readonly stands: boolean
  /** Goes on behind those who wait. null: given up. */
  readonly rest: Promise<boolean | null>
}

/** After the sending. Never rejects. */
export async function endMark (gateway: MarkParts, dropping: Dropping, marks: MarkStore, fate: MarkFate, policy: DropPolicy): Promise<Ended> {
  if (fate === 'stays') return { inTime: true, stands: true, rest: Promise.resolve(true) }
  const { visit, token } = dropping
  const { clock, claimWithinMs } = gateway.world
  const ending = fate === 'done'
    ? untilDone(gateway, dropping, async () => { await marks.done({ ...identityOf(visit), token, keepMs: policy.windowMs }); return true }, REMEMBER_FOR_MS)
    : untilDone(gateway, dropping, async () => marks.remove(visit.id, token), runningMs(visit.route.upstream.timeoutMs, claimWithinMs))
  const startedAt = clock.monotonicMs()
  const early = await within(clock, DONE_WITHIN_MS, ending)
  visit.steps.settleMs = clock.monotonicMs() - startedAt
  return { inTime: early !== OUT_OF_PATIENCE && early !== null, stands: early === false && policy.mark === 'before', rest: ending }
}

/** null: given up. */
async function untilDone (gateway: MarkParts, { visit }: Dropping, work: () => Promise<boolean>, forMs: number): Promise<boolean | null> {
  const { clock, meter, log } = gateway.world
  const endsAtMs = clock.monotonicMs() + forMs
  for (let pauseMs = RETRY_FIRST_MS; ; pauseMs = Math.min(pauseMs * 2, RETRY_LONGEST_MS)) {
    try {
      return await work()
    } catch (error) {
      meter.settleRetried(visit.route.name)
      const over = gateway.drain.stopped || error instanceof StoreRejected || clock.monotonicMs() + pauseMs > endsAtMs
      if (over) {
        log.error({ record: visit.name, route: visit.route.name, error: errorText(error) }, 'the mark of an event could not be written; it ends by itself')
        return null
      }
      await gateway.drain.pause(pauseMs)
    }
  }
}

function identityOf ({ claim: { id, scheme, earlierId } }: Visit): Identity {
  return { id, scheme, earlierId }
}
