/** Time and randomness. */
export interface Clock {
  /** Never goes backwards. Its origin is arbitrary. All deadlines of the gateway count on it. */
  monotonicMs: () => number
  /** Milliseconds since the Unix epoch. For people and for headers, never for leases. */
  wallMs: () => number
  /**
   * Milliseconds since the machine was started, including the time in which it slept. The arbiter's time is checked against it
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
