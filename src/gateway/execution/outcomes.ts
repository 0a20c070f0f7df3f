/** Converts the result of a claim or an execution to the outcome of a request. */
import { isAcceptance } from '../../core/inbox/acceptance.ts'
import { sameRequest } from '../../core/fingerprint/fingerprint.ts'
import type { Clock } from '../../ports/clock.ts'
import { replaysMismatch } from '../fingerprint/comparison.ts'
import type { ClaimDecision, Execution, ExecutionResult } from './execution.ts'
import type { KeyedRequest, Part } from '../fingerprint/keyed-request.ts'
import { IdentityMoved } from '../shared/ids.ts'
import type { Outcome } from '../shared/outcome.ts'
import type { CachedAnswer } from './replay-cache.ts'

export function inFlight (clock: Clock, execution: Execution, starter: boolean): Outcome {
  return { kind: 'in-flight', retryAfterMs: clock.monotonicMs() - execution.startedAtMs, starter, elsewhere: false }
}

/** The result is stored in the record, and its execution is over. */
export function isOutcomeStored (result: ExecutionResult): boolean {
  return result.kind === 'stored' || ((result.kind === 'answered' || result.kind === 'streamed') && result.stored)
}

export function fromCache (keyed: KeyedRequest, cached: CachedAnswer): Outcome {
  const comparison = sameRequest(keyed.asked, keyed.claim.fingerprint, cached.fingerprint)
  if (comparison === 'unknown') return { kind: 'unknown', timedOut: false }
  if (comparison === 'different' && !replaysMismatch(keyed)) return { kind: 'mismatch' }
  if (cached.state === 'consumed') return { kind: 'not-kept', originalStatus: cached.answer.status }
  return { kind: 'replayed', answer: cached.answer, expiresAtMs: cached.expiresAtMs }
}

export function fromDecision (decision: ClaimDecision): Outcome {
  switch (decision.kind) {
    case 'completed': return { kind: 'replayed', answer: decision.answer, expiresAtMs: decision.expiresAtMs }
    case 'consumed': return { kind: 'not-kept', originalStatus: decision.status }
    case 'in-flight': return { kind: 'in-flight', retryAfterMs: decision.retryAfterMs, starter: false, elsewhere: true }
    case 'mismatch': return { kind: 'mismatch' }
    case 'accepted': return acceptedOne(decision.name, false)
    case 'unknown': return { kind: 'unknown', timedOut: decision.timedOut }
    case 'unsettled': return { kind: 'executed', answer: decision.answer, stored: false, expiresAtMs: null }
    case 'unavailable': return { kind: 'unavailable' }
    case 'moved': throw new IdentityMoved()
    case 'won': throw new Error('a won claim has a result, not an outcome')
  }
}

/** For the first requester, with all headers. */
export function outcomeForStarter (result: ExecutionResult): Outcome {
  switch (result.kind) {
    case 'answered':
      return { kind: 'executed', answer: result.answer, stored: result.stored && result.kept !== null, expiresAtMs: result.expiresAtMs }
    case 'stored': return { kind: 'replayed', answer: result.answer, expiresAtMs: result.expiresAtMs }
    case 'released': return { kind: 'released', answer: result.answer }
    case 'hop': return { kind: 'hop', answer: result.answer }
    case 'unprotected': return { kind: 'unprotected', answer: result.answer }
    case 'accepted': return acceptedOne(result.name, result.isNew)
    case 'mismatch':
    case 'streamed':
    case 'unknown':
    case 'unsent':
    case 'unavailable': return result
  }
}

/**
 * For other waiters, with the kept headers only. It is called replayed only if it is stored (I11).
 * null: there is no answer to give, and the arbiter has not taken the tombstone yet. To such a waiter the request is still in flight.
 */
export function outcomeForWaiter (result: ExecutionResult): Outcome | null {
  switch (result.kind) {
    case 'answered': return answerForWaiter(result)
    case 'released': return { kind: 'released', answer: result.kept }
    case 'hop': return { kind: 'hop', answer: result.kept }
    case 'unprotected': return { kind: 'unprotected', answer: result.kept }
    case 'streamed': return streamForWaiter(result)
    case 'accepted': return outcomeForStarter({ ...result, isNew: false })
    case 'mismatch':
    case 'stored':
    case 'unknown':
    case 'unsent':
    case 'unavailable': return outcomeForStarter(result)
  }
}

function answerForWaiter ({ answer, kept, stored, expiresAtMs }: Extract<ExecutionResult, { kind: 'answered' }>): Outcome | null {
  if (kept === null) return stored ? { kind: 'not-kept', originalStatus: answer.status } : null
  if (!stored || expiresAtMs === null) return { kind: 'executed', answer: kept, stored: false, expiresAtMs: null }
  return { kind: 'replayed', answer: kept, expiresAtMs }
}

/** Only the first requester gets a stream (E5). Other waiters get what the record says. */
function streamForWaiter (result: Extract<ExecutionResult, { kind: 'streamed' }>): Outcome | null {
  switch (result.as) {
    case 'consumed': return result.stored ? { kind: 'not-kept', originalStatus: result.status } : null
    case 'unprotected': return { kind: 'not-kept', originalStatus: result.status }
    case 'released': return { kind: 'released', answer: { status: result.status, headers: [], body: Buffer.alloc(0) } }
    case 'indeterminate': return { kind: 'unknown', timedOut: result.status === 504 }
  }
}

function acceptedOne (name: string, isNew: boolean): Outcome {
  return { kind: 'accepted', messages: [{ name, isNew, isStored: true }], split: false, preferred: false }
}

/**
 * The outcome of an accepted request, by the names of its messages. `news`: those that this request accepted, and not an earlier one.
 * `unstored`: those that no target takes.
 */
export function accepted (
  keyed: Pick<KeyedRequest, 'preferred'>,
  parts: ReadonlyArray<Pick<Part, 'name' | 'items'>>,
  { news = NONE, unstored = NONE }: { readonly news?: ReadonlySet<string>, readonly unstored?: ReadonlySet<string> } = {}
): Outcome {
  const places = parts.flatMap(({ name, items = [0] }) => items.map((item, index) =>
    ({ item, message: { name, isNew: index === 0 && news.has(name), isStored: !unstored.has(name) } })))
  return {
    kind: 'accepted',
    messages: places.sort((one, other) => one.item - other.item).map(({ message }) => message),
    split: parts.some(({ items }) => items !== undefined),
    preferred: keyed.preferred
  }
}

const NONE: ReadonlySet<string> = new Set()

/** Recognises a record that was settled by an acceptance, even if the route has no inbox any more. */
export function asAccepted (keyed: Pick<KeyedRequest, 'name' | 'preferred'>, outcome: Outcome): Outcome {
  const answered = outcome.kind === 'executed' || outcome.kind === 'replayed'
  return answered && isAcceptance(outcome.answer, keyed.name) ? accepted(keyed, [keyed]) : outcome
}
