/**
 * How fast one process delivers a route's messages. Pure: time is an argument. If a consumer fails, fewer and fewer deliveries run at once.
 * In the end there is one at a time, with a pause between. If the consumer takes messages again, more and more run. So an outage uses few
 * attempts, and its end is no stampede. A message that the consumer refuses says nothing about the others, so it slows none of them.
 */
import { isFinal } from './delivery.ts'
import type { SendOutcome } from './delivery.ts'
import type { Fate } from './message.ts'
import type { InboxPolicy } from '../policy/policy.ts'
import type { Answer } from '../record/record.ts'
import { retryAfterMs } from '../headers/retry-hints.ts'

/** Times are from one clock that never goes backwards. */
export interface Pace {
  /** The most deliveries at once, from 1 to the route's concurrency. */
  readonly limit: number
  /** Messages that were taken, minus those that broke the consumer, since the limit last changed. At most the limit. */
  readonly score: number
  /** Pauses in a row, without an answer in between that shows that the consumer works. */
  readonly pauses: number
  readonly pausedUntilMs: number
  /** How many deliveries the rate allows, as of `filledAtMs`. */
  readonly tokens: number
  readonly filledAtMs: number
}

/**
 * there: the consumer took the message, or refused it (a 4xx). broke: it failed, and perhaps with this message only (a 500). down: no
 * answer, or one about an outage and not about the message. silent: an answer about this message, or about others like it, and not about
 * the consumer.
 */
export type ConsumerSignal = 'there' | 'broke' | 'down' | 'silent'

export interface ConsumerFeedback {
  readonly signal: ConsumerSignal
  /** The consumer's Retry-After. null: none. */
  readonly pauseMs: number | null
}

export interface FreeSlots {
  /** How many deliveries may start now. */
  readonly slots: number
  /** When more may start. null: only when a delivery has ended. */
  readonly inMs: number | null
}

type Paced = Pick<InboxPolicy, 'concurrency' | 'ratePerSecond' | 'backoff'>

/** The pause between two tries of a consumer that is down. It is found again within a second, and gets some sixty requests a minute. */
const PAUSE_FIRST_MS = 50
const PAUSE_LONGEST_MS = 1_000
/**
 * How much of the rate a pause between deliveries may save up. One look may then take several messages, and no second has much more than
 * its share.
 */
const BURST_SECONDS = 0.1
/** A token that is whole except for rounding. */
const WHOLE = 1e-6

/**
 * So many failures more than successes halve the limit, as a share of it. An outage uses few attempts until one delivery is left. If a
 * tenth of the messages is broken, such a surplus comes up with a chance of 1/9 to the power of its size.
 */
const BROKEN_SHARE = 1 / 4

const TOO_MANY = 429
const BAD_REQUEST = 400
const SERVER_ERROR = 500
const UNAVAILABLE = 503
/**
 * Too many requests, and the statuses of proxies that do not reach a backend. A 500 is the application's, and may be about this message
 * only.
 */
const DOWN: ReadonlySet<number> = new Set([TOO_MANY, 502, UNAVAILABLE, 504])
/** The 4xx that are no refusal of the message: Request Timeout and Too Early. */
const NO_REFUSAL: ReadonlySet<number> = new Set([408, 425])

export function startPace (inbox: Paced, nowMs: number): Pace {
  return { limit: inbox.concurrency, score: 0, pauses: 0, pausedUntilMs: nowMs, tokens: burstOf(inbox), filledAtMs: nowMs }
}

export function freeSlots (pace: Pace, underWay: number, inbox: Paced, nowMs: number): FreeSlots {
  if (nowMs < pace.pausedUntilMs) return { slots: 0, inMs: pace.pausedUntilMs - nowMs }
  const free = Math.max(0, limitOf(pace, inbox) - underWay)
  if (inbox.ratePerSecond === null || free === 0) return { slots: free, inMs: null }
  const tokens = tokensAt(pace, inbox, nowMs)
  // Never negative: the caller counts up to it.
  const slots = Math.max(0, Math.min(free, Math.floor(tokens + WHOLE)))
  return slots > 0 ? { slots, inMs: null } : { slots, inMs: Math.ceil((1 - tokens) / inbox.ratePerSecond * MS_PER_SECOND) }
}

export function afterStart (pace: Pace, count: number, inbox: Paced, nowMs: number): Pace {
  // Without a rate nothing is spent. So a rate that a reload sets finds no debt.
  const spent = inbox.ratePerSecond === null ? 0 : count
  return { ...pace, tokens: tokensAt(pace, inbox, nowMs) - spent, filledAtMs: nowMs }
}

