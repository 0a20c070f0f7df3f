/**
 * How far the arbiter's time is believed. Retentions and leases end by it, so that a clock which steps ahead ends them early:
 * it is held against a clock of the gateway that nobody sets and that runs on while the machine sleeps (Clock.bootMs). Pure.
 *
 * A reading is the arbiter's time with the gateway's before and after it: the offset between the two clocks lies between
 * `storeMs - afterMs` and `storeMs - beforeMs`. What is trusted is an upper bound of that offset. It falls with every reading
 * that proves less (a clock that was set back, a quicker round trip) and rises no faster than clocks are slewed. A reading whose
 * lower bound is above it by more than the tolerance proves a step; nothing less proves one. Whatever is taken away by time is
 * taken away only when it is over by the believed time as well, so that between a step and its discovery nothing ends early.
 */

/**
 * All in milliseconds. `beforeMs`, `afterMs`: the gateway's clock around the round trip. `storeMs`: the arbiter's, of
 * some moment in it.
 */
export interface TimeReading {
  readonly beforeMs: number
  readonly afterMs: number
  readonly storeMs: number
}

export interface TrustedTime {
  /** The arbiter's time minus the gateway's is not more than this. */
  readonly offsetMs: number
  /** The gateway's clock, after the last reading. */
  readonly readMs: number
  /** The arbiter's time of the reading that began it, */
  readonly sinceMs: number
  /** and of the last one that was right. */
  readonly rightMs: number
}

/** `aheadMs`: by how much at least the arbiter's clock has stepped ahead of what is trusted; 0: it has not. */
export interface JudgedTime { readonly trusted: TrustedTime, readonly aheadMs: number }

/** What a gateway says of the store's time; all in that time. */
export interface TimeReport {
  /** The operators' confirmations that it knows of. */
  readonly confirmations: number
  /** It trusts the time since then, and judged this one of it last: `aheadMs` says how. null: it trusts none yet. */
  readonly trusted: { readonly sinceMs: number, readonly judgedMs: number } | null
  /** Between the last time that was right and this one the clock has stepped ahead. */
  readonly doubt: { readonly afterMs: number, readonly foundMs: number } | null
  /** Nobody else says otherwise for long enough: all are to believe the doubt for so long. null: not yet. */
  readonly shareForMs: number | null
}

/**
 * How much faster than the gateway's the arbiter's clock may run: NTP slews by 500 ppm at most, and the crystals of two machines
 * are apart by some dozens.
 */
const SLEW = 0.001

/**
 * What may come in one piece and is no step: NTP steps what is off by more than 128 ms when it starts, a database fails over to
 * a machine whose clock is a little ahead. No more than the sixth of a lease that its owner keeps clear of its end (E0).
 */
const TOLERANCE_MS_MAX = 1_000
const TOLERANCE_SHARE = 1 / 6

export function toleranceOf (shortestLeaseMs: number): number {
  return Math.min(TOLERANCE_MS_MAX, shortestLeaseMs * TOLERANCE_SHARE)
}

/** The first reading is trusted as it is. A long round trip hides as long a step, until a shorter one. */
export function trustFrom ({ beforeMs, afterMs, storeMs }: TimeReading): TrustedTime {
  return { offsetMs: storeMs - beforeMs, readMs: afterMs, sinceMs: storeMs, rightMs: storeMs }
}

/**
 * An operator has confirmed the arbiter's time at `confirmedMs` of it, and this gateway has heard of it since `before`. What it
 * steps from then on is a step. Where the word's commit took longer, `before` may be the later one, and counts.
 */
export function trustConfirmed (confirmedMs: number, before: TimeReading): TrustedTime {
  return {
    offsetMs: Math.max(confirmedMs, before.storeMs) - before.beforeMs,
    readMs: before.afterMs,
    sinceMs: confirmedMs,
    rightMs: confirmedMs
  }
}

/** By somebody else's word: ahead by `aheadMs`, and right at `afterMs`, its own time, for the last time. */
export function trustReported ({ beforeMs, afterMs: readMs, storeMs }: TimeReading, aheadMs: number, afterMs: number): TrustedTime {
  // The word is as exact as the store keeps it: what is handed on is not later than what was said.
  const saidMs = Math.floor(afterMs)
  return { offsetMs: storeMs - aheadMs - beforeMs, readMs, sinceMs: saidMs, rightMs: saidMs }
}

/** While the clock is ahead the trusted time goes on by the gateway's own clock alone. */
export function judgeTime (trusted: TrustedTime, { beforeMs, afterMs, storeMs }: TimeReading, toleranceMs: number): JudgedTime {
  const mostMs = trusted.offsetMs + SLEW * Math.max(0, afterMs - trusted.readMs)
  const leastMs = storeMs - afterMs
  if (leastMs > mostMs + toleranceMs) return { trusted: { ...trusted, readMs: afterMs }, aheadMs: leastMs - mostMs }
  return { trusted: { ...trusted, offsetMs: Math.min(mostMs, storeMs - beforeMs), readMs: afterMs, rightMs: storeMs }, aheadMs: 0 }
}

/** The arbiter's time is not later than this, by what is trusted. `nowMs`: the gateway's clock. */
export function believedMs ({ offsetMs }: TrustedTime, nowMs: number): number {
  return nowMs + offsetMs
}

/** What the store says of its clock, for people. Times are the store's. */
export interface ClockReport {
  readonly nowMs: number
  /** The last sign of life of a gateway that found the time right. null: none yet. */
  readonly seenMs: number | null
  /** By the word that holds for all; 0: it is believed. */
  readonly aheadMs: number
  readonly sinceMs: number | null
  readonly untilMs: number | null
  readonly confirmations: number
  readonly confirmed: { readonly atMs: number, readonly who: string, readonly why: string } | null
  /** Newest sign of life first; none of the embedded store. */
  readonly gateways: ReadonlyArray<{ readonly instance: string, readonly seenMs: number, readonly aheadMs: number }>
}
