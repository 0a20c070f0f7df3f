/** The port of marks (mode drop). */
import type { DropPolicy } from '../core/policy/policy.ts'
import type { Identity } from '../core/record/record-id.ts'

export type MarkResult =
  /** There was no mark, or it was the caller's own and the reply was lost. There is one now, under the caller's token. */
  | 'marked'
  /** Another request with this event is being forwarded. */
  | 'running'
  /** The event was forwarded within the window. */
  | 'done'
  /** Nothing was written, as with Moved (records.ts). */
  | 'moved'

export interface Marking extends Identity {
  readonly token: Buffer
  readonly as: 'running' | 'done'
  readonly keepMs: number
}

/** The end of a mark whose event was forwarded. */
export type MarkEnding = Omit<Marking, 'as'>

/**
 * Which events were forwarded lately: at most one mark per record id, with an end. Times count on the store's own clock.
 *
 * A driver guarantees:
 *
 * - Of all callers that mark one id at the same moment, exactly one gets 'marked'. No other gets it until that mark is removed
 *   or over.
 * - A mark is removed only with its own token.
 * - Rejections are StoreUnavailable (`inDoubt`: it may have been applied, or may be later) and StoreOverloaded (no room,
 *   nothing was written).
 *
 * A filter guarantees less. It knows no `running`, so all callers before the first `done` get 'marked'. At its error rate a new
 * id gets 'done'.
 *
 * Some stores cannot ask the database which scheme claims. They know an outdated scheme by what a newer one has left here, at
 * the latest under the earlier id of the same event. The caller then gets 'moved', or 'done' from a filter.
 */
export interface MarkStore {
  readonly name: 'memory' | 'sqlite' | 'postgres' | 'redis' | 'bloom'
  mark: (marking: Marking) => Promise<MarkResult>
  /** A mark exists that is not over. A filter: may exist. */
  stands: (id: Buffer) => Promise<boolean>
  /**
   * The event was forwarded. This is true whatever mark exists and whichever scheme claims, so it also replaces another
   * caller's mark.
   */
  done: (ending: MarkEnding) => Promise<void>
  /** Afterwards there is no mark under this token. false: this store cannot take a mark back. */
  remove: (id: Buffer, token: Buffer) => Promise<boolean>
}

/** All stores of marks of a process. */
export interface Marks {
  /**
   * The store of this route. It stays the same while the route's policy does. A reload that changes the policy may begin with
   * an empty one.
   */
  of: (route: string, policy: DropPolicy) => MarkStore
  /** Deletes marks in the database that are over, at most `limit`. Returns how many. */
  sweep: (limit: number) => Promise<number>
}
