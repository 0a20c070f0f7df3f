/**
 * The arithmetic of a Bloom filter: how many bits and probes a capacity and an error rate take, and which bits an id has. Two filters take
 * turns, one window each, and both are read. So an entry is remembered for one to two windows. Pure.
 */

export interface Geometry {
  /** In each of the two filters. A multiple of eight. */
  readonly bits: number
  /** Bits per entry. */
  readonly probes: number
}

/** Of one filter. Redis allocates it in one command, and serves no other client meanwhile. */
export const FILTER_BYTES_MAX = 64 * 1024 * 1024
const FILTERS = 2
const LN2 = Math.log(2)
const BYTE_BITS = 8

/**
 * A new id is taken for a known one with at most the probability `errorRate`, as long as no window has more than `capacity` entries. Both
 * filters are read, so each one has half of it.
 */
export function geometryOf ({ capacity, errorRate }: { readonly capacity: number, readonly errorRate: number }): Geometry {
  const bitsPerEntry = -Math.log(errorRate / FILTERS) / (LN2 * LN2)
  const bits = Math.ceil(capacity * bitsPerEntry / BYTE_BITS) * BYTE_BITS
  return { bits, probes: Math.max(1, Math.round(bitsPerEntry * LN2)) }
}

export function filterBytes (size: { readonly capacity: number, readonly errorRate: number }): number {
  return geometryOf(size).bits / BYTE_BITS
}

/** Two independent numbers of this many bytes. Their sum, times the largest number of probes, is exact (2^53). */
const NUMBER_BYTES = 6

/** Double hashing: the id is already a SHA-256, and two parts of it give all bits. */
export function bitPositions (id: Buffer, { bits, probes }: Geometry): number[] {
  const first = id.readUIntBE(0, NUMBER_BYTES) % bits
  const step = Math.max(1, id.readUIntBE(NUMBER_BYTES, NUMBER_BYTES) % bits)
  return Array.from({ length: probes }, (_, probe) => (first + probe * step) % bits)
}

/** Windows are counted from the clock's origin. A filter serves every second window. */
export function windowOf (nowMs: number, windowMs: number): number {
  return Math.floor(nowMs / windowMs)
}
