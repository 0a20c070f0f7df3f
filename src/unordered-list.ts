/**
 * A list for items that come and go with every request. It releases a removed item at once. A Set would keep it, and everything it
 * references, in old copies of its table (see gateway/execution/executions.ts). Items are in no order.
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

  /** A second call does nothing. */
  remove (slot: Slot<Item>): void {
    if (slot.index === LEFT) return
    const last = this.#slots.pop()
    if (last !== undefined && last !== slot) {
      this.#slots[slot.index] = last
      last.index = slot.index
    }
    slot.index = LEFT
  }

  /** Removes and returns any item. */
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
