/**
 * The next generation of the copies in Redis (gateway/shared/generation.ts). It contains the time. So a restored backup, or a copy of the
 * database, never reaches a number that was used elsewhere. If that time went backwards, the number still grows.
 */
export function generationAfter (generation: number, nowMs: number): number {
  return Math.max(generation + 1, Math.floor(nowMs))
}
