/** What the witness upstream writes down, and in which ways it can misbehave. Shapes and the reading of its file. */
import { readFileSync } from 'node:fs'

/** `down`: what the upstream counts as one consumer of several. */
export type Misbehaviour =
  | 'reset-before' | 'reset-after' | 'half' | 'garbage' | 'never' | 'late' | 'too-late' | 'extra' | 'page' | '429'
  | '500' | '502' | '503' | '504' | 'down'

/** The duration. `slow`: executions queue and are joined. `slower`: they outlast outages. */
export type Pace = 'usual' | 'slow' | 'slower'

/** A request of a gateway's, as it came. */
export interface Sent {
  readonly record: string
  readonly attempt: number
  /** X-Request-Id. */
  readonly call: string
  readonly atMs: number
  readonly target: string
}

export interface Executed extends Sent {
  readonly execution: number
  readonly scope: string
  /** SHA-256 of the body. */
  readonly body: string
}

/** `page`: a hop answered after the execution. */
export interface Replied { readonly execution: number, readonly repliedMs: number, readonly status: number, readonly page?: true }

export type WitnessLine = Executed | Replied

export function readLines<Line> (file: string): Line[] {
  return readFileSync(file, 'utf8').split('\n').filter((line) => line !== '').map((line) => JSON.parse(line) as Line)
}
