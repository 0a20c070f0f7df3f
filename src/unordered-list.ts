/**
 * For what comes and goes with every request: a list that gives up what leaves it at once. A Set would keep it, and what
 * it leads to, in old copies of its table (gateway/execution/executions.ts says how). In no order.
 */
export interface Slot<Item> { readonly item: Item, index: number }

const LEFT = -1

export class UnorderedList<Item> {
  readonly #slots: Array<Slot<Item>> = []

  get size (): number { return this.#slots.length }

  add (item: Item): Slot<Item> {
    const slot = { item, index: this.#slots.length }
    this.#slots.push(slot)
    return slot
  }

  /** Once it has left, nothing happens. */
  remove (slot: Slot<Item>): void {
    if (slot.index === LEFT) return
    const last = this.#slots.pop()
    if (last !== undefined && last !== slot) {
      this.#slots[slot.index] = last
      last.index = slot.index
    }
    slot.index = LEFT
  }

  /** One of them, which leaves. */
  take (): Item | undefined {
    const slot = this.#slots.pop()
    if (slot === undefined) return undefined
    slot.index = LEFT
    return slot.item
  }

  all (): Item[] {
    return this.#slots.map(({ item }) => item)
  }
}
