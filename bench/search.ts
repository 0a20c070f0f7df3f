/**
 * `npm run bench:search -- --records 10000000`: how long operators' searches take in Postgres, with records of a day in a table of that
 * size. Also how long the indexes are built, beside a table that serves. Prints one line for each search: the
 * first time, and the slowest of several more.
 */
import { tmpdir } from 'node:os'
import { parseArgs } from 'node:util'
import { Client } from 'pg'
import { keyHash } from '../src/core/record/record-id.ts'
import type { Page, RecordSearch, RecordSummary } from '../src/ports/operator.ts'
import { readMigrationFiles } from '../src/store/shared/migration-files.ts'
import { migratePostgres, openPostgres } from '../src/store/postgres/open.ts'
import { startPostgres } from '../test/harness/postgres.ts'

const { values } = parseArgs({ options: { records: { type: 'string', default: '1000000' }, rounds: { type: 'string', default: '5' } } })
const RECORDS = Number(values.records)
const ROUNDS = Number(values.rounds)
const CHUNK = 200_000
const DAY_SECONDS = 86_400
const WITHIN_MS = 2_000
const PAGE = 50

/** One in a thousand is claimed no more than a minute ago, and a few of a hundred are no plain success. */
const FILL = `insert into onceway.records (id, scheme, state, owner, attempt, fp_alg, fingerprint, lease_ms, unknown_keep_ms, quarantine_ms, claimed_at, lease_until,
  settled_at, settled_by, expires_at, status, unknown_stage, unknown_code, route, method, path, request_id, instance, key_hash, headers, body)
select sha256(
  convert_to('id-' || n, 'UTF8')
), 1, s.state, uuid_send(gen_random_uuid()), 1, 3, sha256('\\x00'), 15000, 2592000000, 315000, s.at,
       case when s.state = 'claimed' then now() + interval '1 hour' end, case when s.state <> 'claimed' then s.at + interval '80 ms' end,
       case when s.state <> 'claimed' then 'owner' end, case when s.state <> 'claimed' then s.at + interval '30 days' end,
       case when s.state in ('completed', 'consumed') then 201 end, case when s.state = 'indeterminate' then 'during' end,
       case when s.state = 'indeterminate' then 'ECONNRESET' end, 'route-' || n % 5, 'POST', '/v1/charges/' || n % 100, 'req-' || n, 'gateway-1',
       sha256('\\x000000000011'::bytea || convert_to('onceway:key:1', 'UTF8') || convert_to('key-' || n, 'UTF8')),
       case when s.state = 'completed' then '\\x00'::bytea end, case when s.state = 'completed' then convert_to(repeat('x', 200), 'UTF8') end
  from generate_series($1::bigint, $2::bigint) n,
       lateral (select case when n % 5000 = 1 then 'claimed' when n % 200 = 7 then 'indeterminate' when n % 50 = 3 then 'released' when n % 100 = 9 then 'consumed' else 'completed' end as state,
                       now() - interval '1 day' + (n::float8 / $3::float8 * $4::float8) * interval '1 s' as at) s`

const server = await startPostgres({ below: tmpdir(), settings: { shared_buffers: '1GB', max_wal_size: '4GB', fsync: 'off' } })
try {
  const url = await server.createDatabase('search')
  const options = { url, schema: 'onceway', prepared: true, migrate: 'auto', claimTimeoutMs: 2_000 } as const
  const all = readMigrationFiles('postgres')
  await migratePostgres({ ...options, migrations: all.filter(({ indexes }) => indexes !== true) })
  const client = new Client({ connectionString: url })
  await client.connect()
  for (let from = 1; from <= RECORDS; from += CHUNK) {
    await client.query(FILL, [from, Math.min(RECORDS, from + CHUNK - 1), RECORDS, DAY_SECONDS - 60])
    if (from % 1_000_000 === 1) console.error(`${from - 1} records`)
  }
  await client.query('vacuum (analyze) onceway.records')
  // The keys' hashes must be those that a search makes.
  const probe = RECORDS / 2 + 1
  await client.query('update onceway.records set key_hash = $1 where request_id = $2', [keyHash('the-key'), `req-${probe}`])
  const began = performance.now()
  await migratePostgres(options)
  console.log(`indexes for ${RECORDS} records: ${((performance.now() - began) / 1_000).toFixed(0)} s`)
  const sizes = await client.query<{ name: string, mb: number }>(
    "select c.relname as name, pg_relation_size(c.oid) / 1048576 as mb from pg_class c join pg_index i on i.indexrelid = c.oid where i.indrelid = 'onceway.records'::regclass order by 1"
  )
  console.log(sizes.rows.map(({ name, mb }) => `${name} ${mb} MB`).join(', '))
  await measure(options, client, probe)
  await client.end()
} finally {
  await server.stop()
}

async function measure (options: Parameters<typeof openPostgres>[0], client: Client, probe: number): Promise<void> {
  const store = await openPostgres(options)
  await store.operator.nowMs()
  const { rows: [row] } = await client.query<{ id: Buffer }>(
    'select id from onceway.records where id = sha256(convert_to($1, \'UTF8\'))',
    [`id-${probe}`]
  )
  const hour = { fromMs: Date.now() - 3_600_000 }
  const searches: Readonly<Record<string, Partial<RecordSearch>>> = {
    'no filter': {},
    id: { id: row?.id ?? Buffer.alloc(32) },
    key: { keyHashes: [keyHash('the-key')] },
    'key of none': { keyHashes: [keyHash('no-such-key')] },
    claimed: { state: 'claimed' },
    completed: { state: 'completed' },
    consumed: { state: 'consumed' },
    released: { state: 'released' },
    indeterminate: { state: 'indeterminate' },
    'indeterminate, oldest first': { state: 'indeterminate', order: 'oldest' },
    'indeterminate, one route': { state: 'indeterminate', route: 'route-2' },
    'last hour': hour,
    'last hour, one route and path': { ...hour, route: 'route-2', path: '/v1/charges/7*' },
    'last hour, oldest first': { ...hour, order: 'oldest' },
    'request id': { requestId: `req-${probe}` },
    'request id of none': { requestId: 'none' }
  }
  for (const [name, search] of Object.entries(searches)) {
    const taken: number[] = []
    let page: Page<RecordSummary> | null = null
    for (let round = 0; round < ROUNDS; round++) {
      const began = performance.now()
      page = await store.operator.searchRecords({ order: 'newest', limit: PAGE, after: null, withinMs: WITHIN_MS, ...search })
      taken.push(performance.now() - began)
    }
    console.log(
      `${name.padEnd(32)} ${(taken[0] ?? 0).toFixed(0).padStart(5)} ms, then ${Math.max(...taken.slice(1)).toFixed(0).padStart(5)} ms  ${page?.rows.length ?? 0} rows${page?.isWhole === true ? '' : ', not whole'}`
    )
  }
  await store.close()
}
