/**
 * A list for items that come and go with every request, in no order. It releases a removed item at once. A Set would keep it, and
 * everything it references, in old copies of its table (see gateway/execution/executions.ts).
 */

/** The place of an item that is not there. */
export const NOWHERE = -1

/** `Field`: where an item has its place in this list. Only the list writes it. */
export class UnorderedList<Item extends Record<Field, number>, Field extends string = 'place'> {
  readonly #field: Field
  readonly #items: Item[] = []

  constructor (field: Field) {
    this.#field = field
  }

  get size (): number { return this.#items.length }

  /** Does nothing if it is there already. */
  add (item: Item): void {
    if (item[this.#field] === NOWHERE) this.#place(item, this.#items.push(item) - 1)
  }

  /** Does nothing if it is not there. */
  remove (item: Item): void {
    const place: number = item[this.#field]
    if (place === NOWHERE) return
    const last = this.#items.pop() as Item
    if (last !== item) {
      this.#items[place] = last
      this.#place(last, place)
    }
    this.#place(item, NOWHERE)
  }

  /** Removes and returns any item. */
  take (): Item | undefined {
    const item = this.#items.at(-1)
    if (item !== undefined) this.remove(item)
    return item
  }

  /** Those that are there now. */
  all (): Item[] {
    return this.#items.slice()
  }

  #place (item: Record<Field, number>, place: number): void {
    item[this.#field] = place
  }
}
