/**
 * Turns an outcome into an HTTP answer, row by row as in docs/reference/http.md. Pure: it writes nothing and decides
 * nothing about the record.
 */
import { acceptedAnswer, acceptedAnswers } from '../../core/inbox/acceptance.ts'
import type { CorsRequest } from '../../core/headers/cors.ts'
import { releasedStatus } from '../../core/protocol/disposition.ts'
import { headerValue, pairs } from '../../core/headers/lines.ts'
import { replayedHeaders } from '../../core/headers/headers.ts'
import type { Refusal } from '../../core/limits/limit.ts'
import { codeOfRefusal, problem, PROBLEMS, retrySoon } from '../../core/protocol/problems.ts'
import type { ProblemCode } from '../../core/protocol/problems.ts'
import type { GuardedRoute } from '../../core/policy/policy.ts'
import type { Answer, RawHeaders } from '../../core/record/record.ts'
import { withoutRetryHints } from '../../core/headers/retry-hints.ts'
import { rejected } from '../../gateway/shared/outcome.ts'
import type { AnswerBody, Outcome } from '../../gateway/shared/outcome.ts'

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
    case 'in-flight': return inFlight(outcome, context)
    case 'mismatch':
      return problemReply('key-reused', context, {
        status: context.route.idempotency.onMismatch.status,
        mark: 'mismatch',
        outcome: 'mismatch',
        ...(outcome.detail === undefined ? {} : { detail: outcome.detail })
      })
    case 'unknown': return unknown(outcome.timedOut, context)
    case 'not-kept': return notKept(outcome.originalStatus, context)
    case 'unsent': return unsent(outcome, context)
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
    case 'lost': return lost(outcome, context)
    case 'unavailable': return unavailable(outcome, context)
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
function accepted ({ names, split, isNew, preferred }: Extract<Outcome, { kind: 'accepted' }>): Reply {
  const [first = ''] = names
  const { status, headers, body } = split ? acceptedAnswers(names) : acceptedAnswer(first)
  const marks = ['Idempotency-Status', 'accepted', ...preferred ? ['Preference-Applied', 'respond-async'] : []]
  return { status, headers: [...headers, ...marks], body, close: false, outcome: isNew ? 'accepted' : 'accepted-again', problem: null }
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

/** api: a problem that names the original status. relay: the original status, so that the message keeps its outcome. */
function notKept (originalStatus: number, context: ReplyContext): Reply {
  if (context.route.idempotency.profile === 'relay') {
    return {
      status: originalStatus,
      headers: ['Idempotency-Status', 'consumed'],
      body: Buffer.alloc(0),
      close: false,
      outcome: 'not-kept',
      problem: null
    }
  }
  return problemReply('answer-not-kept', context, { mark: 'consumed', members: { originalStatus }, outcome: 'not-kept' })
}

// ---------------------------------------------------------------- problems

function inFlight (outcome: Extract<Outcome, { kind: 'in-flight' }>, context: ReplyContext): Reply {
  const { profile, inFlight: policy } = context.route.idempotency
  const status = !outcome.starter ? policy.status : profile === 'relay' ? 503 : 504
  return problemReply('in-flight', context, {
    status,
    retryAfterSeconds: retryAfterSeconds(outcome.retryAfterMs, context.route),
    mark: 'in-flight',
    outcome: outcome.starter ? 'in-flight-own' : 'in-flight'
  })
}

/** Every retry under `hold` gets the same answer as the first request. A 4xx would tell a client "not done, use a new key". */
function unknown (timedOut: boolean, context: ReplyContext): Reply {
  const { profile } = context.route.idempotency
  if (profile === 'relay') {
    return problemReply('outcome-unknown', context, {
      status: PROBLEMS['outcome-unknown'].status.relay,
      retryAfterSeconds: RETRY_SOON_SECONDS,
      mark: 'indeterminate',
      outcome: 'outcome-unknown'
    })
  }
  return problemReply('outcome-unknown', context, { status: timedOut ? 504 : 502, mark: 'indeterminate', outcome: 'outcome-unknown' })
}

function unsent ({ refusal, lost = false }: Extract<Outcome, { kind: 'unsent' }>, context: ReplyContext): Reply {
  const code = refusal === undefined || lost ? 'upstream-unreachable' : codeOfRefusal(refusal)
  return problemReply(code, context, {
    retryAfterSeconds: RETRY_SOON_SECONDS,
    mark: 'released',
    outcome: code === 'upstream-unreachable' ? 'unsent' : code,
    ...lost && { detail: LOST }
  })
}

/** As on a route that passes through: the gateway does not hold this event. `again`: a retry is forwarded again. */
function lost ({ timedOut, again }: Extract<Outcome, { kind: 'lost' }>, context: ReplyContext): Reply {
  const code = timedOut ? 'upstream-timeout' : 'upstream-failed'
  const relay = context.route.idempotency.profile === 'relay'
  const then = again ? 'A retry with the same key is passed on again.' : 'A retry with the same key is not passed on.'
  return problemReply(code, context, {
    mark: 'indeterminate',
    outcome: code,
    detail: `${PROBLEMS[code].detail} ${then}`,
    ...(relay ? { status: RELAY_RETRIES, retryAfterSeconds: RETRY_SOON_SECONDS } : {})
  })
}

/** The one status that every relay retries. */
const RELAY_RETRIES = 503
const LOST = 'No connection to the service could be made. Nothing was sent, and this route had marked the event before: a retry with the same key is not passed on.'

/** The message may have been stored. It is stored once, however often the request is retried. */
function unavailable ({ inDoubt = false }: Extract<Outcome, { kind: 'unavailable' }>, context: ReplyContext): Reply {
  const detail = inDoubt
    ? { detail: 'The store did not say in time whether it has taken this request. Retry with the same key: it is taken once.' }
    : {}
  return problemReply('store-unavailable', context, { retryAfterSeconds: RETRY_SOON_SECONDS, outcome: 'store-unavailable', ...detail })
}

function refusal (context: ReplyContext, outcome: Extract<Outcome, { kind: 'rejected' }>): Reply {
  const reply = problemReply(outcome.code, context, {
    outcome: outcome.code,
    close: outcome.close ?? false,
    ...(outcome.detail === undefined ? {} : { detail: outcome.detail }),
    ...(outcome.challenge === undefined ? {} : { challenge: outcome.challenge }),
    retryAfterSeconds: retrySoon(outcome.code)
  })
  return outcome.reason === undefined ? reply : { ...reply, reason: outcome.reason }
}

interface ProblemOptions {
  readonly outcome: string
  readonly status?: number
  readonly detail?: string
  readonly challenge?: string
  readonly mark?: string
  readonly retryAfterSeconds?: number | null
  readonly members?: Readonly<Record<string, string | number | boolean>>
  readonly close?: boolean
}

function problemReply (code: ProblemCode, context: ReplyContext, options: ProblemOptions): Reply {
  const { profile, retryHints } = context.route.idempotency
  const { status, headers, body } = problem(code, {
    status: options.status ?? PROBLEMS[code].status[profile],
    requestId: context.requestId,
    base: context.problemBaseUri,
    hints: retryHints,
    retryAfterSeconds: options.retryAfterSeconds ?? null,
    ...(options.detail === undefined ? {} : { detail: options.detail }),
    ...(options.challenge === undefined ? {} : { challenge: options.challenge }),
    ...(options.members === undefined ? {} : { members: options.members })
  })
  if (options.mark !== undefined) headers.push('Idempotency-Status', options.mark)
  return { status, headers, body, close: options.close ?? false, outcome: options.outcome, problem: code }
}

// ---------------------------------------------------------------- small things

/** At least one second, at most the lease. */
function retryAfterSeconds (ms: number, route: GuardedRoute): number {
  const leaseSeconds = Math.max(1, Math.ceil(route.idempotency.leaseMs / 1000))
  return Math.min(leaseSeconds, Math.max(1, Math.ceil(ms / 1000)))
}

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
