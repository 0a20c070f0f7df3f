/**
 * What a request would be told now, from what the stores hold under its id. The gateway's own functions decide. Pure: nothing is read,
 * claimed or written. What only a running gateway knows is not considered: its limits, a drain, its caches and copies in Redis.
 */
import type { MessageDetail } from '../../core/inbox/message.ts'
import type { GuardedRoute } from '../../core/policy/policy.ts'
import { LAPSED_REASON } from '../../core/protocol/transitions.ts'
import type { RecordDetail, Row } from '../../core/record/record.ts'
import { decisionOfComparison, decisionOfStep, NOBODY, stepFor, storedAnswer, UNREADABLE } from '../../gateway/claim/row-decision.ts'
import type { ClaimDecision } from '../../gateway/execution/execution.ts'
import { asAccepted, fromDecision } from '../../gateway/execution/outcomes.ts'
import { comparedMessage } from '../../gateway/fingerprint/comparison.ts'
import type { Comparison } from '../../gateway/fingerprint/comparison.ts'
import type { Outcome } from '../../gateway/shared/outcome.ts'

/** What the stores hold under the id of a request, and how the request compares with it. */
export interface Known {
  readonly route: GuardedRoute
  readonly record: RecordDetail | null
  readonly message: MessageDetail | null
  /** With the fingerprint of the record, before `onMismatch`. */
  readonly comparison: Comparison
  /** The same with that of the message. */
  readonly ofMessage: Comparison
  /** The client sends `Prefer: respond-async`, and the route has an inbox. */
  readonly preferred: boolean
}

export type Prediction =
  /** `by`: what decided. */
  | { readonly kind: 'outcome', readonly outcome: Outcome, readonly by: 'record' | 'message' }
  /** `attempt`: the number of the sending. */
  | { readonly kind: 'executed', readonly attempt: number }
  /** It becomes a message. */
  | { readonly kind: 'accepted' }

/** For a route that does not drop. */
export function predict (known: Known): Prediction {
  const { message, record, route: { idempotency: { inbox, inboxFor } }, preferred } = known
  if (inbox !== null && inboxFor === 'all') {
    if (message !== null) return byMessage(known, message)
    if (record === null || record.past) return { kind: 'accepted' }
  }
  const found = byRecord(known)
  if (inbox === null) return found
  // A claim that is won is an acceptance here, for whoever asked for one.
  if (found.kind === 'executed') return preferred || inboxFor === 'all' ? { kind: 'accepted' } : found
  return message !== null && found.kind === 'outcome' && !isAnswer(found.outcome) && sameAsMessage(known) === 'same'
    ? byMessage(known, message)
    : found
}

/** The record says more than that there is none to give. */
function isAnswer ({ kind }: Outcome): boolean {
  return kind === 'replayed' || kind === 'accepted'
}

function byMessage (known: Known, message: MessageDetail): Prediction {
  return { kind: 'outcome', outcome: fromDecision(decisionOfComparison(sameAsMessage(known), nameOf(message))), by: 'message' }
}

function sameAsMessage (known: Known): Comparison {
  return comparedMessage(known, known.ofMessage)
}

function byRecord (known: Known): Prediction {
  const { record, message, route } = known
  if (record === null) return unclaimed(known, 1)
  const row = afterLapse(known, record)
  const step = stepFor(row, NOBODY, known.comparison, known, true)
  if (step.do === 'take') return unclaimed(known, row.past ? 1 : row.attempt + 1)
  const decision = step.do === 'replay' ? replayOf(record) : decisionOfStep(row, step, route.idempotency.leaseMs)
  if (decision === null) throw new TypeError(`a row that is looked at cannot lead to: ${step.do}`)
  const outcome = asAccepted({ name: nameOf(record), preferred: known.preferred }, fromDecision(decision))
  return { kind: 'outcome', outcome, by: outcome.kind === 'accepted' && message !== null ? 'message' : 'record' }
}

/** Nothing stands in the way of a claim, except for a message. */
function unclaimed (known: Known, attempt: number): Prediction {
  return known.message === null ? { kind: 'executed', attempt } : byMessage(known, known.message)
}

/** The same request makes a gateway end a lease that is over. */
function afterLapse (known: Known, record: RecordDetail): Row {
  return stepFor(record, NOBODY, known.comparison, known, true).do === 'lapse'
    ? { ...record, state: 'indeterminate', lapsed: false, reason: LAPSED_REASON, status: null }
    : record
}

function replayOf (record: RecordDetail): ClaimDecision {
  const answer = storedAnswer(record)
  return answer === null ? UNREADABLE : { kind: 'completed', answer, expiresAtMs: record.expiresAtMs ?? 0 }
}

function nameOf ({ id }: Pick<RecordDetail | MessageDetail, 'id'>): string {
  return id.toString('base64url')
}
