/**
 * How far the arbiter's time is believed. Retentions and leases end by it, so a clock that steps ahead would end them early. It is compared
 * with a clock of the gateway that is never set and runs on while the machine sleeps (Clock.bootMs). Pure.
 *
 * A reading is the arbiter's time, with the gateway's time before and after it. The offset between the two clocks is between `storeMs -
 * afterMs` and `storeMs - beforeMs`. Trusted is an upper bound of that offset. It falls with every reading that proves less (a clock that
 * was set back, a quicker round trip). It rises no faster than clocks are slewed. If a reading's lower bound is above it by more than the
 * tolerance, the clock has stepped. Nothing less proves a step. Whatever ends by time ends only when it is over by the believed time too.
 * So nothing ends early between a step and its discovery.
 */

/**
 * All in milliseconds. `beforeMs`, `afterMs`: the gateway's clock around the round trip. `storeMs`: the arbiter's clock at some moment
 * within it.
 */
export interface TimeReading {
  readonly beforeMs: number
  readonly afterMs: number
  readonly storeMs: number
}

export interface TrustedTime {
  /** Upper bound of the arbiter's time minus the gateway's. */
  readonly offsetMs: number
  /** The gateway's clock, after the last reading. */
  readonly readMs: number
  /** The arbiter's time in the first trusted reading. */
  readonly sinceMs: number
  /** The arbiter's time in the last correct reading. */
  readonly rightMs: number
}

/** `aheadMs`: by how much at least the arbiter's clock has stepped ahead of the trusted time. 0: it has not. */
export interface JudgedTime { readonly trusted: TrustedTime, readonly aheadMs: number }

/** What a gateway reports about the store's time. All times are the store's. */
export interface TimeReport {
  /** The number of operators' confirmations that it knows. */
  readonly confirmations: number
  /** It has trusted the time since `sinceMs`, and judged it last at `judgedMs`. `aheadMs` has the result. null: it trusts none yet. */
  readonly trusted: { readonly sinceMs: number, readonly judgedMs: number } | null
  /** The clock stepped ahead between the last correct time and this one. */
  readonly doubt: { readonly afterMs: number, readonly foundMs: number } | null
  /** No gateway has contradicted the doubt for long enough, so all gateways believe it for this long. null: not yet. */
  readonly shareForMs: number | null
}

/**
 * How much faster than the gateway's clock the arbiter's may run. NTP slews by 500 ppm at most, and the crystals of two machines differ by
 * some dozens.
 */
const SLEW = 0.001

/**
 * The largest jump that does not count as a step. NTP steps a clock at start if it is off by more than 128 ms. A database may fail over to
 * a machine whose clock is a little ahead. The bound is at most the sixth of a lease that its owner keeps clear of its end (E0).
 */
const TOLERANCE_MS_MAX = 1_000
const TOLERANCE_SHARE = 1 / 6

export function toleranceOf (shortestLeaseMs: number): number {
  return Math.min(TOLERANCE_MS_MAX, shortestLeaseMs * TOLERANCE_SHARE)
}

/** The first reading is trusted as it is. A long round trip hides a step of the same length, until there is a shorter one. */
export function trustFrom ({ beforeMs, afterMs, storeMs }: TimeReading): TrustedTime {
  return { offsetMs: storeMs - beforeMs, readMs: afterMs, sinceMs: storeMs, rightMs: storeMs }
}

/**
 * An operator confirmed the arbiter's time at `confirmedMs`, and this gateway learned of it since `before`. Later jumps count as steps. If
 * the commit of the confirmation took longer, `before` may be later, and then it counts.
 */
export function trustConfirmed (confirmedMs: number, before: TimeReading): TrustedTime {
  return {
    offsetMs: Math.max(confirmedMs, before.storeMs) - before.beforeMs,
    readMs: before.afterMs,
    sinceMs: confirmedMs,
    rightMs: confirmedMs
  }
}

/** Trusts another gateway's report: the clock is ahead by `aheadMs`, and was last right at `afterMs`, its own time. */
export function trustReported ({ beforeMs, afterMs: readMs, storeMs }: TimeReading, aheadMs: number, afterMs: number): TrustedTime {
  // Rounded down as the store keeps it: what is passed on must not be later than what was reported.
  const saidMs = Math.floor(afterMs)
  return { offsetMs: storeMs - aheadMs - beforeMs, readMs, sinceMs: saidMs, rightMs: saidMs }
}

/** While the clock is ahead, the trusted time follows the gateway's own clock alone. */
export function judgeTime (trusted: TrustedTime, { beforeMs, afterMs, storeMs }: TimeReading, toleranceMs: number): JudgedTime {
  const mostMs = trusted.offsetMs + SLEW * Math.max(0, afterMs - trusted.readMs)
  const leastMs = storeMs - afterMs
  if (leastMs > mostMs + toleranceMs) return { trusted: { ...trusted, readMs: afterMs }, aheadMs: leastMs - mostMs }
  return { trusted: { ...trusted, offsetMs: Math.min(mostMs, storeMs - beforeMs), readMs: afterMs, rightMs: storeMs }, aheadMs: 0 }
}

/** Upper bound of the arbiter's time, by what is trusted. `nowMs`: the gateway's clock. */
export function believedMs ({ offsetMs }: TrustedTime, nowMs: number): number {
  return nowMs + offsetMs
}

/** What the store reports about its clock, for people. Times are the store's. */
export interface ClockReport {
  readonly nowMs: number
  /** The last heartbeat of a gateway that found the time correct. null: none yet. */
  readonly seenMs: number | null
  /** By the report that holds for all gateways. 0: the time is believed. */
  readonly aheadMs: number
  readonly sinceMs: number | null
  readonly untilMs: number | null
  readonly confirmations: number
  readonly confirmed: { readonly atMs: number, readonly who: string, readonly why: string } | null
  /** The newest heartbeat comes first. Empty for the embedded store. */
  readonly gateways: ReadonlyArray<{ readonly instance: string, readonly seenMs: number, readonly aheadMs: number }>
}
