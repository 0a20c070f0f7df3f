/**
 * A Bloom filter's arithmetic: how many bits and probes a capacity and an error rate take, and which bits an id has. And
 * its window: two filters in turn, each for one window's time, looked at together; so an entry is remembered for at
 * least one window and at most two. Pure.
 */

export interface Geometry {
  /** Of each of the two filters; a multiple of eight. */
  readonly bits: number
  /** Bits of one entry. */
  readonly probes: number
}

/** Of one filter: Redis makes one in one go, and serves nobody else meanwhile. */
export const FILTER_BYTES_MAX = 64 * 1024 * 1024
const FILTERS = 2
const LN2 = Math.log(2)
const BYTE_BITS = 8

/**
 * An id that never came is taken for one that did with at most the probability `errorRate`, while no window has had more
 * than `capacity` entries: both filters are asked, so each one has half of it.
 */
export function geometryOf ({ capacity, errorRate }: { readonly capacity: number, readonly errorRate: number }): Geometry {
  const bitsPerEntry = -Math.log(errorRate / FILTERS) / (LN2 * LN2)
  const bits = Math.ceil(capacity * bitsPerEntry / BYTE_BITS) * BYTE_BITS
  return { bits, probes: Math.max(1, Math.round(bitsPerEntry * LN2)) }
}

export function filterBytes (size: { readonly capacity: number, readonly errorRate: number }): number {
  return geometryOf(size).bits / BYTE_BITS
}

/** Two independent numbers of so many bytes each: their sum, times the most probes there can be, is exact (2^53). */
const NUMBER_BYTES = 6

/** Double hashing: the id is a SHA-256 already, and two of its parts give all the places there are. */
export function bitPositions (id: Buffer, { bits, probes }: Geometry): number[] {
  const first = id.readUIntBE(0, NUMBER_BYTES) % bits
  const step = Math.max(1, id.readUIntBE(NUMBER_BYTES, NUMBER_BYTES) % bits)
  return Array.from({ length: probes }, (_, probe) => (first + probe * step) % bits)
}

/** Windows are counted from the clock's origin; a filter is that of every second one. */
export function windowOf (nowMs: number, windowMs: number): number {
  return Math.floor(nowMs / windowMs)
}
