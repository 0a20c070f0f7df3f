/** Marks of mode drop. */
import type { DropPolicy } from '../core/policy/policy.ts'
import type { Identity } from '../core/record/record-id.ts'

export type MarkResult =
  /** Nothing stood there (or my own, whose reply was lost): it stands now under my token. */
  | 'marked'
  /** Somebody forwards it just now. */
  | 'running'
  /** It was forwarded within the window. */
  | 'done'
  /** Nothing was written: as {@link Moved}. */
  | 'moved'

export interface Marking extends Identity {
  readonly token: Buffer
  readonly as: 'running' | 'done'
  readonly keepMs: number
}

/** Of a mark whose event has gone through. */
export type MarkEnding = Omit<Marking, 'as'>

/**
 * Which events have gone through of late: at most one mark for each record id, with an end. Times count on the store's own
 * clock.
 *
 * A driver guarantees: of all that mark one id at the same moment exactly one is told 'marked', and nobody else until that mark
 * is removed or over. It is removed by nobody but its own token. Rejections are {@link StoreUnavailable} (`inDoubt`: it may have
 * been applied, or may yet be) and StoreOverloaded (no room: nothing was written). A filter is weaker: it knows no `running`, so
 * that all who come before the first is done are told 'marked', and at its error rate an id that never came is told 'done'.
 * A store that cannot ask the database which scheme claims knows a lesser one by what a greater has left here, at the latest under
 * the earlier id of the same event: that is told 'moved', or (a filter) 'done'.
 */
export interface MarkStore {
  readonly name: 'memory' | 'sqlite' | 'postgres' | 'redis' | 'bloom'
  mark: (marking: Marking) => Promise<MarkResult>
  /** A mark stands there that lives, or (a filter) may. */
  stands: (id: Buffer) => Promise<boolean>
  /** It has gone through. Whatever stands there, and whichever scheme claims, this is as true: it replaces another's mark too. */
  done: (ending: MarkEnding) => Promise<void>
  /** Nothing under this token stands there any more, if it was this one's. false: this store cannot take a mark back. */
  remove: (id: Buffer, token: Buffer) => Promise<boolean>
}

/** All stores of marks of a process. */
export interface Marks {
  /** This route's. The same one for as long as its policy stands; a reload that changes the policy may begin with an empty one. */
  of: (route: string, policy: DropPolicy) => MarkStore
  /** Deletes what is over in the database, at most `limit`. Returns how many. */
  sweep: (limit: number) => Promise<number>
}
