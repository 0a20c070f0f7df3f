/** What the witness upstream writes down, and in which ways it can misbehave. Shapes and the reading of its file. */
import { readFileSync } from 'node:fs'

export type Misbehaviour = 'reset-before' | 'reset-after' | 'half' | 'garbage' | 'never' | 'late' | 'too-late' | 'extra' | '429' | '500' | '502' | '503' | '504'

/** How long it takes: `slow`, so that executions queue and are joined; `slower`, so that they outlast outages. */
export type Pace = 'usual' | 'slow' | 'slower'

export interface Executed {
  readonly execution: number
  readonly record: string
  readonly attempt: number
  readonly call: string
  readonly atMs: number
  readonly scope: string
  readonly target: string
  /** SHA-256 of the body. */
  readonly body: string
}

export interface Replied { readonly execution: number, readonly repliedMs: number, readonly status: number }

export type WitnessLine = Executed | Replied

export function readLines<Line> (file: string): Line[] {
  return readFileSync(file, 'utf8').split('\n').filter(line => line !== '').map(line => JSON.parse(line) as Line)
}
