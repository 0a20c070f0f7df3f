/**
 * Bytes of bodies in memory: `limits.bufferedBytes`. Requests and answers share them, and neither can take all.
 * Otherwise uploads would turn other callers' small answers into tombstones.
 * And answers that no client reads would refuse every upload.
 */
import { Limit, NOBODY } from '../../core/limits/limit.ts'
import type { Holder, Refusal } from '../../core/limits/limit.ts'

export type BufferKind = 'requests' | 'answers'

/** The share of all bytes that one kind can take. */
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

  /** null: taken. `least`: a holder may have so much beyond its share, while bytes are free. */
  take (kind: BufferKind, bytes: number, by: Holder = NOBODY, least?: number): Refusal | null {
    // The share is checked in both limits. In the total alone, one holder could take all bytes of its kind.
    const asking = least === undefined ? {} : { least }
    const refusal = this.#kinds[kind].refusal(bytes, by, asking) ?? this.#all.refusal(bytes, by, asking)
    if (refusal === null) this.force(kind, bytes, by)
    return refusal
  }

  /** For the gateway's own work, which has no share. Takes what is free within `part` of all bytes, and returns how much. */
  takeUpTo (kind: BufferKind, bytes: number, part: number): number {
    const taken = this.#all.takeUpTo(Math.min(bytes, this.#kinds[kind].free), part)
    this.#kinds[kind].force(taken)
    return taken
  }

  /** Counts bytes that are held already and cannot be refused any more. */
  force (kind: BufferKind, bytes: number, by: Holder = NOBODY): void {
    this.#kinds[kind].force(bytes, by)
    this.#all.force(bytes, by)
  }

  release (kind: BufferKind, bytes: number, by: Holder = NOBODY): void {
    this.#kinds[kind].release(bytes, by)
    this.#all.release(bytes, by)
  }
}
