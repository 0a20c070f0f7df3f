/** Opens the configured stores for operators, beside gateways. It claims nothing and blocks no gateway. */
import type { Config } from '../config/config.ts'
import type { ClockReport } from '../core/protocol/arbiter-time.ts'
import type { OperatorStores } from '../operator/shared/operators.ts'
import type { Log, Meter } from '../ports/telemetry.ts'
import type { RecordStore } from '../ports/records.ts'
import { NO_LOCKS } from '../store/shared/no-locks.ts'
import { confirmClockOf, readClockOf } from '../store/postgres/clock.ts'
import { migrate } from '../store/postgres/migrate.ts'
import { openPostgres, withPostgres } from '../store/postgres/open.ts'
import { RedisLocks } from '../store/redis/locks.ts'
import { confirmClockIn, readClockIn } from '../store/sqlite/clock.ts'
import { readSecret } from '../store/sqlite/secret.ts'
import { openSqlite } from '../store/sqlite/store.ts'

export interface OpenStores extends OperatorStores { readonly close: () => Promise<void> }

/** How far the store's clock is believed. */
export interface BelievedClock {
  readonly aheadMs: number
  /** Unix milliseconds. null: without a limit. */
  readonly believedMs: () => number | null
}

/** Nobody reads a metric of these connections, and errors are told to whoever asked. */
const SILENT: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const UNCOUNTED: Pick<Meter, 'store' | 'breaker'> = { store: () => {}, breaker: () => {} }

/** `clock` absent: what the gateways have found is read once, for a short life. @throws StartError or StoreUnavailable */
export async function openStores (config: Config, clock?: BelievedClock): Promise<OpenStores> {
  const found = clock ?? believed(await readClock(config))
  const records = await openRecords(config, found.believedMs, clock !== undefined)
  const { redis } = config.stores
  // As in the gateway: Redis is used with Postgres only.
  const locks = redis === null || config.stores.postgres === null
    ? NO_LOCKS
    : new RedisLocks({ ...redis, installation: records.installation, log: SILENT, meter: UNCOUNTED })
  return {
    records,
    inbox: records.inbox,
    operator: records.operator,
    locks,
    secrets: () => secretsOf(config),
    get aheadMs () { return found.aheadMs },
    close: async () => { await Promise.allSettled([records.close(), locks.close()]) }
  }
}

/** Stores that could not be opened: whatever is asked of them fails with the reason. */
export function storesAway (error: Error): OpenStores {
  const failing = <Port extends object>(): Port => new Proxy({}, { get: () => () => Promise.reject(error) }) as Port
  return {
    records: failing(),
    inbox: failing(),
    operator: failing(),
    locks: NO_LOCKS,
    secrets: () => [],
    aheadMs: 0,
    close: () => Promise.resolve()
  }
}

/** The secrets of ids that a gateway of this configuration has, that of the embedded store included. @throws StartError */
export function secretsOf ({ secrets, stores: { postgres }, dataDir }: Config): readonly Buffer[] {
  const own = postgres === null ? readSecret(dataDir) : null
  return own === null ? secrets : [...secrets, own]
}

/** Opens Postgres with `migrate: check`: who only reads records must not migrate under running gateways. */
async function openRecords (
  { stores: { postgres }, dataDir }: Config,
  believedMs: () => number | null,
  isBesideGateway: boolean
): Promise<RecordStore & Pick<OperatorStores, 'inbox' | 'operator'>> {
  if (postgres === null) return openSqlite({ dataDir, exclusive: false, believedMs })
  return openPostgres({
    ...postgres, migrate: 'check', believedMs, instance: 'records', operators: isBesideGateway, log: SILENT, meter: UNCOUNTED
  })
}

/** Clocks are compared by gateways alone. */
function believed ({ nowMs, aheadMs }: ClockReport): BelievedClock {
  return { aheadMs, believedMs: () => aheadMs > 0 ? nowMs - aheadMs : null }
}

/** @throws StartError or StoreUnavailable */
export async function readClock ({ stores: { postgres }, dataDir }: Config): Promise<ClockReport> {
  if (postgres === null) return readClockIn(dataDir)
  return withPostgres(postgres, async (client) => {
    await migrate(client, { schema: postgres.schema, mode: 'check' })
    return readClockOf(client, postgres.schema)
  })
}

/** @throws StartError or StoreUnavailable */
export async function confirmClock (
  { stores: { postgres }, dataDir }: Config,
  by: { readonly who: string, readonly why: string }
): Promise<void> {
  if (postgres === null) confirmClockIn(dataDir, by)
  else await withPostgres(postgres, async (client) => { await confirmClockOf(client, postgres.schema, by) })
}
