/**
 * A stream is settled by its head before its first byte goes out (E5): executed, and not kept. When the upstream then breaks it
 * off, nobody knows any more whether the work was done, and the owner takes its tombstone back: indeterminate, by the
 * same compare-and-set on owner and attempt as every settle, so that whoever has the record since is not touched. Whether a
 * client is there, has left, or was told something has no part in it.
 */
import type { Settlement, UnknownReason } from '../../core/record/record.ts'
import { errorText } from '../../ports/errors.ts'
import type { StreamedResult } from '../../ports/upstream.ts'
import type { Execution } from '../execution/execution.ts'
import type { Drain } from '../shared/drain.ts'
import { noteIndeterminate, RETRY_FIRST_MS, RETRY_LONGEST_MS } from '../execution/indeterminate.ts'
import type { UnknownOutcome } from '../execution/indeterminate.ts'
import type { ReplayCache } from '../execution/replay-cache.ts'
import type { Deps } from '../shared/deps.ts'

export interface BrokenStreamContext {
  readonly deps: Deps
  readonly drain: Drain
  readonly replayCache: ReplayCache
  readonly background: (work: Promise<void>) => void
  /** There is a new probe to send; the reconciler listens. */
  readonly onQuestion: () => void
}

interface Tombstone { readonly told: UnknownOutcome, readonly id: Buffer, readonly correction: Settlement }

/** Once the tombstone is acknowledged. A stream may last for hours, and a drain does not wait for it. */
export function watchStream (context: BrokenStreamContext, execution: Execution, { status, over }: StreamedResult): void {
  const { keyed: { id, name, route, requestId }, attempt, question, token } = execution
  // Nothing more of the execution is held meanwhile: its request may be large.
  watch(context, over, status, {
    told: { keyed: { name, route, requestId }, attempt, question },
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
  { told, id, correction }: Tombstone,
  reason: UnknownReason,
  status: number
): Promise<void> {
  noteIndeterminate(context, told, reason, status)
  // Nobody is shown the tombstone from memory while the correction is written.
  await forget(context, id, told)
  if (!await write(context, told, { ...correction, reason })) return
  await forget(context, id, told)
  if (told.question !== null) context.onQuestion()
  context.deps.locks.wake(id)
  // A look from before the correction may still come out with the tombstone that it saw, for as long as a claim may take.
  await context.drain.pause(context.deps.claimWithinMs)
  await forget(context, id, told)
}

/** Whatever stands in Redis: if it is a lock by now, the row decides. */
async function forget (context: BrokenStreamContext, id: Buffer, { keyed }: UnknownOutcome): Promise<void> {
  context.replayCache.forget(keyed.name)
  await context.deps.locks.forget(id)
}

/** true: the record says so now. Goes on for as long as the process lives. */
async function write (context: BrokenStreamContext, { keyed: { name, route } }: UnknownOutcome, correction: Settlement): Promise<boolean> {
  const { records, meter, log } = context.deps
  for (let pauseMs = RETRY_FIRST_MS; !context.drain.stopped; pauseMs = Math.min(pauseMs * 2, RETRY_LONGEST_MS)) {
    try {
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
    } catch (error) {
      meter.settleRetried(route.name)
      log.warn(
        { event: 'broken-stream-retried', record: name, route: route.name, outcome: correction.outcome, error: errorText(error) },
        'an answer broke off, and its record still calls it executed; trying again'
      )
      await context.drain.pause(pauseMs)
    }
  }
  return false
}
