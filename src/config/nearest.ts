/** What was probably meant by a word that is not known. */

/** `; did you mean api?`, or nothing. */
export function didYouMean (name: string, candidates: readonly string[]): string {
  const near = nearest(name, candidates)
  return near === null ? '' : `; did you mean ${near}?`
}

/** The candidate that differs least, if it differs little: a third of its letters at most. */
function nearest (name: string, candidates: readonly string[]): string | null {
  const plain = (text: string) => text.toLowerCase().replaceAll(/[-_]/g, '')
  const near = candidates.map((candidate) => ({ candidate, distance: distance(plain(name), plain(candidate)) }))
    .filter(({ candidate, distance }) => distance <= Math.max(1, Math.floor(candidate.length / 3)))
    .sort((a, b) => a.distance - b.distance)
  return near[0]?.candidate ?? null
}

/** Levenshtein's, row by row; names are short. */
function distance (from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (let i = 0; i < Math.min(from.length, 64); i++) {
    const next = [i + 1]
    for (let j = 0; j < to.length; j++) {
      next.push(Math.min((row[j] ?? 0) + (from[i] === to[j] ? 0 : 1), (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1))
    }
    row = next
  }
  return row[to.length] ?? 0
}
