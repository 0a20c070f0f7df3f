/**
 * Reproducible chance: the same seed draws the same numbers on every machine (sfc32, by Chris Doty-Humphrey, public domain). The seed goes
 * through an integer hash, so that neighbouring seeds have nothing in common. Never for secrets.
 */
export class Chance {
  #a: number
  #b: number
  #c: number
  #counter = 1

  /** `stream`: draws apart from every other stream of the same seed. */
  constructor (seed: number, stream = 0) {
    this.#a = mixed(seed >>> 0)
    this.#b = mixed(Math.floor(seed / WORD) ^ 0x5bd1e995)
    this.#c = mixed(stream ^ 0x2545f491)
    for (let round = 0; round < WARM_UP; round++) this.#word()
  }

  /** From 0 to below 1. */
  unit (): number {
    return this.#word() / WORD
  }

  /** A whole number; both bounds can come. */
  whole (min: number, max: number): number {
    return min + Math.floor(this.unit() * (max - min + 1))
  }

  hit (share: number): boolean {
    return this.unit() < share
  }

  one<T> (of: readonly T[]): T {
    const drawn = of[this.whole(0, of.length - 1)]
    if (drawn === undefined) throw new RangeError('nothing to draw from')
    return drawn
  }

  /** Each as often as its weight says. */
  weighted<T> (of: ReadonlyArray<readonly [weight: number, value: T]>): T {
    let left = this.unit() * of.reduce((sum, [weight]) => sum + weight, 0)
    for (const [weight, value] of of) {
      left -= weight
      if (left < 0) return value
    }
    throw new RangeError('nothing to draw from')
  }

  bytes (size: number): Buffer {
    const bytes = Buffer.allocUnsafe(size)
    for (let at = 0; at < size; at += 4) bytes.writeUInt32LE(this.#word(), Math.min(at, size - 4))
    return bytes
  }

  #word (): number {
    const sum = (((this.#a + this.#b) | 0) + this.#counter) | 0
    this.#counter = (this.#counter + 1) | 0
    this.#a = this.#b ^ (this.#b >>> 9)
    this.#b = (this.#c + (this.#c << 3)) | 0
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) | 0
    return sum >>> 0
  }
}

const WORD = 2 ** 32
/** Rounds after which no bit of the seed can still be seen. */
const WARM_UP = 12

function mixed (word: number): number {
  let bits = (word + 0x9e3779b9) | 0
  bits = Math.imul(bits ^ (bits >>> 16), 0x21f0aaad)
  bits = Math.imul(bits ^ (bits >>> 15), 0x735a2d97)
  return bits ^ (bits >>> 15)
}
