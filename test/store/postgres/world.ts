/** What a test of the Postgres store stands on: an empty schema of its own in one database, and connections beside the store's. */
import { randomBytes } from 'node:crypto'
import type { TestContext } from 'node:test'
import { Client, escapeIdentifier } from 'pg'
import type { SwitchOrder, SwitchResult } from '../../../src/core/record/scheme-switch.ts'
import { openPostgres, type PostgresOptions, type PostgresRecordStore } from '../../../src/store/postgres/open.ts'
import { switchSchemeOf } from '../../../src/store/postgres/scheme-switch.ts'
import { SWITCH } from '../../conformance/record-schemes.ts'
import { until } from '../../conformance/record-world.ts'
import type { PostgresServer } from '../../harness/postgres.ts'
import { SIGN } from '../../harness/sign.ts'

export function optionsOf (url: string, given: Partial<PostgresOptions> = {}): PostgresOptions {
  return {
    url,
    schema: `onceway_${randomBytes(6).toString('hex')}`,
    prepared: true,
    migrate: 'auto',
    claimTimeoutMs: 2_000,
    instance: randomBytes(6).toString('hex'),
    ...given
  }
}

const UNKNOWN_STATE = 'of-another-build'

/** What holds of every row that this build has written: constraints once (migrations/postgres/0011_constraints.sql). */
const WHOLE = `octet_length(id) = 32 and octet_length(owner) = 16 and attempt >= 1 and lease_ms > 0 and unknown_keep_ms >= 0 and quarantine_ms >= 0
  and state in ('claimed', 'completed', 'consumed', 'released', 'indeterminate')
  and (settled_by is null or settled_by in ('owner', 'lease', 'probe', 'operator'))
  and (state = 'claimed') = (lease_until is not null) and (state = 'claimed') = (settled_by is null) and (state = 'claimed') = (settled_at is null)
  and (state = 'completed') = (body is not null) and (state not in ('completed', 'consumed') or status is not null)`

/** @throws if a row is not what its state says */
async function mustBeWhole (client: Client, schema: string): Promise<void> {
  const { rows } = await client.query<{ row: string }>(
    `select r::text as row from ${schema}.records r where state <> '${UNKNOWN_STATE}' and (${WHOLE}) is not true`
  )
  if (rows.length > 0) throw new Error(`rows that make no sense: ${rows.map(({ row }) => row).join(', ')}`)
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
  switchScheme: (name: string, over?: Partial<SwitchOrder>) => Promise<SwitchResult>
  corrupt: (id: Buffer) => Promise<void>
}

export async function openWorld (t: TestContext, server: PostgresServer, given: Partial<PostgresOptions> = {}): Promise<PostgresWorld> {
  const options = optionsOf(server.url, given)
  const store = await openPostgres(options)
  t.after(() => store.close())
  await asBefore(options)
  return worldOf(t, store, options)
}

/** No gateway serves from it, and chooses: its ids are made as in every database that was there before there were schemes. */
export async function asBefore ({ url, schema }: PostgresOptions): Promise<void> {
  const client = await connected(url)
  await client.query(`update ${escapeIdentifier(schema)}.schemes set name = '1' where name is null`)
  await client.end()
}

/**
 * Worlds for tests that follow one another: each is empty when it is handed out, and handed out again when its test is
 * over. To open one takes longer than most tests do.
 */
export class Worlds {
  readonly #given: Partial<PostgresOptions>
  readonly #spare: Opened[] = []
  readonly #all: Opened[] = []

  constructor (given: Partial<PostgresOptions> = {}) { this.#given = given }

  async take (t: TestContext, server: PostgresServer): Promise<PostgresWorld> {
    const opened = await this.#used() ?? await this.#open(server)
    t.after(() => { this.#spare.push(opened) })
    return worldOf(t, opened.store, opened.options)
  }

  async close (): Promise<void> {
    await Promise.all(this.#all.flatMap(({ store, client }) => [store.close(), client.end().catch(() => {})]))
  }

  async #used (): Promise<Opened | null> {
    const opened = this.#spare.pop()
    if (opened === undefined) return null
    const { store, client, options: { schema } } = opened
    // A test may have closed it.
    if (await store.beat(SIGN).then(() => false, () => true)) return this.#used()
    await mustBeWhole(client, schema)
    // A superuser's session without triggers: those of the audit refuse this.
    await client.query('set session_replication_role = replica')
    await client.query(
      [
        'records',
        'audit',
        'messages',
        'deliveries',
        'workers',
        'message_audit',
        'marks',
        'paused_routes'
      ].map((table) => `delete from ${schema}.${table}`).join('; ')
    )
    await client.query(
      `update ${schema}.installation set scheme = 1; delete from ${schema}.schemes where number > 1; update ${schema}.schemes set ended_at = null, look_from = null, is_lost = false`
    )
    return opened
  }

  async #open (server: PostgresServer): Promise<Opened> {
    const options = optionsOf(server.url, this.#given)
    const opened = { options, store: await openPostgres(options), client: await connected(options.url) }
    await asBefore(options)
    this.#all.push(opened)
    return opened
  }
}

interface Opened { readonly store: PostgresRecordStore, readonly options: PostgresOptions, readonly client: Client }

async function connected (url: string): Promise<Client> {
  const client = new Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  return client
}

function worldOf (t: TestContext, store: PostgresRecordStore, options: PostgresOptions): PostgresWorld {
  const connect = async (): Promise<Client> => {
    const client = await connected(options.url)
    t.after(() => client.end().catch(() => {}))
    return client
  }
  const records = `${options.schema}.records`
  return {
    store,
    options,
    connect,
    records,
    async corrupt (id) {
      await (await connect()).query(`update ${records} set state = '${UNKNOWN_STATE}' where id = $1`, [id])
    },
    async switchScheme (name, over) {
      return switchSchemeOf(await connect(), options.schema, { ...SWITCH, name, ...over })
    },
    async reopen () {
      const again = await openPostgres(options)
      t.after(() => again.close())
      return again
    },
    async audits () {
      const { rows } = await (await connect()).query<{ action: string, who: string, why: string }>(
        `select action, who, why from ${options.schema}.audit order by number`
      )
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
