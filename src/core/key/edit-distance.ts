/**
 * The number of typing errors between two words: a letter too many, too few, another, or two swapped ones. This is Damerau-Levenshtein,
 * where no letter is touched twice. Long words are cut.
 */
const LETTERS_MAX = 64

export function editDistance (from: string, to: string): number {
  const [one, other] = [from.slice(0, LETTERS_MAX), to.slice(0, LETTERS_MAX)]
  let before: number[] = []
  let row = Array.from({ length: other.length + 1 }, (_, index) => index)
  for (let i = 0; i < one.length; i++) {
    const next = [i + 1]
    for (let j = 0; j < other.length; j++) {
      const changed = (row[j] ?? 0) + (one[i] === other[j] ? 0 : 1)
      const swapped = i > 0 && j > 0 && one[i] === other[j - 1] && one[i - 1] === other[j] ? (before[j - 1] ?? 0) + 1 : Infinity
      next.push(Math.min(changed, swapped, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1))
    }
    before = row
    row = next
  }
  return row[other.length] ?? 0
}
