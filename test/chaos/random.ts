/** Repeatable randomness: the same seed gives the same numbers on every machine. Never used for secrets. */

export class Random {
  #state: number

  constructor (seed: number) {
    this.#state = seed >>> 0
    // Neighbouring seeds start alike. A few rounds separate them.
    for (let round = 0; round < WARM_UP; round++) this.float()
  }

  /** A generator of its own, so that what one part draws does not move what another one does. */
  fork (name: string): Random {
    let hash = Math.floor(this.float() * 2 ** 32)
    for (const letter of name) hash = Math.imul(hash ^ letter.charCodeAt(0), 0x01000193)
    return new Random(hash)
  }

  /** 0 <= number < 1. A Weyl sequence through a mixer of multiplications and shifts. */
  float (): number {
    this.#state = (this.#state + 0x9e3779b9) >>> 0
    let mixed = this.#state
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21f0aaad)
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97)
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32
  }

  /** A whole number, both ends included. */
  between (least: number, most: number): number {
    return least + Math.floor(this.float() * (most - least + 1))
  }

  chance (share: number): boolean {
    return this.float() < share
  }

  pick<T> (list: readonly T[]): T {
    const picked = list[Math.floor(this.float() * list.length)]
    if (picked === undefined) throw new Error('nothing to pick from')
    return picked
  }

  /** `weights` name how often. The rest of the names never. */
  weighted<Name extends string> (weights: Readonly<Partial<Record<Name, number>>>): Name {
    const entries = Object.entries(weights) as Array<[Name, number]>
    let left = this.float() * entries.reduce((sum, [, weight]) => sum + weight, 0)
    for (const [name, weight] of entries) {
      left -= weight
      if (left < 0) return name
    }
    return (entries.at(-1) as [Name, number])[0]
  }

  shuffled<T> (list: readonly T[]): T[] {
    const deck = list.slice()
    for (let last = deck.length - 1; last > 0; last--) {
      const other = this.between(0, last);
      [deck[last], deck[other]] = [deck[other] as T, deck[last] as T]
    }
    return deck
  }
}

const WARM_UP = 8
