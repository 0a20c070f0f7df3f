/**
 * Parses durations and sizes: `250ms 15s 5m 24h 7d`, `512B 256KiB 1MiB 2GiB`. A number always has a unit. Fractions are refused, and so is
 * `KB`, which may be 1000 or 1024.
 */

export const DURATION_PATTERN = '^[0-9]{1,12}(ms|s|m|h|d)$'
export const SIZE_PATTERN = '^[0-9]{1,12}(B|KiB|MiB|GiB)$'
export const DURATION_HINT = 'write a whole number with its unit: 250ms, 15s, 5m, 24h, 7d'
export const SIZE_HINT = 'write a whole number with its unit: 512B, 256KiB, 1MiB, 2GiB'

const SECOND_MS = 1000
const DURATION_UNITS = new Map([
  ['ms', 1], ['s', SECOND_MS], ['m', 60 * SECOND_MS], ['h', 3600 * SECOND_MS], ['d', 86_400 * SECOND_MS]
])
const SIZE_UNITS = new Map([['B', 1], ['KiB', 1024], ['MiB', 1024 ** 2], ['GiB', 1024 ** 3]])

/** Milliseconds. null: no duration, or too large to be exact. */
export function parseDuration (text: string): number | null {
  return parse(text, DURATION_PATTERN, DURATION_UNITS)
}

/** Bytes. null: no size, or too large to be exact. */
export function parseSize (text: string): number | null {
  return parse(text, SIZE_PATTERN, SIZE_UNITS)
}

function parse (text: string, pattern: string, units: ReadonlyMap<string, number>): number | null {
  if (!new RegExp(pattern).test(text)) return null
  const unit = text.replace(/^[0-9]+/, '')
  const value = Number.parseInt(text, 10) * (units.get(unit) ?? Number.NaN)
  return Number.isSafeInteger(value) ? value : null
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
