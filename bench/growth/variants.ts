/**
 * Other shapes of the table, as SQL alone: how wide the id is, one table or a narrow one of claims beside answers that are
 * partitioned by the day they expire on, and a table whose settle touches no index. Each shape claims and settles in
 * batches by compare-and-set, as the store does; what is simplified is simplified alike.
 */
import { createHash } from 'node:crypto'
import { Client } from 'pg'
import { byteas, texts } from '../../src/store/postgres/arrays.ts'
import { percentile } from './load.ts'
import type { Servers } from './servers.ts'
import { ANSWER_HEADERS, answerOf, keyOf } from './thing.ts'

export interface VariantsOptions {
  readonly records: number
  readonly say: (text: string) => void
}

export interface ShapeResult {
  readonly shape: string
  readonly records: number
  readonly claimP50Ms: number
  readonly settleP50Ms: number
  readonly pairsPerSecond: number
  readonly walPerRecord: number
  readonly bytesPerRecord: number
  readonly hotShare: number
  /** Removing all of them again, with the vacuum that gives the room back. */
  readonly purgeSeconds: number
  readonly purgeWalPerRecord: number
}

export interface IdResult {
  readonly type: string
  readonly records: number
  readonly indexPerRecord: number
  readonly heapPerRecord: number
}

export interface VariantsResult { readonly shapes: readonly ShapeResult[], readonly ids: readonly IdResult[] }

interface Shape {
  readonly name: string
  readonly create: string
  /** $1 ids, $2 owners, $3 abouts. */
  readonly claim: string
  /** $1 ids, $2 owners, $3 header lists, $4 bodies, $5 the expiry of the batch. */
  readonly settle: string
  readonly purge: readonly string[]
}

/** What the store's table has beside id, answer and times; one text stands for the descriptive columns. */
const COMMON = 'id bytea not null primary key, state text not null, owner bytea not null, attempt integer not null, lease_until timestamptz, expires_at timestamptz'
const WANT = 'unnest($1::bytea[], $2::bytea[], $3::text[]) as w (id, owner, about)'
const ANSWERS = 'unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[]) as w (id, owner, headers, body)'

const claimInto = (table: string): string => `insert into ${table} (id, state, owner, attempt, lease_until, about)
select w.id, 'claimed', w.owner, 1, clock_timestamp() + interval '15 s', w.about from ${WANT} order by w.id
on conflict (id) do nothing returning id`

const settleIn = (table: string): string => `with want as materialized (select * from ${ANSWERS}), held as materialized (
  select r.id from ${table} r join want w on w.id = r.id where r.owner = w.owner and r.attempt = 1 and r.state = 'claimed' order by r.id for no key update of r
)
update ${table} r set state = 'completed', lease_until = null, expires_at = $5, headers = w.headers, body = w.body
  from want w, held h where r.id = h.id and w.id = h.id returning r.id`

const oneTable = (name: string, more: string, indexes: string): Shape => ({
  name,
  create: `create table one (${COMMON}, about text, headers bytea, body bytea) ${more}; ${indexes}`,
  claim: claimInto('one'),
  settle: settleIn('one'),
  purge: ['delete from one where expires_at <= now() + interval \'2 days\'', 'vacuum one']
})

const LEASE_AND_EXPIRY = 'create index one_lease on one (lease_until) where state = \'claimed\'; create index one_expiry on one (expires_at) where expires_at is not null'

