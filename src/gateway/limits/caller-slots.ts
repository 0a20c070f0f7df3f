/**
 * Slots for each caller's requests in flight in this process (`limits.inFlightPerScope`).
 * A caller is the text of a scope, on any route. A caller without a request in flight has no entry.
 */
export class CallerSlots {
  readonly #taken = new Map<string, number>()

  /** The number of callers with a request in flight. */
  get size (): number { return this.#taken.size }

  /** The caller of the taken slot, for {@link release}. null: no free slot. `max` 0: no bound, and {@link UNCOUNTED} is returned. */
  take (scope: string, max: number): string | null {
    if (max === 0) return UNCOUNTED
    const taken = this.#taken.get(scope) ?? 0
    if (taken >= max) return null
    this.#taken.set(scope, taken + 1)
    return scope
  }

  /** Call it once for each slot. */
  release (scope: string): void {
    if (scope === UNCOUNTED) return
    const left = (this.#taken.get(scope) ?? 0) - 1
    if (left > 0) this.#taken.set(scope, left)
    else this.#taken.delete(scope)
  }
}

/** No scope is empty. A request that was not counted stays uncounted, even if a reload sets a bound meanwhile. */
const UNCOUNTED = ''
