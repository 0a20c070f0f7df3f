/**
 * What an answer says of coming again. True of the moment in which it was given: a stored answer stays what it is, however long
 * its client waits before the next retry.
 */
import { headerValue, pairs } from './lines.ts'
import type { Answer, RawHeaders } from '../record/record.ts'

/**
 * Seconds, or a date (RFC 9110 10.2.3). As long as it says; whoever waits has a bound of his own. null: no such field,
 * or nobody can read it.
 */
export function retryAfterMs ({ headers }: Answer, nowMs: number): number | null {
  const value = headerValue(headers, 'retry-after')?.trim() ?? ''
  if (/^[0-9]+$/.test(value)) return Math.min(Number(value) * 1_000, Number.MAX_SAFE_INTEGER)
  const at = DATE.test(value) ? Date.parse(value) : NaN
  return Number.isNaN(at) ? null : Math.max(0, at - nowMs)
}

/** As HTTP writes it (RFC 9110 5.6.7), or ISO 8601. Date.parse itself finds a date in `-1`, `1.5` and `never 1`. */
const DATE = /^(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? |[0-9]{4}-[0-9]{2}-[0-9]{2})/i

/** When to come again. */
const WHEN = ['retry-after', 'retry-after-ms'] as const
/** Whether to. `false` is as true of a stored answer as it was at first. */
const WHETHER = ['stripe-should-retry', 'x-should-retry'] as const
const ALL = [...WHEN, ...WHETHER]

/**
 * The fields of a stored answer without what asks its client for a retry: that gets the same answer, a success too, which
 * stripe-node sends again where it is told to. Retry-After of a 2xx or 3xx is about another request (RFC 9110 10.2.3: wait before
 * you follow, or ask again for what is under way). `keep`: lower-case names that the route keeps.
 */
export function withoutRetryHints ({ status, headers }: Pick<Answer, 'status' | 'headers'>, keep: ReadonlySet<string>): RawHeaders {
  const hints: readonly string[] = status < 400 ? WHETHER : ALL
  // Asked of every replay, and most have none.
  if (hints.every((name) => headerValue(headers, name) === null)) return headers
  const asks = (name: string, value: string): boolean =>
    hints.includes(name) && !keep.has(name) && (!isWhether(name) || value.trim().toLowerCase() === 'true')
  return Array.from(pairs(headers)).filter(([name, value]) => !asks(name.toLowerCase(), value)).flat()
}

function isWhether (name: string): boolean {
  return name.endsWith('-should-retry')
}