/** The claim's row stays as long as the answer: it is the check that the key is not executed twice. */
const TWO_TABLES: Shape = {
  name: 'narrow claims, answers in partitions by the day of their expiry',
  create: `create table claims (${COMMON}) with (fillfactor = 80);
create index claims_lease on claims (lease_until) where state = 'claimed';
create table answers (id bytea not null, expires_at timestamptz not null, about text, headers bytea, body bytea) partition by range (expires_at);
create table answers_today partition of answers for values from (now()) to (now() + interval '2 days');
create index answers_id on answers (id)`,
  claim: `insert into claims (id, state, owner, attempt, lease_until)
select w.id, 'claimed', w.owner, 1, clock_timestamp() + interval '15 s' from ${WANT} where w.about is not null order by w.id
on conflict (id) do nothing returning id`,
  settle: `with want as materialized (select * from ${ANSWERS}), held as materialized (
  select r.id from claims r join want w on w.id = r.id where r.owner = w.owner and r.attempt = 1 and r.state = 'claimed' order by r.id for no key update of r
), kept as (
  insert into answers (id, expires_at, about, headers, body) select w.id, $5, 'POST /v1/things', w.headers, w.body from want w join held h on h.id = w.id returning id
)
update claims r set state = 'completed', lease_until = null, expires_at = $5 from held h where r.id = h.id returning r.id`,
  purge: ['drop table answers_today', 'delete from claims where expires_at <= now() + interval \'2 days\'', 'vacuum claims']
}

const SHAPES: readonly Shape[] = [
  oneTable('one table, as the migration has it', '', LEASE_AND_EXPIRY),
  oneTable('one table, fillfactor 50', 'with (fillfactor = 50)', LEASE_AND_EXPIRY),
  // Cannot find what is over: only to see what the indexes cost and what HOT would give.
  oneTable('one table without indexes on lease and expiry, fillfactor 50', 'with (fillfactor = 50)', ''),
  TWO_TABLES
]

/** What one batch of a busy gateway holds. */
const BATCH = 32
const DAY_MS = 86_400_000
const ABOUT = 'bench POST /v1/things 01234567-89ab-cdef-0123-456789abcdef gateway-0 4f0c'

export async function measureVariants (servers: Servers, { records, say }: VariantsOptions): Promise<VariantsResult> {
  const shapes: ShapeResult[] = []
  for (const shape of SHAPES) {
    const result = await withDatabase(servers, async (client) => measureShape(client, shape, records))
    say(`${shape.name}: ${Math.round(result.pairsPerSecond)} pairs a second, ${Math.round(result.bytesPerRecord)} bytes a record`)
    shapes.push(result)
  }
  const ids = await withDatabase(servers, async (client) => measureIds(client, records))
  return { shapes, ids }
}

