/** The shortest and the longest lease of a configuration: time limits of statements and waits for the dead follow from them. */
import type { GuardedRoute } from '../core/policy.ts'
import type { Config } from './config.ts'

export interface LeaseRange { readonly shortestMs: number, readonly longestMs: number }

/** The default lease, where no route guards. */
const LEASE_MS = 15_000

export function leasesOf (config: Pick<Config, 'routes'>): LeaseRange {
  const leases = config.routes.filter((route): route is GuardedRoute => route.idempotency !== null).map((route) => route.idempotency.leaseMs)
  return leases.length === 0 ? { shortestMs: LEASE_MS, longestMs: LEASE_MS } : { shortestMs: Math.min(...leases), longestMs: Math.max(...leases) }
}
