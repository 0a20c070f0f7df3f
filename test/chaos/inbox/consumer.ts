/** What the consumer of a run in mode inbox records of its requests. Types only. */
import type { Sent } from '../witness.ts'

/** It has the whole request. */
export interface Seen extends Sent {
  readonly delivery: number
  /** What it got, as wishes.ts prints what was sent. */
  readonly print: string
}

/** Noted before the first byte of an answer that is whole and right. */
export interface Answered { readonly delivery: number, readonly answeredMs: number, readonly status: number }

export type ConsumerLine = Seen | Answered
