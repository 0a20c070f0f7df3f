/**
 * How many requests each caller has under way in this process, and the bound on it (`limits.inFlightPerScope`). A caller is
 * a scope's text, whatever the route; who has nothing under way has no entry.
 */
export class CallerSlots {
  readonly #taken = new Map<string, number>()

  /** Callers with something under way. */
  get size (): number { return this.#taken.size }

  /**
   * Gives the place back; it must be called once. null: the caller has all of his. `max` 0: no bound, and nothing is counted,
   * nor later when there is one.
   */
  take (scope: string, max: number): (() => void) | null {
    if (max === 0) return nothing
    const taken = this.#taken.get(scope) ?? 0
    if (taken >= max) return null
    this.#taken.set(scope, taken + 1)
    return () => { this.#leave(scope) }
  }

  #leave (scope: string): void {
    const left = (this.#taken.get(scope) ?? 0) - 1
    if (left > 0) this.#taken.set(scope, left)
    else this.#taken.delete(scope)
  }
}

function nothing (): void {}
