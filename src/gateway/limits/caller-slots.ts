/**
 * Slots for each caller's requests in flight in this process (`limits.inFlightPerScope`).
 * A caller is the text of a scope, on any route. A caller without a request in flight has no entry.
 */
export class CallerSlots {
  readonly #taken = new Map<string, number>()

  /** The number of callers with a request in flight. */
  get size (): number { return this.#taken.size }

  /**
   * Returns a function that releases the slot and must be called once. null: the caller has no free slot.
   * `max` 0: no bound. Such a request is not counted, even if a reload sets a bound later.
   */
  take (scope: string, max: number): (() => void) | null {
    if (max === 0) return noop
    const taken = this.#taken.get(scope) ?? 0
    if (taken >= max) return null
    this.#taken.set(scope, taken + 1)
    return () => { this.#release(scope) }
  }

  #release (scope: string): void {
    const left = (this.#taken.get(scope) ?? 0) - 1
    if (left > 0) this.#taken.set(scope, left)
    else this.#taken.delete(scope)
  }
}

function noop (): void {}
