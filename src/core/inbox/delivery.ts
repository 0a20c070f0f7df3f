/**
 * What follows from a delivery, and when the next one is due. Pure: chance and time are arguments. The message is delivered until the
 * consumer takes it (any 2xx that is kept) or refuses it for good (410), or until the route's limits are reached.
 */
import { judge } from '../protocol/disposition.ts'
import { answerHeaders, keptHeaders } from '../headers/headers.ts'
import { headerValue } from '../headers/lines.ts'
import { CONTENT_TYPE_CHARS_MAX, NO_REPLY, REPLY_BYTES_MAX, WORKER_LOST } from './message.ts'
import type { Delivery, Fate, Reply } from './message.ts'
import type { IdempotencyPolicy, InboxPolicy } from '../policy/policy.ts'
import type { Answer, RawHeaders } from '../record/record.ts'
import { retryAfterMs } from '../headers/retry-hints.ts'

/** How a sending ended, in the terms of the upstream port. */
export type SendOutcome =
  | { readonly kind: 'answer', readonly answer: Answer }
  /** Only its head: the rest is too large to keep, or never ends. */
  | { readonly kind: 'head', readonly answer: Answer }
  | { readonly kind: 'lost', readonly code: string }
  | { readonly kind: 'unsent', readonly code: string }

export interface DeliveryTry {
  readonly tries: number
  readonly ageMs: number
  /** Draws a number from 0 to 1, for the pause before another try. */
  readonly chance: () => number
  readonly nowMs: number
}

const GONE = 410

/**
 * Ends a message before its next sending. null: send it. The worker that took it last died, and could not report that the tries were used
 * up. Without this check, a message that kills its worker would kill one after another.
 */
export function fateBefore (
  { tries, lastError }: Pick<Delivery, 'tries' | 'lastError'>,
  inbox: Pick<InboxPolicy, 'attemptsMax'>
): Fate | null {
  const spent = tries > inbox.attemptsMax && lastError === WORKER_LOST
  return spent ? { kind: 'dead', status: null, error: `ATTEMPTS_SPENT ${WORKER_LOST}`, answer: null, counts: false } : null
}

export function fateOf (sent: SendOutcome, delivery: DeliveryTry, policy: IdempotencyPolicy, inbox: InboxPolicy): Fate {
  if (sent.kind === 'unsent') return againOrDead(null, sent.code, null, null, delivery, inbox)
  if (sent.kind === 'lost') {
    return policy.unknown !== 'retry' ? { kind: 'held', error: sent.code } : againOrDead(null, sent.code, null, null, delivery, inbox)
  }
  const { answer } = sent
  const { status } = answer
  const { disposition, keepBody } = judge(answer, policy)
  const kept = sent.kind === 'answer' && keepBody ? answer : { ...answer, body: Buffer.alloc(0) }
  if (isTaken(answer, policy)) {
    return status === GONE ? { kind: 'dead', status, error: 'GONE', answer: kept } : { kind: 'delivered', answer: kept, status }
  }
  if (policy.unknown !== 'retry' && disposition === 'unknown') return { kind: 'held', error: `HTTP_${status}` }
  // The consumer may have done work before this answer, and may not do it twice.
  if (policy.unknown !== 'retry' && disposition === 'keep') return { kind: 'dead', status, error: `HTTP_${status}`, answer: kept }
  return againOrDead(status, `HTTP_${status}`, kept, retryAfterMs(answer, delivery.nowMs), delivery, inbox)
}

/** The header fields of its answer that may be stored. */
export function keptHeadersOf (sent: SendOutcome, { keep }: IdempotencyPolicy): string[] {
  return 'answer' in sent ? keptHeaders(answerHeaders(sent.answer.headers), keep) : []
}

/**
 * What is kept of it beside the fate: no more than the route keeps of an answer, and of the fields only the type of the content. `headers`:
 * of {@link keptHeadersOf}.
 */
export function replyOf (sent: SendOutcome, headers: RawHeaders, ms: number, policy: IdempotencyPolicy): Reply {
  const took = { ...NO_REPLY, ms: Math.round(ms) }
  if (sent.kind === 'unsent' || sent.kind === 'lost') return took
  const { status, body } = sent.answer
  const kept = sent.kind === 'answer' && judge(sent.answer, policy).keepBody ? body : NO_REPLY.body
  return {
    ...took,
    status,
    contentType: headerValue(headers, 'content-type')?.slice(0, CONTENT_TYPE_CHARS_MAX) ?? null,
    body: kept.subarray(0, REPLY_BYTES_MAX),
    isCut: kept.length > REPLY_BYTES_MAX
  }
}

/**
 * Independent of the profile: a refusal that is kept for a client is no delivery. A status that the route lists, or an answer that the
 * upstream says to keep, is one.
 */
function isTaken (answer: Answer, policy: IdempotencyPolicy): boolean {
  return judge(answer, policy, 'relay').disposition === 'keep'
}

/** The consumer has answered for good. */
export function isFinal (fate: Fate): boolean {
  return fate.kind === 'delivered' || (fate.kind === 'dead' && (fate.error === 'GONE' || fate.error === `HTTP_${fate.status}`))
}

function againOrDead (
  status: number | null,
  error: string,
  answer: Answer | null,
  afterMs: number | null,
  delivery: DeliveryTry,
  inbox: InboxPolicy
): Fate {
  if (delivery.tries >= inbox.attemptsMax) return { kind: 'dead', status, error: `ATTEMPTS_SPENT ${error}`, answer }
  const inMs = Math.max(backoffMs(delivery, inbox), Math.min(afterMs ?? 0, inbox.backoff.longestMs))
  // The next try would come too late.
  if (delivery.ageMs + inMs > inbox.ageMaxMs) return { kind: 'dead', status, error: `TOO_OLD ${error}`, answer }
  return { kind: 'again', inMs, status, error }
}

/**
 * As the route's schedule says. Else with full jitter: between now and a bound that doubles, so that deliveries that failed together are
 * not retried together.
 */
export function backoffMs ({ tries, chance }: Pick<DeliveryTry, 'tries' | 'chance'>, { backoff }: Pick<InboxPolicy, 'backoff'>): number {
  const { scheduleMs } = backoff
  if (scheduleMs !== null) return Math.max(LEAST_MS, scheduleMs[Math.max(0, tries - 1)] ?? scheduleMs.at(-1) ?? 0)
  const bound = Math.min(backoff.longestMs, backoff.firstMs * 2 ** Math.min(tries - 1, DOUBLINGS_MAX))
  return Math.round(Math.max(LEAST_MS, bound * chance()))
}

/** Far above any longest pause, and small enough for a number. */
const DOUBLINGS_MAX = 40
/** Without a pause there would be a busy loop. */
const LEAST_MS = 10
