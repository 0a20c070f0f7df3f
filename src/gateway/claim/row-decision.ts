/** What a record's row says to a request with its key. */
import { sameRequest } from '../../core/fingerprint/fingerprint.ts'
import type { MessageDetail } from '../../core/inbox/message.ts'
import { decodeHeaders } from '../../core/protocol/codec.ts'
import { decide, lockAfter } from '../../core/protocol/transitions.ts'
import type { LockFate, Step } from '../../core/protocol/transitions.ts'
import type { Answer, Fingerprint, Row } from '../../core/record/record.ts'
import type { ClaimDecision, Execution } from '../execution/execution.ts'
import type { RecordWrites } from '../execution/record-writes.ts'
import type { ReplayCache } from '../execution/replay-cache.ts'
import { compareMessage, replaysMismatch } from '../fingerprint/comparison.ts'
import type { Comparison } from '../fingerprint/comparison.ts'
import type { KeyedRequest } from '../fingerprint/keyed-request.ts'
import type { Deps } from '../shared/deps.ts'
import type { LapseGuard } from '../shared/lapse-guard.ts'
import { linkTo } from '../shared/steps.ts'

export interface RowContext {
  readonly deps: Deps
  readonly writes: RecordWrites
  readonly replayCache: ReplayCache
  readonly lapseGuard: LapseGuard
}

/** `Retry-After` if nothing says how long to wait: a lock without a row, a lost race. */
export const RETRY_SOON_MS = 1_000

/** The decision, what becomes of my lock, and the row that both were read from. */
export interface RowDecision { readonly decision: ClaimDecision, readonly lock: LockFate, readonly row: Row | null }

/** The step that the protocol's table gives for this row and this request. */
export function stepOf (context: RowContext, execution: Execution, row: Row): Step {
  return stepFor(row, execution.owner, same(execution, row.fingerprint), execution.keyed, context.lapseGuard.mayLapse())
}

/** The same for any request that compares so. `owner`: that of its claim. */
export function stepFor (row: Row, owner: Buffer, comparison: Comparison, routed: Pick<KeyedRequest, 'route'>, mayLapse: boolean): Step {
  const policy = routed.route.idempotency
  const step = decide(row, { owner }, comparison, policy, mayLapse)
  if (step.do !== 'mismatch' || !replaysMismatch(routed)) return step
  // onMismatch: replay. A stored answer replays to any payload. What would execute is still a mismatch (I6).
  const asIfSame = decide(row, { owner }, 'same', policy, mayLapse)
  return asIfSame.do === 'take' ? { do: 'mismatch' } : asIfSame
}

/** null: another statement is needed. */
export function decisionOfRow (context: RowContext, execution: Execution, row: Row, step: Step): RowDecision | null {
  linkTo(execution.keyed.steps, row)
  if (step.do === 'replay') return replay(context, execution, row)
  const decision = decisionOfStep(row, step, execution.keyed.claim.leaseMs)
  return decision === null ? null : { decision, lock: lockAfter(step, row, true), row }
}

/** What the row says by this step, except for a replay. null: that is not all. */
export function decisionOfStep (row: Row, step: Step, leaseMs: number): ClaimDecision | null {
  switch (step.do) {
    case 'not-kept': return { kind: 'consumed', status: row.status ?? 0 }
    case 'in-flight': return { kind: 'in-flight', retryAfterMs: retryAfterOf(row, leaseMs) }
    case 'mismatch': return { kind: 'mismatch' }
    case 'unknown': return { kind: 'unknown', timedOut: timedOut(row) }
    case 'replay':
    case 'execute':
    case 'insert':
    case 'take':
    case 'lapse':
    case 'release-own': return null
  }
}

/** The key has a message in the inbox, of this mode or an earlier one of the route. It is not executed. */
export function decisionOfMessage (keyed: KeyedRequest, message: MessageDetail): ClaimDecision {
  return decisionOfComparison(compareMessage(keyed, keyed, message), keyed.name)
}

/** `name`: that of the message. */
export function decisionOfComparison (comparison: Comparison, name: string): ClaimDecision {
  switch (comparison) {
    case 'same': return { kind: 'accepted', name }
    case 'different': return { kind: 'mismatch' }
    case 'unknown': return { kind: 'unknown', timedOut: false }
  }
}

/** Without a claim, during a drain or at a limit: what the row says. null: only a claim could tell. */
export async function decisionWithoutClaim (context: RowContext, keyed: KeyedRequest): Promise<ClaimDecision | null> {
  const askedAtMs = context.deps.clock.monotonicMs()
  const row = await context.deps.records.look(keyed.id).catch(() => null)
  if (row === null) return null
  linkTo(keyed.steps, row)
  const comparison = sameRequest(keyed.asked, keyed.claim.fingerprint, row.fingerprint)
  const step = decide(row, { owner: NOBODY }, comparison, keyed.route.idempotency, false)
  if (step.do === 'replay') {
    const answer = storedAnswer(row)
    return answer === null ? null : { kind: 'completed', answer, expiresAtMs: context.writes.expiresAtMs(row.keepLeftMs ?? 0, askedAtMs) }
  }
  return step.do === 'mismatch' && replaysMismatch(keyed) ? null : decisionOfStep(row, step, keyed.claim.leaseMs)
}

/** The owner of no claim. */
export const NOBODY = Buffer.alloc(0)

function replay (context: RowContext, execution: Execution, row: Row): RowDecision {
  const answer = storedAnswer(row)
  if (answer === null) return undecodable(context, execution)
  context.replayCache.keepRow(execution.keyed.name, row, answer, execution.askedAtMs, execution.askedAtMs + execution.clockOffsetMs)
  return {
    decision: { kind: 'completed', answer, expiresAtMs: context.writes.expiresAtMs(row.keepLeftMs ?? 0, execution.askedAtMs) },
    lock: 'copy',
    row
  }
}

export function storedAnswer (row: Row): Answer | null {
  const headers = row.headers === null ? null : decodeHeaders(row.headers)
  return headers === null || row.body === null || row.status === null ? null : { status: row.status, headers, body: row.body }
}

/** A stored answer that cannot be decoded is an unknown outcome. It is logged, and never executed again. */
function undecodable (context: RowContext, execution: Execution): RowDecision {
  context.deps.log.error(
    { event: 'answer-unreadable', record: execution.keyed.name, route: execution.keyed.route.name },
    'stored answer cannot be decoded; treated as indeterminate'
  )
  return { decision: UNREADABLE, lock: 'delete', row: null }
}

export const UNREADABLE: ClaimDecision = { kind: 'unknown', timedOut: false }

export function same (execution: Execution, theirs: Fingerprint): Comparison {
  return sameRequest(execution.keyed.asked, execution.keyed.claim.fingerprint, theirs)
}

/** As long as it has run so far. If its renewal is overdue, the rest of its lease (docs/reference/http.md). */
function retryAfterOf (row: Row, leaseMs: number): number {
  const leftMs = row.leaseLeftMs ?? 0
  const overdue = leftMs < leaseMs / 2
  return overdue ? Math.max(leftMs, RETRY_SOON_MS) : Math.min(row.ageMs, leaseMs)
}

/** 504 if it ended in silence: a timeout, a dead process, the end of a drain, a hop's 504. 502 if something broke. */
function timedOut (row: Row): boolean {
  return row.status === 504 ||
    row.reason === null ||
    row.reason.stage === 'lease' ||
    row.reason.stage === 'drain' ||
    /TIMEOUT/.test(row.reason.code)
}
