/**
 * Bytes of bodies: `limits.bufferedBytes`. Requests and answers share the room, and neither can have all of it: uploads would turn
 * other callers' small answers into tombstones, and answers that nobody reads would refuse every upload.
 */
import { Limit, NOBODY } from '../../core/limits/limit.ts'
import type { Holder, Refusal } from '../../core/limits/limit.ts'

export type BufferKind = 'requests' | 'answers'

/** Of the room, for either of the two. */
export const KIND_SHARE = 3 / 4

export class Buffers {
  readonly #all: Limit
  readonly #kinds: Readonly<Record<BufferKind, Limit>>

  constructor (bytesMax: number, share: number) {
    this.#all = new Limit(bytesMax, share)
    this.#kinds = { requests: new Limit(bytesMax * KIND_SHARE, share), answers: new Limit(bytesMax * KIND_SHARE, share) }
  }

  get held (): number { return this.#all.held }
  get free (): number { return this.#all.free }

  resize (bytesMax: number, share: number): void {
    this.#all.resize(bytesMax, share)
    for (const kind of Object.values(this.#kinds)) kind.resize(bytesMax * KIND_SHARE, share)
  }

  /** null: taken. `least`: so much a holder may have whatever its share, while there is room. */
  take (kind: BufferKind, bytes: number, by: Holder = NOBODY, least?: number): Refusal | null {
    // Shares in both: alone in all of it, one could have all that there is for its kind.
    const asking = least === undefined ? {} : { least }
    const refusal = this.#kinds[kind].refusal(bytes, by, asking) ?? this.#all.refusal(bytes, by, asking)
    if (refusal === null) this.force(kind, bytes, by)
    return refusal
  }

  /** For work of the gateway's own, which has no share: from 0 to all of it, as long as so large a part of the room is free. */
  takeUpTo (kind: BufferKind, bytes: number, part: number): number {
    const taken = this.#all.takeUpTo(Math.min(bytes, this.#kinds[kind].free), part)
    this.#kinds[kind].force(taken)
    return taken
  }

  /** For what is held already and cannot be refused any more. */
  force (kind: BufferKind, bytes: number, by: Holder = NOBODY): void {
    this.#kinds[kind].force(bytes, by)
    this.#all.force(bytes, by)
  }

  release (kind: BufferKind, bytes: number, by: Holder = NOBODY): void {
    this.#kinds[kind].release(bytes, by)
    this.#all.release(bytes, by)
  }
}
