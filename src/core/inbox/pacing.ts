/**
 * How fast a route's messages are delivered by one process. Pure: time is given. A consumer that fails is asked by fewer
 * and fewer at once, in the end by one at a time with a pause between; one that takes messages again is given more and more.
 * So an outage spends few attempts, and its end is no stampede.
 */
import { isFinal } from './delivery.ts'
import type { SendOutcome } from './delivery.ts'
import type { Fate } from './message.ts'
import type { InboxPolicy } from '../policy/policy.ts'
import { retryAfterMs } from '../headers/retry-hints.ts'

/** Times are those of one clock that never goes backwards. */
export interface Pace {
  /** So many at once, at most; from 1 to the route's concurrency. */
  readonly limit: number
  /** Deliveries that were taken since the limit changed last. */
  readonly successes: number
  /** Pauses in a row, with no answer between them that shows the consumer at work. */
  readonly pauses: number
  readonly pausedUntilMs: number
  /** What the rate allows to begin, as of `filledAtMs`. */
  readonly tokens: number
  readonly filledAtMs: number
}

/**
 * took: the consumer had the message, or said that it never wants it. refused: an answer that means "again", from somebody
 * who is there. down: no answer, or one of those that speak of trouble and not of the message.
 */
export type ConsumerSignal = 'took' | 'refused' | 'down'

export interface ConsumerFeedback {
  readonly signal: ConsumerSignal
  /** The consumer's own word (Retry-After); null: none. */
  readonly pauseMs: number | null
}

export interface FreeSlots {
  /** So many may begin now. */
  readonly slots: number
  /** After this there may be more; null: only when one has ended. */
  readonly inMs: number | null
}

type Paced = Pick<InboxPolicy, 'concurrency' | 'ratePerSecond' | 'backoff'>

/** Between two tries of a consumer that is down: found again within a second, and asked some sixty times a minute. */
const PAUSE_FIRST_MS = 50
const PAUSE_LONGEST_MS = 1_000
/**
 * What a pause between deliveries saves up of the rate: enough that one look may take several, and no second has much
 * more than its own.
 */
const BURST_SECONDS = 0.1
/** A token that is whole but for the rounding. */
const WHOLE = 1e-6

const TOO_MANY = 429
const SERVER_ERROR = 500
const UNAVAILABLE = 503
/** Too many, and what proxies say of a backend that they do not reach. A 500 is the application's, and may be this message's alone. */
const DOWN: ReadonlySet<number> = new Set([TOO_MANY, 502, UNAVAILABLE, 504])

export function startPace (inbox: Paced, nowMs: number): Pace {
  return { limit: inbox.concurrency, successes: 0, pauses: 0, pausedUntilMs: nowMs, tokens: burstOf(inbox), filledAtMs: nowMs }
}

export function freeSlots (pace: Pace, underWay: number, inbox: Paced, nowMs: number): FreeSlots {
  if (nowMs < pace.pausedUntilMs) return { slots: 0, inMs: pace.pausedUntilMs - nowMs }
  const free = Math.max(0, limitOf(pace, inbox) - underWay)
  if (inbox.ratePerSecond === null || free === 0) return { slots: free, inMs: null }
  const tokens = tokensAt(pace, inbox, nowMs)
  // Never below nothing: whoever hands out places counts up to it.
  const slots = Math.max(0, Math.min(free, Math.floor(tokens + WHOLE)))
  return slots > 0 ? { slots, inMs: null } : { slots, inMs: Math.ceil((1 - tokens) / inbox.ratePerSecond * MS_PER_SECOND) }
}

export function afterStart (pace: Pace, count: number, inbox: Paced, nowMs: number): Pace {
  // Without a rate nothing is spent: a rate that a reload gives finds no debt.
  const spent = inbox.ratePerSecond === null ? 0 : count
  return { ...pace, tokens: tokensAt(pace, inbox, nowMs) - spent, filledAtMs: nowMs }
}

export function afterEnd (pace: Pace, { signal, pauseMs }: ConsumerFeedback, inbox: Paced, nowMs: number): Pace {
  const next = signal === 'took' ? grown(pace, inbox) : shrunk(pace, signal, inbox, nowMs)
  if (pauseMs === null) return next
  return { ...next, pausedUntilMs: Math.max(next.pausedUntilMs, nowMs + Math.min(pauseMs, inbox.backoff.longestMs)) }
}

/** What a delivery says of its consumer. */
export function feedbackOf (sent: SendOutcome, fate: Fate, nowMs: number): ConsumerFeedback {
  if (sent.kind === 'unsent' || sent.kind === 'lost') return { signal: 'down', pauseMs: null }
  const { answer } = sent
  if (isFinal(fate) && answer.status < SERVER_ERROR) return { signal: 'took', pauseMs: null }
  const asks = answer.status === TOO_MANY || answer.status === UNAVAILABLE
  return { signal: DOWN.has(answer.status) ? 'down' : 'refused', pauseMs: asks ? retryAfterMs(answer, nowMs) : null }
}

/** One more for as many successes as there were places: by one in the time of one delivery, whatever the limit is. */
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
  // Those that began together fail together, and count as one.
  if (limit > 1 || nowMs < pace.pausedUntilMs) return next
  const pauseMs = Math.min(PAUSE_LONGEST_MS, inbox.backoff.longestMs, PAUSE_FIRST_MS * 2 ** Math.min(pace.pauses, DOUBLINGS_MAX))
  return { ...next, pauses: pace.pauses + 1, pausedUntilMs: nowMs + pauseMs }
}

/** A reload may have lowered the route's own. */
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
/** Beyond the longest pause, below what a number can say. */
const DOUBLINGS_MAX = 20
