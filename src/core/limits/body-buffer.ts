/**
 * A body that arrives in pieces, as one growing buffer. A list of pieces would cost a hundred bytes for each, whatever is
 * in it: a client that sends eight million chunks of one byte would hold a gigabyte that no budget of bytes sees.
 */

/** Asked before memory is taken; false: there is none, or none for this one, and nothing was taken. */
export type Reserve = (bytes: number) => boolean

export class BodyBuffer {
  readonly #bytesMax: number
  readonly #reserve: Reserve
  #buffer: Buffer = Buffer.alloc(0)
  #length = 0
  #held = 0

  constructor (bytesMax: number, reserve: Reserve) {
    this.#bytesMax = bytesMax
    this.#reserve = reserve
  }

  /** Bytes reserved for it: between its length and twice that. */
  get held (): number { return this.#held }
  get length (): number { return this.#length }

  /** `large`: over `bytesMax`; `no-room`: over the budget. Nothing of the piece was taken then. */
  add (piece: Buffer): 'taken' | 'large' | 'no-room' {
    const length = this.#length + piece.length
    if (length > this.#bytesMax) return 'large'
    if (this.#length === 0) {
      // Most bodies come in one piece: that one is kept as it is.
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

  /** All of it, and no more of it here; what it has reserved is the receiver's to give back. */
  detach (): Buffer {
    const detached = this.whole()
    this.#buffer = Buffer.alloc(0)
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
    if (!this.#reserve(bytes)) return false
    this.#held += bytes
    return true
  }
}
