/**
 * Turns an outcome into an HTTP answer, row by row as in docs/reference/http.md. Pure: it writes nothing and decides
 * nothing about the record.
 */
import { acceptedAnswer, acceptedAnswers, untakenAnswer } from '../../core/inbox/acceptance.ts'
import type { AcceptedMessage } from '../../core/inbox/acceptance.ts'
import type { CorsRequest } from '../../core/headers/cors.ts'
import { releasedStatus } from '../../core/protocol/disposition.ts'
import { headerValue, pairs } from '../../core/headers/lines.ts'
import { replayedHeaders } from '../../core/headers/headers.ts'
import type { Refusal } from '../../core/limits/limit.ts'
import { codeOfRefusal, problem } from '../../core/protocol/problems.ts'
import type { ProblemCode } from '../../core/protocol/problems.ts'
import type { GuardedRoute } from '../../core/policy/policy.ts'
import type { Answer, RawHeaders } from '../../core/record/record.ts'
import { withoutRetryHints } from '../../core/headers/retry-hints.ts'
import { rejected } from '../../gateway/shared/outcome.ts'
import type { AnswerBody, Outcome } from '../../gateway/shared/outcome.ts'
import { isShownAsStatus, problemOf } from '../../gateway/shared/problem-answer.ts'
import type { ProblemAnswer } from '../../gateway/shared/problem-answer.ts'

export interface Reply {
  readonly status: number
  /** Flat, without framing. */
  readonly headers: string[]
  /** A string has a byte in each character (latin1). */
  readonly body: Buffer | string | AnswerBody
  readonly close: boolean
  /** For the log line and the metric. */
  readonly outcome: string
  readonly problem: ProblemCode | null
  /** For the log line if the status does not say it. */
  readonly reason?: string
  /** The answer is stored, so a retry with the same key gets it again. */
  readonly kept?: boolean
}

export interface ReplyContext {
  readonly route: GuardedRoute
  readonly requestId: string
  readonly corsRequest: CorsRequest
  readonly problemBaseUri: string
}

/** Retry-After if the time is not known: soon, without hammering. */
const RETRY_SOON_SECONDS = 1

export function replyTo (outcome: Exclude<Outcome, { kind: 'keyless' }>, context: ReplyContext): Reply {
  switch (outcome.kind) {
    case 'executed': return executed(outcome)
    case 'replayed': return replayed(outcome, context)
    case 'streamed': return streamed(outcome, context)
    case 'released': return released(outcome.answer, context)
    case 'hop': return unchanged(outcome.answer, 'indeterminate')
    case 'unprotected': return unchanged(outcome.answer, 'unprotected')
    case 'accepted': return accepted(outcome)
    case 'rejected': return refusal(context, outcome)
    case 'not-kept': return notKept(outcome, context)
    case 'in-flight':
    case 'mismatch':
    case 'unknown':
    case 'unsent':
    case 'lost':
    case 'unavailable': return problemReply(problemOf(outcome, context.route.idempotency), context)
    case 'duplicate':
      return {
        status: outcome.status,
        headers: ['Idempotency-Status', 'duplicate'],
        body: Buffer.alloc(0),
        close: false,
        outcome: 'duplicate',
        problem: null
      }
    case 'passed': return outcome.as === 'released' ? asReleased(outcome, context, []) : passed(outcome)
  }
}

/** Replaces a kept answer if there is no room to send it now (send-budget.ts). */
export function noRoomReply (refusal: Refusal, context: ReplyContext): Reply {
  return replyTo(
    rejected(codeOfRefusal(refusal), 'The request was executed, and its answer is kept. There is no room to send it now: too much of what was sent before has not been read. Retry with the same key.'),
    context
  )
}

/** The field of OASIS Repeatable Requests. The gateway sets it and drops that of the upstream. */
export function withRepeatabilityResult (reply: Reply, outcome: Outcome): Reply {
  const headers = Array.from(pairs(reply.headers)).filter(([name]) => name.toLowerCase() !== 'repeatability-result').flat()
  return { ...reply, headers: [...headers, 'Repeatability-Result', wasRefused(outcome) ? 'rejected' : 'accepted'] }
}

/** Nothing of this request was or will be done, and the answer is not that of an earlier request with its key. */
function wasRefused (outcome: Outcome): boolean {
  const { kind } = outcome
  return kind === 'rejected' || kind === 'mismatch' || kind === 'unsent' || (kind === 'unavailable' && outcome.inDoubt !== true)
}

// ---------------------------------------------------------------- answers

function executed (outcome: Extract<Outcome, { kind: 'executed' }>): Reply {
  const { answer, stored, expiresAtMs } = outcome
  const headers = [...answer.headers, 'Idempotency-Status', 'executed']
  if (stored && expiresAtMs !== null) headers.push('Idempotency-Expires', imfFixdate(expiresAtMs))
  else headers.push('Idempotency-Stored', 'false')
  return {
    status: answer.status,
    headers,
    body: answer.text ?? answer.body,
    close: false,
    outcome: stored ? 'executed' : 'executed-unstored',
    problem: null,
    kept: stored && expiresAtMs !== null
  }
}

