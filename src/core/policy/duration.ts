/** Parses durations, in the configuration and where a sender names one: `250ms 15s 5m 24h 7d`. A number always has a unit. */

export const DURATION_PATTERN = '^[0-9]{1,12}(ms|s|m|h|d)$'

const SECOND_MS = 1000
const DURATION_UNITS = new Map([
  ['ms', 1], ['s', SECOND_MS], ['m', 60 * SECOND_MS], ['h', 3600 * SECOND_MS], ['d', 86_400 * SECOND_MS]
])

/** Milliseconds. null: no duration, or too large to be exact. */
export function parseDuration (text: string): number | null {
  return parseWithUnit(text, DURATION_PATTERN, DURATION_UNITS)
}

/** null: it does not match, or is too large to be exact. */
export function parseWithUnit (text: string, pattern: string, units: ReadonlyMap<string, number>): number | null {
  if (!new RegExp(pattern).test(text)) return null
  const unit = text.replace(/^[0-9]+/, '')
  const value = Number.parseInt(text, 10) * (units.get(unit) ?? Number.NaN)
  return Number.isSafeInteger(value) ? value : null
}
