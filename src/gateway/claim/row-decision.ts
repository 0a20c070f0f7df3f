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
  const { owner, keyed } = execution
  const step = decide(row, { owner }, same(execution, row.fingerprint), keyed.route.idempotency, context.lapseGuard.mayLapse())
  return step.do === 'mismatch' && replaysMismatch(keyed) ? asIfSame(context, execution, row) : step
}

/** onMismatch: replay. A stored answer replays to any payload. What would execute is still a mismatch (I6). */
function asIfSame (context: RowContext, execution: Execution, row: Row): Step {
  const step = decide(row, { owner: execution.owner }, 'same', execution.keyed.route.idempotency, context.lapseGuard.mayLapse())
  return step.do === 'take' ? { do: 'mismatch' } : step
}

/** null: another statement is needed. */
export function decisionOfRow (context: RowContext, execution: Execution, row: Row, step: Step): RowDecision | null {
  const lock = lockAfter(step, row, true)
  switch (step.do) {
    case 'replay': return replay(context, execution, row)
    case 'not-kept': return { decision: { kind: 'consumed', status: row.status ?? 0 }, lock, row }
    case 'in-flight': return { decision: { kind: 'in-flight', retryAfterMs: retryAfterOf(row, execution.keyed.claim.leaseMs) }, lock, row }
    case 'mismatch': return { decision: { kind: 'mismatch' }, lock, row }
    case 'unknown': return { decision: { kind: 'unknown', timedOut: timedOut(row) }, lock, row }
    case 'execute':
    case 'insert':
    case 'take':
    case 'lapse':
    case 'release-own': return null
  }
}

/** The key has a message in the inbox, of this mode or an earlier one of the route. It is not executed. */
export function decisionOfMessage (keyed: KeyedRequest, message: MessageDetail): ClaimDecision {
  switch (compareMessage(keyed, keyed, message)) {
    case 'same': return { kind: 'accepted', name: keyed.name }
    case 'different': return { kind: 'mismatch' }
    case 'unknown': return { kind: 'unknown', timedOut: false }
  }
}

/** Without a claim, during a drain or at a limit: what the row says. null: only a claim could tell. */
export async function decisionWithoutClaim (context: RowContext, keyed: KeyedRequest): Promise<ClaimDecision | null> {
  const askedAtMs = context.deps.clock.monotonicMs()
  const row = await context.deps.records.look(keyed.id).catch(() => null)
  if (row === null) return null
  const comparison = sameRequest(keyed.asked, keyed.claim.fingerprint, row.fingerprint)
  switch (decide(row, { owner: NOBODY }, comparison, keyed.route.idempotency, false).do) {
    case 'replay': {
      const answer = storedAnswer(row)
      return answer === null ? null : { kind: 'completed', answer, expiresAtMs: context.writes.expiresAtMs(row.keepLeftMs ?? 0, askedAtMs) }
    }
    case 'not-kept': return { kind: 'consumed', status: row.status ?? 0 }
    case 'in-flight': return { kind: 'in-flight', retryAfterMs: retryAfterOf(row, keyed.claim.leaseMs) }
    case 'unknown': return { kind: 'unknown', timedOut: timedOut(row) }
    case 'mismatch': return replaysMismatch(keyed) ? null : { kind: 'mismatch' }
    case 'execute':
    case 'insert':
    case 'take':
    case 'lapse':
    case 'release-own': return null
  }
}

const NOBODY = Buffer.alloc(0)

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
  return { decision: { kind: 'unknown', timedOut: false }, lock: 'delete', row: null }
}

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
