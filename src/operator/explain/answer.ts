/** What a retry would be told now, and why: as data for programs, and in sentences for people. */
import { ACCEPTED } from '../../core/inbox/acceptance.ts'
import type { MessageDetail } from '../../core/inbox/message.ts'
import type { DropPolicy, GuardedRoute, IdempotencyPolicy } from '../../core/policy/policy.ts'
import type { ProblemCode } from '../../core/protocol/problems.ts'
import type { RecordDetail } from '../../core/record/record.ts'
import type { Comparison } from '../../gateway/fingerprint/comparison.ts'
import type { Outcome } from '../../gateway/shared/outcome.ts'
import { isShownAsStatus, problemOf } from '../../gateway/shared/problem-answer.ts'
import type { ProblemAnswer, Problematic } from '../../gateway/shared/problem-answer.ts'
import { predict } from './prediction.ts'
import type { Known, Prediction } from './prediction.ts'
import { durationText, executionWords, messageWords, recordWords, unknownWords } from './words.ts'

/**
 * replays: the stored answer. shows-status: the status of an answer that was not kept. waits: for an execution, then the status and the
 * code. passes: it is sent without a record. is-dropped, is-flagged: a duplicate in mode drop. is-not-known: nothing here can tell.
 */
export const DOES = [
  'is-executed', 'is-accepted', 'replays', 'shows-status', 'waits', 'is-refused', 'is-dropped', 'is-flagged', 'passes', 'is-not-known'
] as const
export type Does = typeof DOES[number]

export interface RetryAnswer {
  readonly does: Does
  /** null: the upstream's answer decides, or nothing here can tell. */
  readonly status: number | null
  /** The code of the problem. null: it gets none. */
  readonly code: ProblemCode | null
  /** In the order in which they are to be read. None of them has a key, a credential or a part of a body. */
  readonly sentences: readonly string[]
}

export interface RetryQuestion {
  readonly record: RecordDetail | null
  /** The message under the same id. Absent: there is none. */
  readonly message?: MessageDetail | null
  /** The guarded route of the record's name. null: the configuration has none. */
  readonly route: GuardedRoute | null
  /** Absent: the same request comes again. */
  readonly comparison?: Comparison
  /** Mode drop: a mark stands. null, or absent: it cannot be seen. */
  readonly isMarked?: boolean | null
}

/** What a retry of this record's request would be told. */
export function retryAnswer ({ record, message = null, route, comparison = 'same', isMarked = null }: RetryQuestion): RetryAnswer {
  if (route === null) {
    return notKnown([
      ...record === null ? [] : recordWords(record),
      `The configuration has no guarded route ${record?.about.route ?? message?.about.route ?? 'of this name'} any more.`,
      'Only a request on a route of this name can reach what is stored under it.'
    ])
  }
  return answerFor({ route, record, message, comparison, ofMessage: comparison, preferred: false }, isMarked)
}

/** `isMarked`: as in {@link RetryQuestion}. */
export function answerFor (known: Known, isMarked: boolean | null): RetryAnswer {
  const { drop } = known.route.idempotency
  return drop === null ? answerOfPrediction(known, predict(known)) : dropAnswer(drop, known.route.idempotency, isMarked)
}

export function notKnown (sentences: readonly string[]): RetryAnswer {
  return { does: 'is-not-known', status: null, code: null, sentences }
}

/** The answer to a request that is refused before anything is claimed. `why`: more sentences, before the answer's own. */
export function refusedAnswer (outcome: Problematic, policy: IdempotencyPolicy, why: readonly string[] = []): RetryAnswer {
  const problem = problemOf(outcome, policy)
  return refusal(problem, [
    ...why,
    ...problem.detail === undefined ? [] : [problem.detail],
    `It gets ${codeText(problem)}${retryAfterText(problem)}.`
  ])
}

// ---------------------------------------------------------------- records and messages

function answerOfPrediction (known: Known, prediction: Prediction): RetryAnswer {
  const { record, message } = known
  const first = [
    ...record === null ? [] : recordWords(record),
    ...message === null ? [] : messageWords(message),
    ...record === null && message === null ? ['Nothing is stored under this key.'] : []
  ]
  switch (prediction.kind) {
    case 'executed':
      return { does: 'is-executed', status: null, code: null, sentences: [...first, ...executionWords(known, prediction.attempt)] }
    case 'accepted':
      return accepted([...first, `It becomes a message of the inbox, and its sender gets ${ACCEPTED}.`])
    case 'outcome': return answerOfOutcome(known, prediction.outcome, first)
  }
}

