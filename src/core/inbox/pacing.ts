/**
 * How fast one process delivers a route's messages. Pure: time is an argument. If a consumer fails, fewer and fewer deliveries run at once.
 * In the end there is one at a time, with a pause between. If the consumer takes messages again, more and more run. So an outage uses few
 * attempts, and its end is no stampede.
 */
import { isFinal } from './delivery.ts'
import type { SendOutcome } from './delivery.ts'
import type { Fate } from './message.ts'
import type { InboxPolicy } from '../policy/policy.ts'
import { retryAfterMs } from '../headers/retry-hints.ts'

/** Times are from one clock that never goes backwards. */
export interface Pace {
  /** The most deliveries at once, from 1 to the route's concurrency. */
  readonly limit: number
  /** Successful deliveries since the limit last changed. */
  readonly successes: number
  /** Pauses in a row, without an answer in between that shows that the consumer works. */
  readonly pauses: number
  readonly pausedUntilMs: number
  /** How many deliveries the rate allows, as of `filledAtMs`. */
  readonly tokens: number
  readonly filledAtMs: number
}

/**
 * took: the consumer took the message, or refused it for good. refused: an answer that means "again", from a consumer that works. down: no
 * answer, or one about an outage and not about the message.
 */
export type ConsumerSignal = 'took' | 'refused' | 'down'

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

const TOO_MANY = 429
const SERVER_ERROR = 500
const UNAVAILABLE = 503
/**
 * Too many requests, and the statuses of proxies that do not reach a backend. A 500 is the application's, and may be about this message
 * only.
 */
const DOWN: ReadonlySet<number> = new Set([TOO_MANY, 502, UNAVAILABLE, 504])

export function startPace (inbox: Paced, nowMs: number): Pace {
  return { limit: inbox.concurrency, successes: 0, pauses: 0, pausedUntilMs: nowMs, tokens: burstOf(inbox), filledAtMs: nowMs }
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
  const next = signal === 'took' ? grown(pace, inbox) : shrunk(pace, signal, inbox, nowMs)
  if (pauseMs === null) return next
  return { ...next, pausedUntilMs: Math.max(next.pausedUntilMs, nowMs + Math.min(pauseMs, inbox.backoff.longestMs)) }
}

/** What a delivery shows about its consumer. */
export function feedbackOf (sent: SendOutcome, fate: Fate, nowMs: number): ConsumerFeedback {
  if (sent.kind === 'unsent' || sent.kind === 'lost') return { signal: 'down', pauseMs: null }
  const { answer } = sent
  if (isFinal(fate) && answer.status < SERVER_ERROR) return { signal: 'took', pauseMs: null }
  const asks = answer.status === TOO_MANY || answer.status === UNAVAILABLE
  return { signal: DOWN.has(answer.status) ? 'down' : 'refused', pauseMs: asks ? retryAfterMs(answer, nowMs) : null }
}

/**
 * One more slot after as many successes as there are slots. So the limit grows by one in the time of one delivery, whatever the limit is.
 */
function grown (pace: Pace, inbox: Paced): Pace {
  const limit = limitOf(pace, inbox)
  const successes = pace.successes + 1
  const grows = successes >= limit && limit < inbox.concurrency
  return { ...pace, limit: grows ? limit + 1 : limit, successes: grows ? 0 : successes, pauses: 0 }
}

function shrunk (pace: Pace, signal: 'refused' | 'down', inbox: Paced, nowMs: number): Pace {
  const limit = Math.max(1, Math.floor(limitOf(pace, inbox) / 2))
  const next = { ...pace, limit, successes: 0 }
  if (signal === 'refused') return { ...next, pauses: 0 }
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
