/**
 * Is a series flat? What leaks only ever rises: the last third stands above the first one, or a line through all of it
 * climbs, by more than is allowed. Pure arithmetic; knows nothing of what is measured.
 */
export interface Tolerance {
  /** Of the first third's median. */
  readonly share: number
  /** On top, in the series' own unit: small numbers jump. */
  readonly absolute: number
}

export interface Series {
  readonly name: string
  readonly values: readonly number[]
  readonly tolerance: Tolerance
}

export interface Verdict {
  readonly name: string
  /** Medians of the first and of the last third. */
  readonly first: number
  readonly last: number
  /** What a line through all values climbs from the middle of the first third to the middle of the last. */
  readonly climbed: number
  readonly allowed: number
  readonly flat: boolean
}

/** Fewer say nothing: a third of them would be one or two. */
export const VALUES_MIN = 9

export function judge ({ name, values, tolerance }: Series): Verdict {
  if (values.length < VALUES_MIN) throw new Error(`${name}: ${values.length} values are too few to judge`)
  const third = Math.floor(values.length / 3)
  const first = median(values.slice(0, third))
  const last = median(values.slice(-third))
  const climbed = slope(values) * (values.length - third)
  const allowed = Math.abs(first) * tolerance.share + tolerance.absolute
  return { name, first, last, climbed, allowed, flat: last - first <= allowed && climbed <= allowed }
}

/** The lowest of every `size` values: of a heap that is filled and collected, about what was left each time. */
export function floors (values: readonly number[], size: number): number[] {
  const lowest: number[] = []
  for (let at = 0; at + size <= values.length; at += size) lowest.push(Math.min(...values.slice(at, at + size)))
  return lowest
}

export function median (values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  return sorted.length % 2 === 1 ? sorted[middle] as number : ((sorted[middle - 1] ?? 0) + (sorted[middle] ?? 0)) / 2
}

/** Theil-Sen: the median of the slopes of all pairs, which a few outliers do not move. */
function slope (values: readonly number[]): number {
  const slopes: number[] = []
  for (const [at, value] of values.entries()) {
    for (let later = at + 1; later < values.length; later++) slopes.push(((values[later] as number) - value) / (later - at))
  }
  return median(slopes)
}
