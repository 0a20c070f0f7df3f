/**
 * The mark of an event of mode drop: written before the event is sent, and updated or removed afterwards. A failed write is retried for
 * a while. A write that may have been applied without an acknowledgement is taken back.
 */
import { DONE_WITHIN_MS, runningMs } from '../../core/drop/drop.ts'
import type { MarkFate } from '../../core/drop/drop.ts'
import type { Identity } from '../../core/record/record-id.ts'
import type { DropPolicy } from '../../core/policy/policy.ts'
import { errorText, StoreRejected, StoreUnavailable } from '../../ports/errors.ts'
import type { MarkStore } from '../../ports/marks.ts'
import type { DropExecution, MarkDecision } from './drop-executions.ts'
import type { KeyedRequest } from '../fingerprint/keyed-request.ts'
import type { Drain } from '../shared/drain.ts'
import { AGAIN, retryUntil } from '../shared/retry.ts'
import type { Backoff } from '../shared/retry.ts'
import { TIMED_OUT, withTimeout } from '../shared/timeout.ts'
import type { Deps } from '../shared/deps.ts'

export interface MarkContext {
  readonly deps: Deps
  readonly drain: Drain
  readonly background: (work: Promise<void>) => void
}

/** Short enough for a lost reply, long enough for a restart. */
const BACKOFF: Backoff = { firstMs: 50, longestMs: 2_000 }
/** How long after the answer a mark is still written. A longer outage lets duplicates through. */
const REMEMBER_FOR_MS = 30_000

/** Only 'marked' and 'unprotected' permit sending. A mark that is written later is taken back. */
export async function markInTime (
  context: MarkContext,
  execution: DropExecution,
  marks: MarkStore,
  policy: DropPolicy
): Promise<MarkDecision> {
  const { clock, claimWithinMs, log } = context.deps
  const marking = mark(context, execution, marks, policy)
  const decision = await withTimeout(clock, claimWithinMs, marking)
  if (decision !== TIMED_OUT) return decision
  const { name, idempotency: { onStoreDown } } = execution.keyed.route
  context.background(marking.then(async (late) => { if (late === 'marked') await takeBack(context, execution, marks) }))
  log.warn({ event: 'mark-timeout', record: execution.keyed.name, route: name, onStoreDown }, 'event not marked in time')
  return withoutMark(execution)
}

/** The mark may exist all the same. It is taken back, or ends by itself. */
function withoutMark ({ keyed }: DropExecution): MarkDecision {
  return keyed.route.idempotency.onStoreDown === 'forward' ? 'unprotected' : 'unavailable'
}

async function mark (context: MarkContext, execution: DropExecution, marks: MarkStore, policy: DropPolicy): Promise<MarkDecision> {
  const { keyed, token } = execution
  const { clock, claimWithinMs, log } = context.deps
  const { upstream, name, idempotency: { onStoreDown } } = keyed.route
  const [as, keepMs] = policy.mark === 'before'
    ? ['done', policy.windowMs] as const
    : ['running', runningMs(upstream.timeoutMs, claimWithinMs)] as const
  return retryUntil<MarkDecision>(context.drain, BACKOFF, async () => {
    const found = await marks.mark({ ...identityOf(keyed), token, as, keepMs })
    if (found !== 'marked' && execution.doubted) context.background(takeBack(context, execution, marks))
    return found
  }, (error, pauseMs) => {
    const inDoubt = error instanceof StoreUnavailable && error.inDoubt
    execution.doubted ||= inDoubt
    // Under the same token: if the first try was applied, this one finds it.
    if (inDoubt && !context.drain.stopped && execution.ageMs(clock) + pauseMs < claimWithinMs / 2) return AGAIN
    if (execution.doubted) context.background(takeBack(context, execution, marks))
    log.warn({ event: 'mark-failed', record: keyed.name, route: name, onStoreDown, error: errorText(error) }, 'event could not be marked')
    return withoutMark(execution)
  })
}

/** Nothing was sent under this mark. It is removed twice, because a statement that was given up may still commit. */
async function takeBack (context: MarkContext, execution: DropExecution, marks: MarkStore): Promise<void> {
  const { keyed, token } = execution
  const { claimWithinMs } = context.deps
  const forMs = runningMs(keyed.route.upstream.timeoutMs, claimWithinMs)
  const remove = async (): Promise<boolean> => marks.remove(keyed.id, token)
  await untilDone(context, execution, remove, forMs)
  await context.drain.pause(claimWithinMs)
  if (!context.drain.stopped) await untilDone(context, execution, remove, forMs)
}

export interface Ended {
  /** The store has acknowledged it within the waiters' time. */
  readonly inTime: boolean
  /** The mark from before the sending still stands, though it should be removed: a filter cannot forget. */
  readonly stands: boolean
  /** Goes on after the waiters' time. null: given up. */
  readonly rest: Promise<boolean | null>
}

/** Call it after the sending. Never rejects. */
export async function endMark (
  context: MarkContext,
  execution: DropExecution,
  marks: MarkStore,
  fate: MarkFate,
  policy: DropPolicy
): Promise<Ended> {
  if (fate === 'stays') return { inTime: true, stands: true, rest: Promise.resolve(true) }
  const { keyed, token } = execution
  const { clock, claimWithinMs } = context.deps
  const result = fate === 'done'
    ? untilDone(
      context,
      execution,
      async () => { await marks.done({ ...identityOf(keyed), token, keepMs: policy.windowMs }); return true },
      REMEMBER_FOR_MS
    )
    : untilDone(context, execution, async () => marks.remove(keyed.id, token), runningMs(keyed.route.upstream.timeoutMs, claimWithinMs))
  const startedAt = clock.monotonicMs()
  const early = await withTimeout(clock, DONE_WITHIN_MS, result)
  keyed.steps.settleMs = clock.monotonicMs() - startedAt
  return { inTime: early !== TIMED_OUT && early !== null, stands: early === false && policy.mark === 'before', rest: result }
}

/** null: given up. */
async function untilDone (
  context: MarkContext,
  { keyed }: DropExecution,
  work: () => Promise<boolean>,
  forMs: number
): Promise<boolean | null> {
  const { clock, meter, log } = context.deps
  const endsAtMs = clock.monotonicMs() + forMs
  return retryUntil<boolean | null>(context.drain, BACKOFF, work, (error, pauseMs) => {
    meter.settleRetried(keyed.route.name)
    const over = context.drain.stopped || error instanceof StoreRejected || clock.monotonicMs() + pauseMs > endsAtMs
    if (!over) return AGAIN
    log.error(
      { event: 'mark-given-up', record: keyed.name, route: keyed.route.name, error: errorText(error) },
      'the mark of an event could not be written; it ends by itself'
    )
    return null
  })
}

function identityOf ({ claim: { id, scheme, earlierId } }: KeyedRequest): Identity {
  return { id, scheme, earlierId }
}
