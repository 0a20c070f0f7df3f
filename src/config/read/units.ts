/**
 * Parses durations and sizes: `250ms 15s 5m 24h 7d`, `512B 256KiB 1MiB 2GiB`. A number always has a unit. Fractions are refused, and so is
 * `KB`, which may be 1000 or 1024.
 */
import { DURATION_PATTERN, parseWithUnit } from '../../core/policy/duration.ts'

export { DURATION_PATTERN, parseDuration } from '../../core/policy/duration.ts'
export const SIZE_PATTERN = '^[0-9]{1,12}(B|KiB|MiB|GiB)$'
export const DURATION_HINT = 'write a whole number with its unit: 250ms, 15s, 5m, 24h, 7d'
export const SIZE_HINT = 'write a whole number with its unit: 512B, 256KiB, 1MiB, 2GiB'

const SIZE_UNITS = new Map([['B', 1], ['KiB', 1024], ['MiB', 1024 ** 2], ['GiB', 1024 ** 3]])

/** Bytes. null: no size, or too large to be exact. */
export function parseSize (text: string): number | null {
  return parseWithUnit(text, SIZE_PATTERN, SIZE_UNITS)
}

/** Other spellings of units, for suggestions. */
const OTHER_NAMES: ReadonlyArray<readonly [name: RegExp, duration: string | null, size: string | null]> = [
  [/^(ms|msecs?|millis|milliseconds?)$/i, 'ms', null], [/^(s|secs?|seconds?)$/i, 's', null],
  [/^(m|mins?|minutes?)$/i, 'm', 'MiB'], [/^(h|hrs?|hours?)$/i, 'h', null], [/^(d|days?)$/i, 'd', null],
  [/^(b|bytes?)$/i, null, 'B'], [/^(k|kb|kib)$/i, null, 'KiB'], [/^(mb|mib)$/i, null, 'MiB'], [/^(g|gb|gib)$/i, null, 'GiB']
]

/** `5 min` -> `5m`, `1MB` -> `1MiB`. null: no suggestion. */
export function meantUnit (text: string, pattern: string): string | null {
  const [, number = '', name = ''] = /^\s*([0-9]{1,12})\s*([A-Za-z]+)\s*$/.exec(text) ?? []
  const [, duration, size] = OTHER_NAMES.find(([other]) => other.test(name)) ?? [null, null, null]
  const unit = pattern === DURATION_PATTERN ? duration : size
  return unit === null ? null : `${number}${unit}`
}
