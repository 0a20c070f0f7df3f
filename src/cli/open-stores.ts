/** Opens the configured stores for a command that runs beside gateways. It claims nothing and blocks no gateway. */
import type { Config } from '../config/config.ts'
import type { ClockReport } from '../core/protocol/arbiter-time.ts'
import type { InboxStore } from '../ports/inbox.ts'
import type { LockStore } from '../ports/locks.ts'
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
import type { Options, Terminal } from './command.ts'

export interface OpenStores {
  readonly records: RecordStore
  readonly inbox: InboxStore
  readonly locks: LockStore
  readonly secrets: () => readonly Buffer[]
  /** How far ahead the gateways have found the store's clock. 0: they trust it. */
  readonly aheadMs: number
  readonly close: () => Promise<void>
}

export interface CommandContext<Stores = OpenStores> {
  readonly options: Options
  readonly config: Config
  readonly stores: Stores
  readonly terminal: Terminal
}

/** A command reports its errors itself, and has no metrics. */
const SILENT: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const UNCOUNTED: Pick<Meter, 'store' | 'breaker'> = { store: () => {}, breaker: () => {} }

/** @throws StartError or StoreUnavailable if a store cannot be opened. */
export async function openStores (config: Config): Promise<OpenStores> {
  const clock = await readClock(config)
  const records = await openRecords(config, believed(clock))
  const { redis } = config.stores
  // As in the gateway: Redis is used with Postgres only.
  const locks = redis === null || config.stores.postgres === null
    ? NO_LOCKS
    : new RedisLocks({ ...redis, installation: records.installation, log: SILENT, meter: UNCOUNTED })
  return {
    records,
    inbox: records.inbox,
    locks,
    secrets: () => secretsOf(config),
    aheadMs: clock.aheadMs,
    close: async () => { await Promise.allSettled([records.close(), locks.close()]) }
  }
}

/** The secrets of ids that a gateway of this configuration has, that of the embedded store included. @throws StartError */
export function secretsOf ({ secrets, stores: { postgres }, dataDir }: Config): readonly Buffer[] {
  const own = postgres === null ? readSecret(dataDir) : null
  return own === null ? secrets : [...secrets, own]
}

/** Opens Postgres with `migrate: check`: a command that reads records must not migrate under running gateways. */
async function openRecords (
  { stores: { postgres }, dataDir }: Config,
  believedMs: () => number | null
): Promise<RecordStore & { readonly inbox: InboxStore }> {
  if (postgres === null) return openSqlite({ dataDir, exclusive: false, believedMs })
  return openPostgres({ ...postgres, migrate: 'check', believedMs, instance: 'records', log: SILENT, meter: UNCOUNTED })
}

/** A command does not compare clocks itself. It takes over what the gateways have found, for its short life. */
function believed ({ nowMs, aheadMs }: ClockReport): () => number | null {
  return () => aheadMs > 0 ? nowMs - aheadMs : null
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
