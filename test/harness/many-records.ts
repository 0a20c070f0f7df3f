/**
 * A table of records as a day of work leaves it, by SQL and in seconds: for searches that must not depend on how many there are. Each
 * record can be found by what it is made of: its key is `key-N`, its request id `req-N`, and the route and the path follow from N.
 */
import { Client } from 'pg'
import { recordId } from '../../src/core/record/record-id.ts'
import { readMigrationFiles } from '../../src/store/shared/migration-files.ts'
import { migratePostgres } from '../../src/store/postgres/open.ts'

export interface FillOptions {
  readonly database: string
  readonly records: number
  /** One in 200 has an unknown outcome. false: its outcome is known. */
  readonly withUnknown: boolean
  readonly say?: (text: string) => void
}

export interface Filled { readonly fillSeconds: number, readonly indexSeconds: number }

const ROUTES = 5
const PATHS = 100
const DAY_SECONDS = 86_400
/** The last one was claimed a minute before the table was filled. */
const SPAN_SECONDS = DAY_SECONDS - 60
const CHUNK = 100_000
/** One per core of a small machine. */
const CONNECTIONS = 2
/** What `scope: public` calls a caller without a credential. */
const SCOPE = 'anonymous'

export const ROUTE_NAMES = Array.from({ length: ROUTES }, (_none, at) => `route-${at}`)

/** Of the record with this number, from 1 on. */
export const filled = {
  route: (n: number): string => `route-${n % ROUTES}`,
  path: (n: number): string => `/v1/charges/${n % PATHS}`,
  key: (n: number): string => `key-${n}`,
  requestId: (n: number): string => `req-${n}`,
  id: (n: number): Buffer => recordId(filled.route(n), SCOPE, filled.key(n))
} as const

/** As core/record/schemes frames the parts of a digest: six bytes of length, then the part. */
const framed = (text: string): string =>
  `substring(int8send(octet_length(${text})) from 3) || convert_to(${text}, 'UTF8')`

/**
 * One in 5,000 is claimed, and a few of a hundred are no plain success. $1 and $2: numbers. $3: how many there will be. $4: with unknown
 * outcomes. $5: when the first one was claimed, in seconds.
 */
const FILL = `insert into onceway.records (id, scheme, state, owner, attempt, fp_alg, fingerprint, lease_ms, unknown_keep_ms, quarantine_ms, claimed_at, lease_until,
       settled_at, settled_by, expires_at, status, unknown_stage, unknown_code, route, method, path, request_id, instance, key_hash, headers, body)
select sha256(${framed('s.route')} || ${framed(`'${SCOPE}'`)} || ${framed('s.key')}), 1, s.state, uuid_send(gen_random_uuid()), 1, 3, sha256('\\x00'), 15000, 2592000000, 315000, s.at,
       case when s.state = 'claimed' then now() + interval '1 hour' end, case when s.state <> 'claimed' then s.at + interval '80 ms' end,
       case when s.state <> 'claimed' then 'owner' end, case when s.state <> 'claimed' then s.at + interval '30 days' end,
       case when s.state in ('completed', 'consumed') then 201 end, case when s.state = 'indeterminate' then 'during' end,
       case when s.state = 'indeterminate' then 'ECONNRESET' end, s.route, 'POST', '/v1/charges/' || n % ${PATHS}, 'req-' || n, 'gateway-1',
       sha256(${framed("'onceway:key:1'")} || ${framed('s.key')}),
       case when s.state = 'completed' then '\\x00'::bytea end, case when s.state = 'completed' then convert_to(repeat('x', 200), 'UTF8') end
  from generate_series($1::bigint, $2::bigint) n,
       lateral (select case when n % 5000 = 1 then 'claimed' when $4 and n % 200 = 7 then 'indeterminate' when n % 50 = 3 then 'released'
                            when n % 100 = 9 then 'consumed' else 'completed' end as state,
                       'route-' || n % ${ROUTES} as route, 'key-' || n as key,
                       to_timestamp($5::float8) + (n::float8 / $3::float8 * ${SPAN_SECONDS}) * interval '1 s' as at) s`

/** Into a new database: the tables first, and the indexes of searches when the records are there, as a gateway that starts builds them. */
export async function fillRecords ({ database, records, withUnknown, say = () => {} }: FillOptions): Promise<Filled> {
  const options = { url: database, schema: 'onceway' }
  await migratePostgres({ ...options, migrations: readMigrationFiles('postgres').filter(({ indexes }) => indexes !== true) })
  const began = performance.now()
  let next = 1
  const fromSeconds = Date.now() / 1_000 - DAY_SECONDS
  const fill = async (): Promise<void> => withClient(database, async (client) => {
    while (next <= records) {
      const [from, to] = [next, Math.min(records, next + CHUNK - 1)]
      next = to + 1
      await client.query(FILL, [from, to, records, withUnknown, fromSeconds])
      if (to % 1_000_000 === 0) say(`${to} records`)
    }
  })
  await Promise.all(Array.from({ length: CONNECTIONS }, fill))
  await withClient(database, async (client) => {
    await client.query('vacuum (analyze) onceway.records')
    const { rowCount } = await client.query('select from onceway.records where id = $1', [filled.id(records)])
    if (rowCount !== 1) throw new Error('a record is not where its id says: has core/record/record-id.ts changed?')
  })
  const filledAt = performance.now()
  await migratePostgres(options)
  return { fillSeconds: (filledAt - began) / 1_000, indexSeconds: (performance.now() - filledAt) / 1_000 }
}

async function withClient (database: string, work: (client: Client) => Promise<void>): Promise<void> {
  const client = new Client({ connectionString: database, application_name: 'fills the table' })
  await client.connect()
  try {
    await work(client)
  } finally {
    await client.end()
  }
}
