/** Time and chance. */
export interface Clock {
  /** Never goes backwards; origin arbitrary. All deadlines of the gateway count on it. */
  monotonicMs: () => number
  /** Milliseconds since the Unix epoch. For people and for headers, never for leases. */
  wallMs: () => number
  /**
   * Milliseconds since the machine was started, also those in which it slept. The arbiter's time is held against it
   * (core/protocol/arbiter-time.ts).
   */
  bootMs: () => number
  /** Calls back once, after at least `ms`. Does not keep the process alive. */
  after: (ms: number, call: () => void) => Cancel
}

export type Cancel = () => void

export interface Random {
  bytes: (size: number) => Buffer
}
