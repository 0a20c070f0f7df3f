/**
 * Messages of groups that this process has called, and that lie before the place where its looks begin: they are due since their
 * acceptance, and what came later has been handed out meanwhile. A take finds them by their ids. What is forgotten here is found by a look
 * at everything.
 */
import { hex } from './batching.ts'
import type { Reach } from './inbox-reach.ts'
import type { CalledMessage } from './inbox-turns.ts'

/** Of all routes. More groups than a process delivers at once, and little to keep. */
const CALLED_MAX = 1_000

/** So many takes in a row that find nothing at all. */
const MISSES_MAX = 3
const KEPT_MS = 60_000

/** So long after the last message of a group none is looked for, but by a look that is not near. */
const GROUPS_MS = 60_000

export class Called {
  readonly #reach: Reach
  /** By id, as hex. */
  readonly #messages = new Map<string, CalledMessage & { readonly notedAtMs: number, misses: number }>()
  #groupsUntilMs = -Infinity

  constructor (reach: Reach) {
    this.#reach = reach
  }

  /** Messages of groups may wait here. */
  get knowsGroups (): boolean {
    return performance.now() < this.#groupsUntilMs
  }

  /** A message of a group was accepted, called or taken. */
  noteGroup (): void {
    this.#groupsUntilMs = performance.now() + GROUPS_MS
  }

  /** A message of a group is due in so long. A take at that time looks for groups, also if none has been seen for long (a schedule). */
  noteDue (inMs: number): void {
    if (inMs < GROUPS_MS) this.noteGroup()
  }

  note (called: readonly CalledMessage[]): void {
    if (called.length > 0) this.noteGroup()
    for (const message of called) {
      const isBehind = message.dueAtMs < this.#reach.fromMs(message.route, 'group', 'near')
      if (!isBehind) continue
      if (this.#messages.size >= CALLED_MAX) this.#forgetOld()
      if (this.#messages.size < CALLED_MAX) this.#messages.set(hex(message.id), { ...message, notedAtMs: performance.now(), misses: 0 })
    }
  }

  /** Of routes that a reload has removed, nobody takes any. The others have been found by a look at everything. */
  #forgetOld (): void {
    const untilMs = performance.now() - KEPT_MS
    for (const [id, { notedAtMs }] of this.#messages) if (notedAtMs < untilMs) this.#messages.delete(id)
  }

  /** The oldest of each route, at most as many as it has places. */
  of (routes: ReadonlyArray<{ readonly route: string, readonly places: number }>): Buffer[] {
    if (this.#messages.size === 0) return []
    const all = [...this.#messages.values()].sort((one, other) => one.dueAtMs - other.dueAtMs)
    return routes.flatMap(({ route, places }) => all.filter((message) => message.route === route).slice(0, places).map(({ id }) => id))
  }

  has (routes: readonly string[]): boolean {
    return this.#messages.size > 0 && [...this.#messages.values()].some(({ route }) => routes.includes(route))
  }

  /**
   * They were looked for. `left`, as hex: those that could be taken, and were not. null: nothing was taken, so nobody can tell. That may be
   * for lack of room, and is not believed at once.
   */
  lookedFor (ids: readonly Buffer[], left: ReadonlySet<string> | null): void {
    for (const id of ids.map(hex)) {
      const message = this.#messages.get(id)
      if (message === undefined || left?.has(id) === true) continue
      if (left !== null || ++message.misses >= MISSES_MAX) this.#messages.delete(id)
    }
  }
}
