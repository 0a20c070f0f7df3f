/** Writes the outcome of an execution, until the arbiter has answered or the process ends. */
import type { Row, Settlement, UnknownReason } from '../../core/record/record.ts'
import type { Clock } from '../../ports/clock.ts'
import { errorText, StoreRejected } from '../../ports/errors.ts'
import type { Execution } from '../execution/execution.ts'
import { noteIndeterminate } from '../execution/indeterminate.ts'
import { readClocks } from '../shared/clock-reading.ts'
import type { Deps } from '../shared/deps.ts'
import type { Drain } from '../shared/drain.ts'
import { AGAIN, retryUntil, STORE_BACKOFF } from '../shared/retry.ts'

interface WriteContext {
  readonly deps: Deps
  readonly drain: Drain
}

export type Stored = Extract<Settled, { kind: 'stored' }>

export type Settled =
  /** `askedAtMs`: monotonic, before the statement. */
  | { readonly kind: 'stored', readonly keepLeftMs: number, readonly askedAtMs: number, readonly askedAtWallMs: number }
  /** Less was stored than was asked: the store refuses the content for ever (P7). */
  | { readonly kind: 'degraded' }
  /** The record belongs to another owner now, or is gone. */
  | { readonly kind: 'fenced', readonly row: Row | null }
  /** The process ends before the arbiter has answered. The lease will end, and another process may adopt the unsettled copy. */
  | { readonly kind: 'abandoned' }

/** Goes on with the first settle, which was sent as `wanted`. Never rejects. */
export async function settleUntilDone (context: WriteContext, execution: Execution, wanted: Settlement): Promise<Settled> {
  const { meter, log } = context.deps
  const { route, name } = execution.keyed
  let settlement = wanted
  let isFirst = true
  return retryUntil<Settled>(context.drain, STORE_BACKOFF, async () => {
    const settled = await settleOnce(context, execution, settlement, isFirst)
    if (settled.kind !== 'stored' || settlement.outcome === wanted.outcome) return settled
    if (settlement.outcome === 'indeterminate') noteIndeterminate(context, execution, REFUSED, null)
    return { kind: 'degraded' }
  }, (error) => {
    isFirst = false
    meter.settleRetried(route.name)
    log.warn(
      { event: 'settle-retried', record: name, route: route.name, outcome: settlement.outcome, error: errorText(error) },
      'settling failed; trying again'
    )
    if (error instanceof StoreRejected) settlement = lesser(settlement)
    return context.drain.stopped ? { kind: 'abandoned' } : AGAIN
  })
}

/** `isFirst`: the statement is on its way already. */
async function settleOnce (context: WriteContext, execution: Execution, settlement: Settlement, isFirst: boolean): Promise<Settled> {
  const { records, clock } = context.deps
  const asked = (isFirst ? execution.settleAsked : null) ?? readClocks(clock)
  const [askedAtMs, askedAtWallMs] = [asked.monotonicMs, asked.monotonicMs + asked.offsetMs]
  execution.settleAsked = asked
  let result = isFirst ? await execution.firstSettle() : await records.settle(settlement)
  if (result.kind === 'refused' && result.row === null) {
    if (settlement.outcome === 'released' || mayBeSwept(execution, settlement, clock)) return { kind: 'fenced', row: null }
    result = await records.settleLost(settlement, execution.claim, execution.ageMs(clock))
  }
  if (result.kind === 'settled') return { kind: 'stored', keepLeftMs: result.keepLeftMs, askedAtMs, askedAtWallMs }
  return refusedBy(execution, settlement, result.row, askedAtMs, askedAtWallMs)
}

/**
 * The row has vanished. It is a failover only while the row's life cannot be over. Later it may have been swept, and an insert would
 * bring it back. Another attempt may have settled it since, with a retention of as little as two leases
 * (core/protocol/disposition.ts), after the last lease that was granted here. The store itself knows what operators have done.
 */
function mayBeSwept (execution: Execution, { keepMs, outcome }: Settlement, clock: Clock): boolean {
  const { unknown, retentionMs, unknownRetentionMs, leaseMs } = execution.keyed.route.idempotency
  if (execution.ageMs(clock) >= Math.min(keepMs, retentionMs, unknownRetentionMs)) return true
  // An indeterminate record whose settle lost its reply is taken at once, without the wait for a lease.
  const leases = outcome === 'indeterminate' ? LEASES_TO_SWEPT - 1 : LEASES_TO_SWEPT
  return unknown === 'retry' && execution.sinceGrantMs(clock) >= leases * leaseMs
}

/** One lease until it can be lapsed and taken, two leases of retention. */
const LEASES_TO_SWEPT = 3

/**
 * A refusal is not always a fence. If the row has my own outcome, the reply of an earlier try was lost. An outcome that an operator
 * or a probe wrote may have another answer.
 */
function refusedBy (execution: Execution, settlement: Settlement, row: Row | null, askedAtMs: number, askedAtWallMs: number): Settled {
  const mine = row !== null && row.owner.equals(execution.owner) && row.attempt === execution.attempt
  if (mine && row.state === settlement.outcome && row.settledBy !== 'operator' && row.settledBy !== 'probe') {
    return { kind: 'stored', keepLeftMs: row.keepLeftMs ?? settlement.keepMs, askedAtMs, askedAtWallMs }
  }
  return { kind: 'fenced', row }
}

/** The store takes neither the answer nor its tombstone. */
const REFUSED: UnknownReason = { stage: 'settle', code: 'REFUSED' }

/** P7: content that the store can never take leaves a tombstone. If that is refused too, the outcome is unknown. */
function lesser (settlement: Settlement): Settlement {
  const bare = { ...settlement, headers: null, body: null }
  return settlement.outcome === 'completed'
    ? { ...bare, outcome: 'consumed' }
    : { ...bare, outcome: 'indeterminate', status: null, reason: REFUSED }
}
