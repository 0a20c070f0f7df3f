/**
 * The generation of the copies in Redis (gateway/shared/generation.ts): which one follows another. The time is in it, so that a backup of
 * the database, or a copy of it, never comes to a number that was given out elsewhere for something else; where that time went
 * backwards it grows all the same.
 */
export function generationAfter (generation: number, nowMs: number): number {
  return Math.max(generation + 1, Math.floor(nowMs))
}
