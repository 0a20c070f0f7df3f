/** What one request holds of the limits: the bytes of its body and a caller slot. Counted by references: the last release frees both. */
import type { Holder } from '../../core/limits/limit.ts'
import type { BodyBudget } from './body-budget.ts'

export class BodyReservation {
  readonly #budget: BodyBudget
  readonly #releaseSlot: () => void
  #references = 1

  /** The bytes and the slot are taken already. `releaseSlot` frees the slot. */
  constructor (budget: BodyBudget, releaseSlot: () => void) {
    this.#budget = budget
    this.#releaseSlot = releaseSlot
  }

  /** Whose share it counts in, as does everything that the request takes later. */
  get holder (): Holder { return this.#budget.holder }

  retain (): void {
    this.#references++
  }

  release (): void {
    if (--this.#references !== 0) return
    this.#budget.release()
    this.#releaseSlot()
  }
}
