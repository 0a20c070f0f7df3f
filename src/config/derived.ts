/** What follows from a whole configuration: its database by name, its range of leases, its longest retention. */
import type { GuardedRoute } from '../core/policy/policy.ts'
import type { Config } from './config.ts'

export interface LeaseRange { readonly shortestMs: number, readonly longestMs: number }

/** The schema's default lease, if no route is guarded. */
const LEASE_MS = 15_000

export function leasesOf (config: Pick<Config, 'routes'>): LeaseRange {
  const leases = policiesOf(config).map(({ leaseMs }) => leaseMs)
  return leases.length === 0
    ? { shortestMs: LEASE_MS, longestMs: LEASE_MS }
    : { shortestMs: Math.min(...leases), longestMs: Math.max(...leases) }
}

/** The longest time that any route keeps a record, a message or a mark. */
export function longestRetentionOf (config: Pick<Config, 'routes'>): number {
  return Math.max(0, ...policiesOf(config).flatMap(({ retentionMs, unknownRetentionMs, inbox, drop }) => [
    retentionMs,
    unknownRetentionMs,
    inbox?.deadRetentionMs ?? 0,
    drop?.windowMs ?? 0
  ]))
}

function policiesOf ({ routes }: Pick<Config, 'routes'>): Array<GuardedRoute['idempotency']> {
  return routes.filter((route): route is GuardedRoute => route.idempotency !== null).map((route) => route.idempotency)
}

/** Names the database that has the records. Without credentials, so that a new password is no other database. */
export function storeText ({ stores: { postgres }, dataDir }: Pick<Config, 'stores' | 'dataDir'>): string {
  if (postgres === null) return `the embedded store under ${dataDir}`
  const { host, pathname } = new URL(postgres.url)
  return `Postgres ${host}${pathname}, schema ${postgres.schema}`
}
