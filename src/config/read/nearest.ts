/** Suggestions for unknown words. */
import { editDistance } from '../../core/key/edit-distance.ts'

/** `; did you mean api?`, or an empty text. */
export function didYouMean (name: string, candidates: readonly string[]): string {
  const near = nearest(name, candidates)
  return near === null ? '' : `; did you mean ${near}?`
}

/** The closest candidate, if at most a third of its letters differ. */
function nearest (name: string, candidates: readonly string[]): string | null {
  const plain = (text: string) => text.toLowerCase().replaceAll(/[-_]/g, '')
  const near = candidates.map((candidate) => ({ candidate, distance: editDistance(plain(name), plain(candidate)) }))
    .filter(({ candidate, distance }) => distance <= Math.max(1, Math.floor(candidate.length / 3)))
    .sort((a, b) => a.distance - b.distance)
  return near[0]?.candidate ?? null
}
