/**
 * What an answer says about a retry. It is true only for the moment of the answer. A stored answer stays the same, however late the next
 * retry comes.
 */
import { headerValue, pairs } from './lines.ts'
import type { Answer, RawHeaders } from '../record/record.ts'

/**
 * Retry-After as a delay: seconds, or a date (RFC 9110 10.2.3). It has no upper bound here: the caller bounds its own wait. null: there is
 * no such field, or it cannot be read.
 */
export function retryAfterMs ({ headers }: Answer, nowMs: number): number | null {
  const value = headerValue(headers, 'retry-after')?.trim() ?? ''
  if (/^[0-9]+$/.test(value)) return Math.min(Number(value) * 1_000, Number.MAX_SAFE_INTEGER)
  const at = DATE.test(value) ? Date.parse(value) : NaN
  return Number.isNaN(at) ? null : Math.max(0, at - nowMs)
}

/** As HTTP writes it (RFC 9110 5.6.7), or ISO 8601. Date.parse alone finds a date in `-1`, `1.5` and `never 1`. */
const DATE = /^(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? |[0-9]{4}-[0-9]{2}-[0-9]{2})/i

/** When to retry. */
const WHEN = ['retry-after', 'retry-after-ms'] as const
/** Whether to retry. `false` stays true for a stored answer. */
const WHETHER = ['stripe-should-retry', 'x-should-retry'] as const
const ALL = [...WHEN, ...WHETHER]

/**
 * The fields of a stored answer without the hints to retry: a retry gets the same answer. This includes a success, which stripe-node sends
 * again if a hint says so. Retry-After of a 2xx or 3xx is about another request (RFC 9110 10.2.3). `keep`: lower-case names that the route
 * keeps.
 */
export function withoutRetryHints ({ status, headers }: Pick<Answer, 'status' | 'headers'>, keep: ReadonlySet<string>): RawHeaders {
  const hints: readonly string[] = status < 400 ? WHETHER : ALL
  // Runs on every replay, and most have none.
  if (hints.every((name) => headerValue(headers, name) === null)) return headers
  const asks = (name: string, value: string): boolean =>
    hints.includes(name) && !keep.has(name) && (!isWhether(name) || value.trim().toLowerCase() === 'true')
  return Array.from(pairs(headers)).filter(([name, value]) => !asks(name.toLowerCase(), value)).flat()
}

function isWhether (name: string): boolean {
  return name.endsWith('-should-retry')
}
