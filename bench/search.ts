/**
 * `npm run bench:search -- --records 10000000`: how long operators' searches take in Postgres, with records of a day in a table of that
 * size. Also how long the indexes are built, beside a table that serves. Prints one line for each search: the
 * first time, and the slowest of several more.
 *
 * With `--load --rate 300 --seconds 10`: what searches cost the requests beside them (search-load.ts). Exit code 1 if an answer was wrong.
 */
import { tmpdir } from 'node:os'
import { parseArgs } from 'node:util'
import { Client } from 'pg'
import { keyHash } from '../src/core/record/record-id.ts'
import type { Page, RecordSearch, RecordSummary } from '../src/ports/operator.ts'
import { openPostgres } from '../src/store/postgres/open.ts'
import { filled, fillRecords } from '../test/harness/many-records.ts'
import { positive } from '../test/harness/options.ts'
import { startPostgres } from '../test/harness/postgres.ts'
import { measureSearchLoad } from './search-load.ts'

const { values } = parseArgs({
  options: {
    records: { type: 'string', default: '1000000' },
    rounds: { type: 'string', default: '5' },
    load: { type: 'boolean', default: false },
    rate: { type: 'string', default: '300' },
    seconds: { type: 'string', default: '10' }
  }
})
const RECORDS = positive('records', values.records)
const ROUNDS = positive('rounds', values.rounds)
const WITHIN_MS = 2_000
const PAGE = 50

if (values.load) {
  process.exitCode = await measureSearchLoad({
    records: RECORDS,
    rounds: ROUNDS,
    seconds: positive('seconds', values.seconds),
    rate: positive('rate', values.rate),
    say: (text) => { console.error(text) }
  }) === 0
    ? 0
    : 1
} else {
  await measureSearches()
}

async function measureSearches (): Promise<void> {
  const server = await startPostgres({ below: tmpdir(), settings: { shared_buffers: '1GB', max_wal_size: '4GB', fsync: 'off' } })
  try {
    const url = await server.createDatabase('search')
    const { fillSeconds, indexSeconds } = await fillRecords({
      database: url, records: RECORDS, withUnknown: true, say: (text) => { console.error(text) }
    })
    console.log(`${RECORDS} records: ${fillSeconds.toFixed(0)} s, their indexes: ${indexSeconds.toFixed(0)} s`)
    const client = new Client({ connectionString: url })
    await client.connect()
    const sizes = await client.query<{ name: string, mb: number }>(
      "select c.relname as name, pg_relation_size(c.oid) / 1048576 as mb from pg_class c join pg_index i on i.indexrelid = c.oid where i.indrelid = 'onceway.records'::regclass order by 1"
    )
    console.log(sizes.rows.map(({ name, mb }) => `${name} ${mb} MB`).join(', '))
    await client.end()
    await measure({ url, schema: 'onceway', prepared: true, migrate: 'auto', claimTimeoutMs: 2_000 })
  } finally {
    await server.stop()
  }
}

async function measure (options: Parameters<typeof openPostgres>[0]): Promise<void> {
  const store = await openPostgres(options)
  await store.operator.nowMs()
  const probe = RECORDS / 2 + 1
  const hour = { fromMs: Date.now() - 3_600_000 }
  const searches: Readonly<Record<string, Partial<RecordSearch>>> = {
    'no filter': {},
    id: { id: filled.id(probe) },
    key: { keyHashes: [keyHash(filled.key(probe))] },
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
    'request id': { requestId: filled.requestId(probe) },
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
