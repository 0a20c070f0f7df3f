/** What a test of the Postgres store stands on: an empty schema of its own in one database, and connections beside the store's. */
import { randomBytes } from 'node:crypto'
import type { TestContext } from 'node:test'
import { Client } from 'pg'
import { openPostgres, type PostgresOptions, type PostgresRecordStore } from '../../src/store/postgres/open.ts'
import { until } from '../conformance/record-world.ts'
import type { PostgresServer } from '../harness/postgres.ts'

export function optionsOf (url: string, given: Partial<PostgresOptions> = {}): PostgresOptions {
  return { url, schema: `onceway_${randomBytes(6).toString('hex')}`, prepared: true, migrate: 'auto', claimTimeoutMs: 2_000, instance: randomBytes(6).toString('hex'), ...given }
}

export interface PostgresWorld {
  readonly store: PostgresRecordStore
  readonly options: PostgresOptions
  reopen: () => Promise<PostgresRecordStore>
  audits: () => Promise<Array<{ action: string, who: string, why: string }>>
  /** Another connection, for what somebody else does; closed with the test. */
  connect: () => Promise<Client>
  /** The table as it is named in statements. */
  readonly records: string
  corrupt: (id: Buffer) => Promise<void>
}

export async function openWorld (t: TestContext, server: PostgresServer, given: Partial<PostgresOptions> = {}): Promise<PostgresWorld> {
  const options = optionsOf(server.url, given)
  const store = await openPostgres(options)
  t.after(() => store.close())
  const connect = async () => {
    const client = new Client({ connectionString: options.url })
    client.on('error', () => {})
    await client.connect()
    t.after(() => client.end().catch(() => {}))
    return client
  }
  return {
    store,
    options,
    connect,
    records: `${options.schema}.records`,
    async corrupt (id) {
      const client = await connect()
      const { rows } = await client.query<{ conname: string }>('select conname from pg_constraint where contype = \'c\' and conrelid = $1::regclass', [`${options.schema}.records`])
      for (const { conname } of rows) await client.query(`alter table ${options.schema}.records drop constraint ${conname}`)
      await client.query(`update ${options.schema}.records set state = 'of-another-build' where id = $1`, [id])
    },
    async reopen () {
      const again = await openPostgres(options)
      t.after(() => again.close())
      return again
    },
    async audits () {
      const { rows } = await (await connect()).query<{ action: string, who: string, why: string }>(`select action, who, why from ${options.schema}.audit order by number`)
      return rows
    }
  }
}

/** Until somebody of this store's connections of that purpose waits for a lock. */
export async function untilBlocked (client: Client, world: PostgresWorld, purpose: string): Promise<void> {
  await until(async () => (await blocked(client, world, purpose)).length > 0, `${purpose} to wait for a lock`)
}

/** How long each waiting statement has been under way. */
export async function blocked (client: Client, { options }: PostgresWorld, purpose: string): Promise<number[]> {
  // A transaction sees what its sessions' first look saw, until it is told to look again.
  await client.query('select pg_stat_clear_snapshot()')
  const { rows } = await client.query<{ ms: number }>(
    `select (extract(epoch from clock_timestamp() - query_start) * 1000)::float8 as ms from pg_stat_activity
      where wait_event_type = 'Lock' and application_name = $1`, [`onceway ${purpose} ${options.instance}`])
  return rows.map(({ ms }) => ms)
}
