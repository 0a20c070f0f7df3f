/** From what a claim or an execution came to, to what the request is answered. */
import { isAcceptance } from '../core/acceptance.ts'
import { sameRequest } from '../core/fingerprint.ts'
import type { Clock } from '../ports.ts'
import { replaysMismatch } from './comparison.ts'
import type { Ending, Execution, Part, Verdict, Visit } from './execution.ts'
import { IdentityMoved } from './ids.ts'
import type { Outcome } from './outcome.ts'
import type { RecentAnswer } from './recent.ts'

export function inFlight (clock: Clock, execution: Execution, starter: boolean): Outcome {
  return { kind: 'in-flight', retryAfterMs: clock.monotonicMs() - execution.startedAtMs, starter, elsewhere: false }
}

/** It tells what stands in the record, and its execution is over. */
export function isOfTheRecord (ending: Ending): boolean {
  return ending.kind === 'stored' || ((ending.kind === 'answered' || ending.kind === 'streamed') && ending.stored)
}

export function fromRecent (visit: Visit, recent: RecentAnswer): Outcome {
  const comparison = sameRequest(visit.asked, visit.claim.fingerprint, recent.fingerprint)
  if (comparison === 'unknown') return { kind: 'unknown', timedOut: false }
  if (comparison === 'different' && !replaysMismatch(visit)) return { kind: 'mismatch' }
  if (recent.state === 'consumed') return { kind: 'not-kept', originalStatus: recent.answer.status }
  return { kind: 'replayed', answer: recent.answer, expiresAtMs: recent.expiresAtMs }
}

export function fromVerdict (verdict: Verdict): Outcome {
  switch (verdict.kind) {
    case 'completed': return { kind: 'replayed', answer: verdict.answer, expiresAtMs: verdict.expiresAtMs }
    case 'consumed': return { kind: 'not-kept', originalStatus: verdict.status }
    case 'in-flight': return { kind: 'in-flight', retryAfterMs: verdict.retryAfterMs, starter: false, elsewhere: true }
    case 'mismatch': return { kind: 'mismatch' }
    case 'accepted': return { kind: 'accepted', names: [verdict.name], split: false, isNew: false, preferred: false }
    case 'unknown': return { kind: 'unknown', timedOut: verdict.timedOut }
    case 'unsettled': return { kind: 'executed', answer: verdict.answer, stored: false, expiresAtMs: null }
    case 'unavailable': return { kind: 'unavailable' }
    case 'moved': throw new IdentityMoved()
    case 'won': throw new Error('a won claim has an ending, not an outcome')
  }
}

/** For the first requester: the whole head. */
export function fromEnding (ending: Ending): Outcome {
  switch (ending.kind) {
    case 'answered': return { kind: 'executed', answer: ending.answer, stored: ending.stored && ending.kept !== null, expiresAtMs: ending.expiresAtMs }
    case 'stored': return { kind: 'replayed', answer: ending.answer, expiresAtMs: ending.expiresAtMs }
    case 'released': return { kind: 'released', answer: ending.answer }
    case 'hop': return { kind: 'hop', answer: ending.answer }
    case 'unprotected': return { kind: 'unprotected', answer: ending.answer }
    case 'accepted': return { kind: 'accepted', names: [ending.name], split: false, isNew: ending.isNew, preferred: false }
    case 'mismatch':
    case 'streamed':
    case 'unknown':
    case 'unsent':
    case 'unavailable': return ending
  }
}

/**
 * For everybody else: kept headers only, and called replayed only when it is stored (I11). null: there is no answer to give,
 * and the arbiter has not taken the tombstone yet; to this request it is still in flight.
 */
export function fromEndingOfAnother (ending: Ending): Outcome | null {
  switch (ending.kind) {
    case 'answered': return fromAnswerOfAnother(ending)
    case 'released': return { kind: 'released', answer: ending.kept }
    case 'hop': return { kind: 'hop', answer: ending.kept }
    case 'unprotected': return { kind: 'unprotected', answer: ending.kept }
    case 'streamed': return fromStreamOfAnother(ending)
    case 'accepted': return fromEnding({ ...ending, isNew: false })
    case 'mismatch':
    case 'stored':
    case 'unknown':
    case 'unsent':
    case 'unavailable': return fromEnding(ending)
  }
}

function fromAnswerOfAnother ({ answer, kept, stored, expiresAtMs }: Extract<Ending, { kind: 'answered' }>): Outcome | null {
  if (kept === null) return stored ? { kind: 'not-kept', originalStatus: answer.status } : null
  if (!stored || expiresAtMs === null) return { kind: 'executed', answer: kept, stored: false, expiresAtMs: null }
  return { kind: 'replayed', answer: kept, expiresAtMs }
}

/** Only the first requester gets a stream (E5); the others, what the record says. */
function fromStreamOfAnother (ending: Extract<Ending, { kind: 'streamed' }>): Outcome | null {
  switch (ending.as) {
    case 'consumed': return ending.stored ? { kind: 'not-kept', originalStatus: ending.status } : null
    case 'unprotected': return { kind: 'not-kept', originalStatus: ending.status }
    case 'released': return { kind: 'released', answer: { status: ending.status, headers: [], body: Buffer.alloc(0) } }
    case 'indeterminate': return { kind: 'unknown', timedOut: ending.status === 504 }
  }
}

/** In the inbox. `isNew`: this request brought it there. */
export function accepted (visit: Pick<Visit, 'preferred'>, parts: readonly Part[], isNew: boolean): Outcome {
  return { kind: 'accepted', names: parts.map(({ name }) => name), split: parts.some(({ item }) => item !== undefined), isNew, preferred: visit.preferred }
}

/** A record that was settled by an acceptance says so, on a route without an inbox too. */
export function asAccepted (visit: Visit, outcome: Outcome): Outcome {
  const answered = outcome.kind === 'executed' || outcome.kind === 'replayed'
  return answered && isAcceptance(outcome.answer, visit.name) ? accepted(visit, [visit], false) : outcome
}
