/** What one request holds of the limits: the bytes of its body and a caller slot. Counted by references: the last release frees them. */
import type { Holder } from '../../core/limits/limit.ts'
import type { CallerSlots } from '../limits/caller-slots.ts'
import type { BodyBudget } from './body-budget.ts'

export class BodyReservation {
  readonly #budget: BodyBudget
  readonly #slots: CallerSlots
  readonly #slot: string
  #references = 1
  #holdersOfBytes = 1

  /** The bytes and the slot are taken already. `slot`: as {@link CallerSlots.take} returned it. */
  constructor (budget: BodyBudget, slots: CallerSlots, slot: string) {
    this.#budget = budget
    this.#slots = slots
    this.#slot = slot
  }

  get budget (): BodyBudget { return this.#budget }

  /** Whose share it counts in, as does everything that the request takes later. */
  get holder (): Holder { return this.#budget.holder }

  retain (): void {
    this.#references++
  }

  release (): void {
    if (--this.#references !== 0) return
    this.#slots.release(this.#slot)
    this.releaseBytes()
  }

  /** For who holds the body longer than the request is in flight for its caller. */
  retainBytes (): void {
    this.#holdersOfBytes++
  }

  releaseBytes (): void {
    if (--this.#holdersOfBytes === 0) this.#budget.release()
  }
}
