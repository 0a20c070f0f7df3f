/**
 * A stream is settled by its head before its first byte goes out (E5): executed, and not kept. If the upstream breaks it off
 * later, nothing says whether the work was done. The owner then corrects its tombstone to indeterminate. It uses the same
 * compare-and-set on owner and attempt as every settle, so a later owner's record is safe. It makes no difference
 * whether a client is there.
 */
import type { Settlement, UnknownReason } from '../../core/record/record.ts'
import { errorText } from '../../ports/errors.ts'
import type { StreamedResult } from '../../ports/upstream.ts'
import type { Execution } from '../execution/execution.ts'
import type { Drain } from '../shared/drain.ts'
import { noteIndeterminate } from '../execution/indeterminate.ts'
import type { UnknownOutcome } from '../execution/indeterminate.ts'
import type { ReplayCache } from '../execution/replay-cache.ts'
import type { Deps } from '../shared/deps.ts'
import { AGAIN, retryUntil, STORE_BACKOFF } from '../shared/retry.ts'

export interface BrokenStreamContext {
  readonly deps: Deps
  readonly drain: Drain
  readonly replayCache: ReplayCache
  readonly background: (work: Promise<void>) => void
  /** There is a new probe to send. The reconciler listens. */
  readonly onQuestion: () => void
}

interface Tombstone { readonly outcome: UnknownOutcome, readonly id: Buffer, readonly correction: Settlement }

/** Call it once the tombstone is acknowledged. A stream may last for hours, and a drain does not wait for it. */
export function watchStream (context: BrokenStreamContext, execution: Execution, { status, over }: StreamedResult): void {
  const { keyed: { id, name, route, requestId }, attempt, question, token } = execution
  // Holds nothing more of the execution: its request may be large.
  watch(context, over, status, {
    outcome: { keyed: { name, route, requestId }, attempt, question },
    id,
    correction: {
      token,
      outcome: 'indeterminate',
      keepMs: route.idempotency.unknownRetentionMs,
      status,
      headers: null,
      body: null,
      reason: null,
      question
    }
  })
}

function watch (context: BrokenStreamContext, over: Promise<string | null>, status: number, tombstone: Tombstone): void {
  void over.then((code) => {
    // A process that ends breaks its streams off itself.
    if (code !== null && !context.drain.stopped) context.background(takeBack(context, tombstone, { stage: 'during', code }, status))
  })
}

async function takeBack (
  context: BrokenStreamContext,
  { outcome, id, correction }: Tombstone,
  reason: UnknownReason,
  status: number
): Promise<void> {
  noteIndeterminate(context, outcome, reason, status)
  // No retry gets the tombstone from memory while the correction is written.
  await forget(context, id, outcome)
  if (!await write(context, outcome, { ...correction, reason })) return
  await forget(context, id, outcome)
  if (outcome.question !== null) context.onQuestion()
  context.deps.locks.wake(id)
  // A look from before the correction may still return the tombstone, for as long as a claim may take.
  await context.drain.pause(context.deps.claimWithinMs)
  await forget(context, id, outcome)
}

/** Removes whatever Redis has. If it is a lock by now, the row decides. */
async function forget (context: BrokenStreamContext, id: Buffer, { keyed }: UnknownOutcome): Promise<void> {
  context.replayCache.forget(keyed.name)
  await context.deps.locks.forget(id)
}

/** true: the record says so now. Retries for as long as the process lives. */
async function write (context: BrokenStreamContext, { keyed: { name, route } }: UnknownOutcome, correction: Settlement): Promise<boolean> {
  const { records, meter, log } = context.deps
  return retryUntil(context.drain, STORE_BACKOFF, async () => {
    if (context.drain.stopped) return false
    const result = await records.settle(correction)
    if (result.kind === 'settled') return true
    const { row } = result
    // The reply of an earlier try was lost.
    const mine = row !== null &&
      row.state === 'indeterminate' &&
      row.owner.equals(correction.token.owner) &&
      row.attempt === correction.token.attempt
    if (!mine) {
      log.warn(
        { event: 'broken-stream-fenced', record: name, route: route.name, state: row?.state ?? 'none' },
        'an answer broke off, and its record is not ours any more'
      )
    }
    return mine
  }, (error) => {
    meter.settleRetried(route.name)
    log.warn(
      { event: 'broken-stream-retried', record: name, route: route.name, outcome: correction.outcome, error: errorText(error) },
      'an answer broke off, and its record still calls it executed; trying again'
    )
    return AGAIN
  })
}
