/** Counts by name: counted, merged and printed. */

export type Counts = Readonly<Record<string, number>>

export function count<Key> (counts: Map<Key, number>, key: Key, by = 1): void {
  counts.set(key, (counts.get(key) ?? 0) + by)
}

/** By name, as results have them. */
export function sorted (counts: ReadonlyMap<string, number>): Counts {
  return Object.fromEntries(Array.from(counts).sort(([one], [other]) => one.localeCompare(other)))
}

export function counted (names: Iterable<string>): Counts {
  const counts = new Map<string, number>()
  for (const name of names) count(counts, name)
  return sorted(counts)
}

export function total (counts: Counts): number {
  return Object.values(counts).reduce((sum, each) => sum + each, 0)
}

/** In one line. */
export function listed (counts: Counts): string {
  return Object.entries(counts).map(([name, each]) => `${name} ${each}`).join(', ')
}

/** Of several runs together: the rows of a table. */
export function rowsOf (runs: readonly Counts[]): string {
  const all = new Map<string, number>()
  for (const [name, each] of runs.flatMap((counts) => Object.entries(counts))) count(all, name, each)
  return Object.entries(sorted(all)).map(([name, each]) => `| ${name} | ${each} |`).join('\n')
}