function answerOfOutcome (known: Known, outcome: Outcome, first: readonly string[]): RetryAnswer {
  const { idempotency } = known.route
  switch (outcome.kind) {
    case 'replayed': {
      const { status } = outcome.answer
      const sentences = [...first, ...differs(known), `A retry gets the stored answer again, ${status}.`]
      return { does: 'replays', status, code: null, sentences }
    }
    case 'accepted':
      return accepted([...first, ...differs(known), `A retry gets ${ACCEPTED} for the same message. No second message is made.`])
    case 'not-kept':
      return isShownAsStatus(idempotency)
        ? {
            does: 'shows-status',
            status: outcome.originalStatus,
            code: null,
            sentences: [...first, `A retry gets the status ${outcome.originalStatus} without a body, because the profile is relay.`]
          }
        : refusal(problemOf(outcome, idempotency), [...first, `A retry gets ${codeText(problemOf(outcome, idempotency))}.`])
    case 'in-flight': return inFlight(known, problemOf(outcome, idempotency), first)
    case 'mismatch': return mismatch(problemOf(outcome, idempotency), first)
    case 'unknown': {
      const problem = problemOf(outcome, idempotency)
      return refusal(problem, [...first, `A retry gets ${codeText(problem)}${retryAfterText(problem)}.`, ...unknownWords(known)])
    }
    default: throw new TypeError(`a look at the stores cannot lead to: ${outcome.kind}`)
  }
}

function inFlight ({ route }: Known, problem: ProblemAnswer, first: readonly string[]): RetryAnswer {
  const { waitMs } = route.idempotency.inFlight
  if (waitMs === 0) return refusal(problem, [...first, `A retry gets ${codeText(problem)}${retryAfterText(problem)}.`])
  return {
    ...refusal(problem, [
      ...first,
      `A retry waits for the answer, for ${durationText(waitMs)} at most, because the route says inFlight.wait.`,
      // The number depends on how long the execution has run by then.
      `If there is no answer by then, it gets ${codeText(problem)} with Retry-After.`
    ]),
    does: 'waits'
  }
}

function mismatch (problem: ProblemAnswer, first: readonly string[]): RetryAnswer {
  return refusal(problem, [
    ...first,
    'This request is not the one that was first sent with the key: a compared part of it differs.',
    `It gets ${codeText(problem)}. It is not executed, and it learns nothing of the first request.`
  ])
}

/** With `onMismatch: replay` another request gets the answer too. */
function differs ({ comparison, record }: Known): readonly string[] {
  return comparison === 'different' && record !== null
    ? ['The request differs from the first one, and the route says onMismatch.action: replay.']
    : []
}

// ---------------------------------------------------------------- mode drop

function dropAnswer (drop: DropPolicy, policy: IdempotencyPolicy, isMarked: boolean | null): RetryAnswer {
  const { onDuplicate, status, mark, windowMs } = drop
  const mode = `The route has mode drop. The first event of ${durationText(windowMs)} is forwarded, and no answer is stored.`
  if (isMarked === null) return notKnown([mode, 'Its marks cannot be seen from here, so that a duplicate cannot be recognised.'])
  if (!isMarked) {
    return { does: 'is-executed', status: null, code: null, sentences: [mode, 'There is no mark of this event, so that it is forwarded.'] }
  }
  const marked = [mode, 'There is a mark of this event, so that this one is a duplicate.']
  if (onDuplicate === 'flag') {
    const sentences = [...marked, 'It is forwarded with Onceway-Duplicate: true, because the route says onDuplicate: flag.']
    return { does: 'is-flagged', status: null, code: null, sentences }
  }
  const busy = problemOf({ kind: 'in-flight', retryAfterMs: 0, starter: false, elsewhere: true }, policy)
  return {
    does: 'is-dropped',
    status,
    code: null,
    sentences: [
      ...marked,
      `It is not forwarded, and gets ${status}.`,
      ...mark === 'after' ? [`While the first one is still being forwarded, it gets ${codeText(busy)} instead.`] : []
    ]
  }
}

// ---------------------------------------------------------------- small things

function accepted (sentences: readonly string[]): RetryAnswer {
  return { does: 'is-accepted', status: ACCEPTED, code: null, sentences }
}

function refusal ({ status, code }: ProblemAnswer, sentences: readonly string[]): RetryAnswer {
  return { does: 'is-refused', status, code, sentences }
}

function codeText ({ status, code }: ProblemAnswer): string {
  return `${status} \`${code}\``
}

function retryAfterText ({ retryAfterSeconds = null }: ProblemAnswer): string {
  return retryAfterSeconds === null ? '' : ` with Retry-After: ${retryAfterSeconds}`
}
