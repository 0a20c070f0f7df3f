/**
 * Marks as a Bloom filter in this process: fixed memory for any number of events (core/drop/bloom.ts). Lost when the process
 * ends.
 */
import { geometryOf, bitPositions, windowOf } from '../../core/drop/bloom.ts'
import type { Geometry } from '../../core/drop/bloom.ts'
import type { MarkEnding, Marking, MarkResult, MarkStore } from '../../ports/marks.ts'

export interface MemoryBloomOptions {
  readonly capacity: number
  readonly errorRate: number
  readonly windowMs: number
  /** Milliseconds, origin arbitrary. */
  readonly nowMs: () => number
}

export class MemoryBloom implements MarkStore {
  readonly name = 'bloom'
  readonly #geometry: Geometry
  readonly #windowMs: number
  readonly #nowMs: () => number
  #current: Uint8Array
  #previous: Uint8Array
  #window: number
  /**
   * The greatest scheme that has asked here. One process has this filter, and once it makes ids by a scheme it uses no lesser
   * one.
   */
  #scheme = 0

  constructor ({ windowMs, nowMs, ...size }: MemoryBloomOptions) {
    this.#geometry = geometryOf(size)
    this.#windowMs = windowMs
    this.#nowMs = nowMs
    this.#current = this.#empty()
    this.#previous = this.#empty()
    this.#window = windowOf(nowMs(), windowMs)
  }

  async mark ({ id, scheme, earlierId, as }: Omit<Marking, 'token' | 'keepMs'>): Promise<MarkResult> {
    this.#turn()
    if (this.#has(id)) return 'done'
    if (scheme < this.#scheme || (earlierId !== null && this.#has(earlierId))) return 'moved'
    this.#scheme = scheme
    if (as === 'done') setAll(this.#current, bitPositions(id, this.#geometry))
    return 'marked'
  }

  async stands (id: Buffer): Promise<boolean> {
    this.#turn()
    return this.#has(id)
  }

  async done ({ id, scheme }: Pick<MarkEnding, 'id' | 'scheme'>): Promise<void> {
    this.#scheme = Math.max(this.#scheme, scheme)
    this.#turn()
    setAll(this.#current, bitPositions(id, this.#geometry))
  }

  async remove (): Promise<boolean> { return false }

  #empty (): Uint8Array { return new Uint8Array(this.#geometry.bits / BYTE_BITS) }

  #has (id: Buffer): boolean {
    const places = bitPositions(id, this.#geometry)
    return hasAll(this.#current, places) || hasAll(this.#previous, places)
  }

  #turn (): void {
    const window = windowOf(this.#nowMs(), this.#windowMs)
    if (window === this.#window) return
    this.#previous = window === this.#window + 1 ? this.#current : this.#empty()
    this.#current = this.#empty()
    this.#window = window
  }
}

const BYTE_BITS = 8

function hasAll (filter: Uint8Array, places: readonly number[]): boolean {
  return places.every((place) => ((filter[place >>> 3] as number) & (1 << (place & 7))) !== 0)
}

function setAll (filter: Uint8Array, places: readonly number[]): void {
  for (const place of places) filter[place >>> 3] = (filter[place >>> 3] as number) | (1 << (place & 7))
}
