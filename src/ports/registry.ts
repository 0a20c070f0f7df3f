/** The port of the registry: which gateway serves which route, and how. Types only. */
import type { Aspects } from '../core/protocol/aspects.ts'

export interface RegisteredRoute {
  readonly route: string
  /** The gateway may execute requests of this route, under a claim. */
  readonly executes: boolean
  readonly policy: Aspects
}

export interface Registering {
  readonly gateway: Buffer
  /** For people. */
  readonly instance: string
  /** The names of the schemes whose ids it can make (core/record/schemes.ts). */
  readonly schemes: readonly string[]
  /** All routes of the gateway. Earlier registrations that are missing here are removed. */
  readonly routes: readonly RegisteredRoute[]
  /**
   * Not null: one of the routes executes now and did not before. The call then waits for acceptances in flight, at most this
   * long.
   */
  readonly barrierMs: number | null
}

/** A route that another living gateway serves in a different way. */
export interface DifferingRoute {
  readonly gateway: string
  readonly instance: string
  readonly route: string
  readonly policy: Partial<Aspects>
}

/**
 * Which gateway executes which route. An entry lives while its gateway does: the last sign of life or registration is at most
 * LIVES_MS old (core/protocol/aspects.ts).
 *
 * A driver guarantees: once `register` has resolved, each acceptance without a claim (inbox.ts) is visible to the next
 * statement, or gets 'contended' if one of these routes executes. Rejections are those of RecordStore (records.ts).
 */
export interface Registry {
  /** none: one process has the store, so claims and acceptances are serial. */
  readonly name: 'none' | 'postgres'
  register: (order: Registering) => Promise<void>
  /** false: this gateway's registration is missing. */
  registered: (gateway: Buffer) => Promise<boolean>
  /** What other living gateways serve differently from this one, or in addition. */
  differing: (gateway: Buffer) => Promise<DifferingRoute[]>
  /** The gateway sends nothing any more. */
  withdraw: (gateway: Buffer) => Promise<void>
}
