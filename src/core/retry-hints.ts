/**
 * What an answer says of coming again. True of the moment in which it was given: a stored answer stays what it is, however long
 * its client waits before the next retry.
 */
import { headerValue, pairs } from './lines.ts'
import type { Answer, RawHeaders } from './record.ts'

/** Seconds, or a date (RFC 9110 10.2.3). As long as it says; whoever waits has a bound of his own. null: no such field, or nobody can read it. */
export function retryAfterMs ({ headers }: Answer, nowMs: number): number | null {
  const value = headerValue(headers, 'retry-after')?.trim() ?? ''
  if (/^[0-9]+$/.test(value)) return Math.min(Number(value) * 1_000, Number.MAX_SAFE_INTEGER)
  const at = Date.parse(value)
  return Number.isNaN(at) ? null : Math.max(0, at - nowMs)
}

/** When to come again. */
const WHEN: ReadonlySet<string> = new Set(['retry-after', 'retry-after-ms'])
/** Whether to. `false` is as true of a stored answer as it was at first. */
const WHETHER: ReadonlySet<string> = new Set(['stripe-should-retry', 'x-should-retry'])

/**
 * The fields of a stored answer without what asks its client for a retry: that gets the same answer. Retry-After of a 2xx or
 * 3xx is about another request (RFC 9110 10.2.3: wait before you follow, or ask again for what is under way). `keep`: lower-case names that the route keeps.
 */
export function withoutRetryHints ({ status, headers }: Pick<Answer, 'status' | 'headers'>, keep: ReadonlySet<string>): RawHeaders {
  if (status < 400) return headers
  return Array.from(pairs(headers)).filter(([name, value]) => keep.has(name.toLowerCase()) || !asksForRetry(name.toLowerCase(), value)).flat()
}

function asksForRetry (name: string, value: string): boolean {
  return WHEN.has(name) || (WHETHER.has(name) && value.trim().toLowerCase() === 'true')
}