function replayed (outcome: Extract<Outcome, { kind: 'replayed' }>, context: ReplyContext): Reply {
  const kept = withoutRetryHints(outcome.answer, context.route.idempotency.keep.keepHeaders)
  const headers = replayedHeaders(kept, context.corsRequest)
  headers.push('Idempotency-Status', 'replayed', 'Idempotent-Replayed', 'true', 'Idempotency-Expires', imfFixdate(outcome.expiresAtMs))
  // The bytes of a kept text are made when somebody asks for them.
  const { answer } = outcome
  return { status: answer.status, headers, body: answer.text ?? answer.body, close: false, outcome: 'replayed', problem: null, kept: true }
}

/** This answer is shown only once. Retries get the tombstone. */
function streamed (outcome: Extract<Outcome, { kind: 'streamed' }>, context: ReplyContext): Reply {
  if (outcome.as === 'released') return asReleased(outcome, context, ['Idempotency-Stored', 'false'])
  const mark = outcome.as === 'consumed' ? 'executed' : outcome.as
  const headers = [...outcome.headers, 'Idempotency-Status', mark, 'Idempotency-Stored', 'false']
  return {
    status: outcome.status,
    headers,
    body: outcome.body,
    close: false,
    outcome: outcome.as === 'consumed' ? 'streamed' : outcome.as,
    problem: null
  }
}

function released (answer: Answer, context: ReplyContext): Reply {
  return asReleased(answer, context, [])
}

/** Fields and body stay unchanged under any status. So the delivery log of a relay shows the consumer's answer. */
function asReleased (
  { status, headers, body }: Pick<Reply, 'status' | 'body'> & { readonly headers: RawHeaders },
  context: ReplyContext,
  marks: readonly string[]
): Reply {
  const shownStatus = releasedStatus({ status, headers }, context.route.idempotency.onRelease)
  const reply = {
    status: shownStatus,
    headers: [...headers, 'Idempotency-Status', 'released', ...marks],
    body,
    close: false,
    outcome: 'released',
    problem: null
  }
  if (shownStatus === status) return reply
  reply.headers.push('Idempotency-Original-Status', String(status))
  if (headerValue(headers, 'retry-after') === null) reply.headers.push('Retry-After', String(RETRY_SOON_SECONDS))
  return { ...reply, reason: `HTTP_${status}` }
}

/** The same answer for every request of a message. No member has the name "status", because Dapr would use it as its own. */
function accepted ({ messages, split, preferred }: Extract<Outcome, { kind: 'accepted' }>): Reply {
  const { status, headers, body } = split ? acceptedAnswers(messages) : acceptedOne(messages[0])
  const isNew = messages.some((message) => message.isNew)
  const marks = ['Idempotency-Status', 'accepted', ...preferred ? ['Preference-Applied', 'respond-async'] : []]
  return { status, headers: [...headers, ...marks], body, close: false, outcome: isNew ? 'accepted' : 'accepted-again', problem: null }
}

function acceptedOne (message: AcceptedMessage | undefined): Answer {
  return message?.isStored === false ? untakenAnswer() : acceptedAnswer(message?.name ?? '')
}

function unchanged (answer: Answer, mark: string): Reply {
  return {
    status: answer.status,
    headers: [...answer.headers, 'Idempotency-Status', mark],
    body: answer.body,
    close: false,
    outcome: mark,
    problem: null
  }
}

function passed ({ status, headers, body, as }: Extract<Outcome, { kind: 'passed' }>): Reply {
  return {
    status,
    headers: [...headers, 'Idempotency-Status', as === 'flagged' ? 'duplicate' : as],
    body,
    close: false,
    outcome: as,
    problem: null
  }
}

function notKept (outcome: Extract<Outcome, { kind: 'not-kept' }>, context: ReplyContext): Reply {
  const { route: { idempotency } } = context
  if (!isShownAsStatus(idempotency)) return problemReply(problemOf(outcome, idempotency), context)
  return {
    status: outcome.originalStatus,
    headers: ['Idempotency-Status', 'consumed'],
    body: Buffer.alloc(0),
    close: false,
    outcome: 'not-kept',
    problem: null
  }
}

// ---------------------------------------------------------------- problems

function refusal (context: ReplyContext, outcome: Extract<Outcome, { kind: 'rejected' }>): Reply {
  const reply = problemReply(problemOf(outcome, context.route.idempotency), context)
  return outcome.reason === undefined ? reply : { ...reply, reason: outcome.reason }
}

function problemReply (answer: ProblemAnswer, context: ReplyContext): Reply {
  const { code, mark, close = false, outcome } = answer
  const { status, headers, body } = problem(code, {
    status: answer.status,
    requestId: context.requestId,
    base: context.problemBaseUri,
    hints: context.route.idempotency.retryHints,
    retryAfterSeconds: answer.retryAfterSeconds ?? null,
    ...(answer.detail === undefined ? {} : { detail: answer.detail }),
    ...(answer.challenge === undefined ? {} : { challenge: answer.challenge }),
    ...(answer.members === undefined ? {} : { members: answer.members })
  })
  if (mark !== undefined) headers.push('Idempotency-Status', mark)
  return { status, headers, body, close, outcome, problem: code }
}

// ---------------------------------------------------------------- small things

let lastSecond = NaN
let lastDate = ''

/** Caches the last second: many answers in a row have the same date. */
function imfFixdate (wallMs: number): string {
  const second = Math.floor(wallMs / MS_PER_SECOND)
  if (second !== lastSecond) {
    lastSecond = second
    lastDate = new Date(wallMs).toUTCString()
  }
  return lastDate
}

const MS_PER_SECOND = 1000
