/**
 * When the first delivery of a message is due, if its sender says so: a time, or how long it waits. Pure: the time is an argument.
 *
 * A time becomes a delay by the gateway's own clock, and the store adds the delay to its clock. So clocks that differ count once, where the
 * sender's time is read, and a clock of the database that has stepped makes no message early. A batch that waits for the store makes a
 * message later by as much, never earlier. A delay that a sender names depends on no clock but the store's.
 */
import { parseDateTime } from '../headers/date-time.ts'
import { parseDuration } from '../policy/duration.ts'
import type { Value } from '../policy/key-source.ts'

export type Schedule =
  /** 0: at once. */
  | { readonly kind: 'in', readonly ms: number }
  /** It can be read, and is beyond the route's bound. `why`: a sentence for the sender, which repeats no value. */
  | { readonly kind: 'beyond', readonly why: string }
  | { readonly kind: 'unfit', readonly why: string }

/** `at`, `delay`: the values of the request. `nowMs`: by the gateway's wall clock. */
export function scheduleOf (at: Value, delay: Value, longestMs: number, nowMs: number): Schedule {
  if (at.kind !== 'none' && delay.kind !== 'none') {
    return { kind: 'unfit', why: 'The request says both when the message is due and how long it waits. Send one of the two.' }
  }
  if (at.kind === 'unfit') return unfit(TIME, at.why)
  if (delay.kind === 'unfit') return unfit(DELAY, delay.why)
  if (at.kind === 'value') {
    const dueAtMs = timeOf(at.text)
    return dueAtMs === null
      ? unfit(TIME, 'is neither an RFC 3339 date-time with its zone nor Unix seconds in whole numbers')
      : within(Math.max(0, dueAtMs - nowMs), longestMs)
  }
  if (delay.kind === 'none') return AT_ONCE
  const ms = delayOf(delay.text)
  return ms === null ? unfit(DELAY, 'is neither a number of seconds nor a duration such as 90s or 2h') : within(ms, longestMs)
}

const AT_ONCE: Schedule = { kind: 'in', ms: 0 }
const TIME = 'The time at which the message is due'
const DELAY = 'The value that says how long the message waits'

function unfit (what: string, why: string): Schedule {
  return { kind: 'unfit', why: `${what} ${why}.` }
}

function within (ms: number, longestMs: number): Schedule {
  return ms <= longestMs
    ? { kind: 'in', ms }
    : { kind: 'beyond', why: `The message is due in more than ${longestMs / MS_PER_SECOND} seconds, which is the most on this route.` }
}

const MS_PER_SECOND = 1_000

function timeOf (text: string): number | null {
  return UNIX_SECONDS.test(text) ? Number(text) * MS_PER_SECOND : parseDateTime(text)
}

function delayOf (text: string): number | null {
  return SECONDS.test(text) ? Math.round(Number(text) * MS_PER_SECOND) : parseDuration(text)
}

/** Enough for milliseconds too, which are then told to be too far ahead. */
const UNIX_SECONDS = /^\d{1,15}$/
/** As the delay of a queue is written (SQS, DelaySeconds), with decimals. */
const SECONDS = /^\d{1,12}(?:\.\d{1,9})?$/
