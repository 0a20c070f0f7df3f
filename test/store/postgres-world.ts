/** What a test of the Postgres store stands on: an empty schema of its own in one database, and connections beside the store's. */
import { randomBytes } from 'node:crypto'
import type { TestContext } from 'node:test'
import { Client } from 'pg'
import { openPostgres, type PostgresOptions, type PostgresRecordStore } from '../../src/store/postgres/open.ts'
import type { PostgresServer } from '../harness/postgres.ts'

export function optionsOf (url: string, given: Partial<PostgresOptions> = {}): PostgresOptions {
  return { url, schema: `onceway_${randomBytes(6).toString('hex')}`, prepared: true, migrate: 'auto', claimTimeoutMs: 2_000, ...given }
}

export interface PostgresWorld {
  readonly store: PostgresRecordStore
  readonly options: PostgresOptions
  reopen: () => Promise<PostgresRecordStore>
  audits: () => Promise<Array<{ action: string, who: string, why: string }>>
  /** Another connection, for what somebody else does; closed with the test. */
  connect: () => Promise<Client>
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
