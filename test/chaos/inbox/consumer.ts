/** What the consumer of a run in mode inbox writes down of what it was sent. Shapes. */

/** It has the whole request. */
export interface Seen {
  readonly delivery: number
  readonly record: string
  readonly attempt: number
  /** X-Request-Id. */
  readonly call: string
  readonly atMs: number
  readonly target: string
  /** What it got, as wishes.ts prints what was sent. */
  readonly print: string
}

/** Noted before the first byte of an answer that is whole and right. */
export interface Answered { readonly delivery: number, readonly answeredMs: number, readonly status: number }

export type ConsumerLine = Seen | Answered
