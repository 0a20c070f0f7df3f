/**
 * For what comes and goes with every request: a list that gives up what leaves it at once. A Set would keep it, and what
 * it leads to, in old copies of its table (gateway/execution/executions.ts says how). In no order.
 */
export interface Slot<Item> { readonly item: Item, index: number }

const LEFT = -1

export class UnorderedList<Item> {
  readonly #places: Array<Slot<Item>> = []

  get size (): number { return this.#places.length }

  add (item: Item): Slot<Item> {
    const place = { item, index: this.#places.length }
    this.#places.push(place)
    return place
  }

  /** Once it has left, nothing happens. */
  remove (place: Slot<Item>): void {
    if (place.index === LEFT) return
    const last = this.#places.pop()
    if (last !== undefined && last !== place) {
      this.#places[place.index] = last
      last.index = place.index
    }
    place.index = LEFT
  }

  /** One of them, which leaves. */
  take (): Item | undefined {
    const place = this.#places.pop()
    if (place === undefined) return undefined
    place.index = LEFT
    return place.item
  }

  all (): Item[] {
    return this.#places.map(({ item }) => item)
  }
}