async function withDatabase<Result> (servers: Servers, work: (client: Client) => Promise<Result>): Promise<Result> {
  const client = new Client({ connectionString: await servers.postgres.createDatabase('variant'), application_name: 'the variants' })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

async function measureShape (client: Client, shape: Shape, records: number): Promise<ShapeResult> {
  // The plan of a large table from the first batch on: a named statement that was planned for an empty one reads all of it for ever.
  await client.query('set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off')
  await client.query(shape.create)
  await client.query('checkpoint')
  const [claims, settles]: [number[], number[]] = [[], []]
  const expiresAt = new Date(Date.now() + DAY_MS)
  const [began, walBefore] = [performance.now(), await walBytes(client)]
  for (let made = 0; made < records; made += BATCH) {
    const keys = Array.from({ length: Math.min(BATCH, records - made) }, (_, index) => keyOf('made', made + index))
    const { ids, owners } = tokensOf(keys)
    await timed(claims, client, shape, 'claim', [byteas(ids), byteas(owners), texts(keys.map(() => ABOUT))], keys.length)
    await timed(
      settles,
      client,
      shape,
      'settle',
      [byteas(ids), byteas(owners), byteas(keys.map(() => HEADERS)), byteas(keys.map((key) => Buffer.from(answerOf(key)))), expiresAt],
      keys.length
    )
  }
  const seconds = (performance.now() - began) / 1_000
  const wal = await walBytes(client) - walBefore
  const bytes = await databaseBytes(client)
  return {
    shape: shape.name,
    records,
    claimP50Ms: percentile(claims.toSorted((a, b) => a - b), 0.5),
    settleP50Ms: percentile(settles.toSorted((a, b) => a - b), 0.5),
    pairsPerSecond: records / seconds,
    walPerRecord: wal / records,
    bytesPerRecord: bytes / records,
    hotShare: await hotShare(client),
    ...await purged(client, shape, records)
  }
}

const HEADERS = Buffer.from(Object.entries(ANSWER_HEADERS).flat().join('\0'))

/** Sorted by id, as a lane sorts its batches. */
function tokensOf (keys: readonly string[]): { readonly ids: Buffer[], readonly owners: Buffer[] } {
  const ids = keys.map((key) => createHash('sha256').update(key).digest()).sort(Buffer.compare)
  return { ids, owners: ids.map((id) => id.subarray(0, 16)) }
}

async function timed (
  times: number[],
  client: Client,
  shape: Shape,
  step: 'claim' | 'settle',
  values: unknown[],
  wanted: number
): Promise<void> {
  const began = performance.now()
  const { rowCount } = await client.query({ name: step, text: shape[step], values })
  times.push(performance.now() - began)
  if (rowCount !== wanted) throw new Error(`${shape.name}: ${step} of ${wanted} wrote ${rowCount}`)
}

async function purged (client: Client, shape: Shape, records: number): Promise<Pick<ShapeResult, 'purgeSeconds' | 'purgeWalPerRecord'>> {
  await client.query('checkpoint')
  const [began, walBefore] = [performance.now(), await walBytes(client)]
  for (const statement of shape.purge) await client.query(statement)
  return { purgeSeconds: (performance.now() - began) / 1_000, purgeWalPerRecord: (await walBytes(client) - walBefore) / records }
}

const ID_TYPES: ReadonlyArray<{ readonly type: string, readonly value: string }> = [
  { type: 'bytea, all 32 bytes', value: 'sha256(int8send(n))' },
  { type: 'bytea, 16 of them', value: 'substring(sha256(int8send(n)) for 16)' },
  { type: 'uuid', value: "encode(substring(sha256(int8send(n)) for 16), 'hex')::uuid" }
]

/** Inserted in their own order, which is random to the index, as claims are. */
async function measureIds (client: Client, records: number): Promise<IdResult[]> {
  const results: IdResult[] = []
  for (const { type, value } of ID_TYPES) {
    await client.query(`create table ids (id ${type.startsWith('uuid') ? 'uuid' : 'bytea'} not null primary key)`)
    await client.query(`insert into ids select ${value} from generate_series(1, $1::bigint) n`, [records])
    const { rows: [size] } = await client.query<{ index: string, heap: string }>(
      'select pg_relation_size(\'ids_pkey\') as index, pg_relation_size(\'ids\') as heap'
    )
    results.push({ type, records, indexPerRecord: Number(size?.index) / records, heapPerRecord: Number(size?.heap) / records })
    await client.query('drop table ids')
  }
  return results
}

async function walBytes (client: Client): Promise<number> {
  const { rows: [row] } = await client.query<{ bytes: string }>("select pg_current_wal_insert_lsn() - '0/0' as bytes")
  return Number(row?.bytes)
}

async function databaseBytes (client: Client): Promise<number> {
  const { rows: [row] } = await client.query<{ bytes: string }>(
    "select sum(pg_total_relation_size(oid)) as bytes from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'"
  )
  return Number(row?.bytes)
}

async function hotShare (client: Client): Promise<number> {
  await client.query(`select ${await canFlush(client) ? 'pg_stat_force_next_flush()' : 'pg_sleep(2)'}`)
  const { rows: [row] } = await client.query<{ share: number | null }>(
    'select sum(n_tup_hot_upd)::float8 / nullif(sum(n_tup_upd), 0) as share from pg_stat_user_tables'
  )
  return row?.share ?? 0
}

/** Before Postgres 15 the statistics come within a second or so, by themselves. */
async function canFlush (client: Client): Promise<boolean> {
  const { rows: [row] } = await client.query<{ can: boolean }>("select current_setting('server_version_num')::int >= 150000 as can")
  return row?.can === true
}