export function afterEnd (pace: Pace, { signal, pauseMs }: ConsumerFeedback, inbox: Paced, nowMs: number): Pace {
  const next = NEXT[signal](pace, inbox, nowMs)
  if (pauseMs === null) return next
  return { ...next, pausedUntilMs: Math.max(next.pausedUntilMs, nowMs + Math.min(pauseMs, inbox.backoff.longestMs)) }
}

/** What a delivery shows about its consumer. `holdsRoute`: a consumer that asks for a pause means the whole route. */
export function feedbackOf (sent: SendOutcome, fate: Fate, nowMs: number, holdsRoute: boolean): ConsumerFeedback {
  if (sent.kind === 'unsent' || sent.kind === 'lost') return { signal: 'down', pauseMs: null }
  const { answer } = sent
  const { status } = answer
  if (isFinal(fate) && status < SERVER_ERROR) return { signal: 'there', pauseMs: null }
  const pauseMs = pauseOf(answer, nowMs)
  if (!holdsRoute && status === TOO_MANY) return { signal: 'silent', pauseMs: null }
  // Of one tenant perhaps, and perhaps of all.
  if (!holdsRoute && pauseMs !== null) return { signal: 'broke', pauseMs: null }
  if (DOWN.has(status)) return { signal: 'down', pauseMs }
  const isRefusal = status >= BAD_REQUEST && status < SERVER_ERROR && !NO_REFUSAL.has(status)
  return { signal: isRefusal ? 'there' : 'broke', pauseMs }
}

/** The pause that the consumer asks for. null: it asks for none. */
export function pauseOf (answer: Answer, nowMs: number): number | null {
  return answer.status === TOO_MANY || answer.status === UNAVAILABLE ? retryAfterMs(answer, nowMs) : null
}

const NEXT: Readonly<Record<ConsumerSignal, (pace: Pace, inbox: Paced, nowMs: number) => Pace>> = {
  there: grown,
  broke,
  down: shrunk,
  silent: (pace) => pace
}

/**
 * One more slot after as many successes as there are slots. So the limit grows by one in the time of one delivery, whatever the limit is.
 */
function grown (pace: Pace, inbox: Paced): Pace {
  const limit = limitOf(pace, inbox)
  const score = Math.min(limit, pace.score + 1)
  const grows = score >= limit && limit < inbox.concurrency
  return { ...pace, limit: grows ? limit + 1 : limit, score: grows ? 0 : score, pauses: 0 }
}

/** The consumer answers, so there is no pause. */
function broke (pace: Pace, inbox: Paced): Pace {
  const limit = limitOf(pace, inbox)
  const score = pace.score - 1
  if (score > -Math.max(1, limit * BROKEN_SHARE)) return { ...pace, score, pauses: 0 }
  return { ...pace, limit: halved(limit), score: 0, pauses: 0 }
}

function halved (limit: number): number {
  return Math.max(1, Math.floor(limit / 2))
}

function shrunk (pace: Pace, inbox: Paced, nowMs: number): Pace {
  const limit = halved(limitOf(pace, inbox))
  const next = { ...pace, limit, score: 0 }
  // Deliveries that started together fail together, and count as one failure.
  if (limit > 1 || nowMs < pace.pausedUntilMs) return next
  const pauseMs = Math.min(PAUSE_LONGEST_MS, inbox.backoff.longestMs, PAUSE_FIRST_MS * 2 ** Math.min(pace.pauses, DOUBLINGS_MAX))
  return { ...next, pauses: pace.pauses + 1, pausedUntilMs: nowMs + pauseMs }
}

/** A reload may have lowered the route's limit. */
function limitOf ({ limit }: Pace, { concurrency }: Paced): number {
  return Math.min(limit, concurrency)
}

function burstOf ({ ratePerSecond }: Paced): number {
  return Math.max(1, (ratePerSecond ?? 1) * BURST_SECONDS)
}

function tokensAt ({ tokens, filledAtMs }: Pace, inbox: Paced, nowMs: number): number {
  if (inbox.ratePerSecond === null) return burstOf(inbox)
  return Math.min(burstOf(inbox), tokens + Math.max(0, nowMs - filledAtMs) * inbox.ratePerSecond / MS_PER_SECOND)
}

const MS_PER_SECOND = 1_000
/** Far above the longest pause, and small enough for a number. */
const DOUBLINGS_MAX = 20
