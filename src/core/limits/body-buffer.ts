/**
 * A body that arrives in pieces, as one growing buffer. A list would cost a hundred bytes for each piece. A client that sends eight million
 * chunks of one byte would then hold a gigabyte that no budget of bytes counts.
 */

/** Reserves memory before it is used. false: there is none, or none for this body, and nothing was reserved. */
export interface Reserving { reserve: (bytes: number) => boolean }

export class BodyBuffer {
  readonly #bytesMax: number
  readonly #memory: Reserving
  #buffer: Buffer = NOTHING
  #length = 0
  #held = 0

  constructor (bytesMax: number, memory: Reserving) {
    this.#bytesMax = bytesMax
    this.#memory = memory
  }

  /** Bytes reserved for it: between its length and twice its length. */
  get held (): number { return this.#held }
  get length (): number { return this.#length }

  /** `large`: over `bytesMax`. `no-room`: over the budget. In both cases the piece was not added. */
  add (piece: Buffer): 'taken' | 'large' | 'no-room' {
    const length = this.#length + piece.length
    if (length > this.#bytesMax) return 'large'
    if (this.#length === 0) {
      // Most bodies come in one piece. That piece is kept without a copy.
      if (!this.#take(piece.length)) return 'no-room'
      this.#buffer = piece
    } else {
      if (length > this.#held && !this.#grow(Math.min(Math.max(length, this.#held * 2), this.#bytesMax))) return 'no-room'
      piece.copy(this.#buffer, this.#length)
    }
    this.#length = length
    return 'taken'
  }

  whole (): Buffer {
    return this.#buffer.subarray(0, this.#length)
  }

  /** Hands over the whole body and forgets it. The receiver releases what was reserved. */
  detach (): Buffer {
    const detached = this.whole()
    this.#buffer = NOTHING
    this.#length = 0
    this.#held = 0
    return detached
  }

  #grow (capacity: number): boolean {
    if (!this.#take(capacity - this.#held)) return false
    const grown = Buffer.allocUnsafeSlow(capacity)
    this.whole().copy(grown)
    this.#buffer = grown
    return true
  }

  #take (bytes: number): boolean {
    if (!this.#memory.reserve(bytes)) return false
    this.#held += bytes
    return true
  }
}

const NOTHING = Buffer.alloc(0)
