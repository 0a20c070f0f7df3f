/** The seam of what gateways tell each other of their routes, types only: part of ports.ts, which has their names too. */
import type { Aspects } from '../core/protocol/aspects.ts'

export interface RegisteredRoute {
  readonly route: string
  /** It may send what comes for this route, under a claim. */
  readonly executes: boolean
  readonly policy: Aspects
}

export interface Registering {
  readonly gateway: Buffer
  /** For people. */
  readonly instance: string
  /** The names of the schemes that it can make ids by (core/record/schemes.ts). */
  readonly schemes: readonly string[]
  /** All of them: what was registered before and is not among these is so no more. */
  readonly routes: readonly RegisteredRoute[]
  /** One of them executes that did not before: acceptances under way are waited for, so long at most. null: none does. */
  readonly barrierMs: number | null
}

/** A route as another living gateway has it, where that is not as this one has it. */
export interface DifferingRoute {
  readonly gateway: string
  readonly instance: string
  readonly route: string
  readonly policy: Partial<Aspects>
}

/**
 * Which gateway executes which route, for as long as it lives: it has given a sign of life ({@link SignOfLife}) within
 * LIVES_MS (core/protocol/aspects.ts), or has registered within that.
 *
 * A driver guarantees: when `register` has resolved, every acceptance without a claim (inbox.ts) whose commit is not visible
 * to a statement that begins now is told 'contended' where one of these routes executes. Rejections are RecordStore's (ports.ts).
 */
export interface Registry {
  /** none: one process, whose claims and acceptances stand in one line; there is nobody to tell. */
  readonly name: 'none' | 'postgres'
  register: (order: Registering) => Promise<void>
  /** false: this gateway's own registration is not there (any more). */
  registered: (gateway: Buffer) => Promise<boolean>
  /** What other gateways that live serve otherwise than this one, or beside it. */
  differing: (gateway: Buffer) => Promise<DifferingRoute[]>
  /** It sends nothing any more. */
  withdraw: (gateway: Buffer) => Promise<void>
}
