/**
 * Days of a table that neither grows nor shrinks: what is claimed and settled goes in at one end, what is oldest is swept
 * at the other, through the store's own statements. It goes by in minutes, in which autovacuum would hardly wake up: so
 * vacuum runs when autovacuum would have, at the table's own thresholds. Compared: storage parameters.
 */
import { randomBytes } from 'node:crypto'
import { encodeHeaders } from '../../src/core/protocol/codec.ts'
import { keyHash, recordId } from '../../src/core/record/record-id.ts'
import { OWNER_BYTES } from '../../src/core/record/record.ts'
import { FIRST_SCHEME } from '../../src/core/record/schemes.ts'
import type { Claim } from '../../src/core/record/record.ts'
import { openPostgres } from '../../src/store/postgres/open.ts'
import type { PostgresRecordStore } from '../../src/store/postgres/open.ts'
import type { Numbers } from './load.ts'
import type { Servers } from './servers.ts'
import { Table } from './table.ts'
import type { TableSizes } from './table.ts'
import { ANSWER_HEADERS, ANSWER_STATUS, answerOf, keyOf, PATH, ROUTE, SCOPE } from './thing.ts'

/** Storage parameters of the records; '' is what the migration made. */
export const PARAMETERS = [
  '',
  'autovacuum_vacuum_scale_factor = 0.2',
  'autovacuum_vacuum_scale_factor = 0.05',
  'autovacuum_vacuum_scale_factor = 0.02',
  'autovacuum_vacuum_scale_factor = 0.05, fillfactor = 80',
  'autovacuum_vacuum_scale_factor = 0.05, fillfactor = 50'
] as const

export interface ChurnOptions {
  /** That the table holds at any moment. */
  readonly records: number
  /** How often all of it is replaced. */
  readonly days: number
  readonly parameters: readonly string[]
  readonly say: (text: string) => void
}

export interface ChurnResult {
  readonly parameters: string
  readonly records: number
  readonly days: number
  readonly perSecond: number
  readonly walPerRecord: number
  /** Of the updates, which are the settles. */
  readonly hotShare: number
  readonly deadMost: number
  readonly vacuums: number
  readonly vacuumSeconds: number
  /** The largest that the table has been, at its end, and written anew. */
  readonly largest: number
  readonly atEnd: TableSizes
  readonly rewritten: TableSizes
  /** Largest over rewritten. */
  readonly bloat: number
}

/** Claimed together, then settled together, as many as a busy gateway has under way. */
const TOGETHER = 256
/** As the sweeper does it. */
const SWEEP_BATCH = 500
const HOUR_MS = 3_600_000

/** The sweeper's statement without its clock: what is oldest is over. */
const SWEEP_OLDEST = `with gone as materialized (
  select id from onceway.records where expires_at is not null order by expires_at limit $1 for update skip locked
)
delete from onceway.records r using gone g where r.id = g.id`

export async function measureChurn (servers: Servers, numbers: Numbers, options: ChurnOptions): Promise<ChurnResult[]> {
  const results: ChurnResult[] = []
  for (const parameters of options.parameters) {
    const result = await churn(servers, numbers, options, parameters)
    options.say(`churn (${parameters === '' ? 'as migrated' : parameters}): bloat ${result.bloat.toFixed(2)}, ${result.vacuums} vacuums, ${Math.round(result.perSecond)} records a second`)
    results.push(result)
  }
  return results
}

async function churn (servers: Servers, numbers: Numbers, { records, days }: ChurnOptions, parameters: string): Promise<ChurnResult> {
  const database = await servers.postgres.createDatabase('churn')
  const store = await openPostgres({ url: database, schema: 'onceway', prepared: true, migrate: 'auto', claimTimeoutMs: 10_000 })
  const table = await Table.open(database)
  try {
    if (parameters !== '') await table.rows(`alter table onceway.records set (${parameters})`)
    const vacuums = new Vacuums(table)
    await vacuums.start()
    await fill(store, numbers, records)
    await table.settle()
    const began = performance.now()
    const { walBytes } = await table.walOf(async () => turnOver(store, table, numbers, records * days, vacuums))
    const seconds = (performance.now() - began) / 1_000
    return {
      parameters,
      records,
      days,
      perSecond: records * days / seconds,
      walPerRecord: walBytes / (records * days),
      ...await vacuums.judged()
    }
  } finally {
    await store.close()
    await table.close()
  }
}

async function fill (store: PostgresRecordStore, numbers: Numbers, count: number): Promise<void> {
  for (let made = 0; made < count; made += TOGETHER) await makeTogether(store, numbers, Math.min(TOGETHER, count - made))
}

async function turnOver (store: PostgresRecordStore, table: Table, numbers: Numbers, count: number, vacuums: Vacuums): Promise<void> {
  let [made, swept] = [0, 0]
  while (made < count) {
    const together = Math.min(TOGETHER, count - made)
    await makeTogether(store, numbers, together)
    made += together
    const before = swept
    for (; made - swept >= SWEEP_BATCH; swept += SWEEP_BATCH) await table.client.query(SWEEP_OLDEST, [SWEEP_BATCH])
    await vacuums.note(together, swept - before)
  }
}

async function makeTogether (store: PostgresRecordStore, numbers: Numbers, count: number): Promise<void> {
  await Promise.all(Array.from({ length: count }, async () => make(store, keyOf('made', numbers.take()))))
}

async function make (store: PostgresRecordStore, key: string): Promise<void> {
  const claim = claimOf(key)
  const won = await store.insert(claim)
  if (won.kind !== 'won') throw new Error(`${key} was there before`)
  const settled = await store.settle({
    token: { id: claim.id, owner: claim.owner, attempt: won.attempt },
    outcome: 'completed',
    keepMs: 24 * HOUR_MS,
    status: ANSWER_STATUS,
    headers: HEADERS,
    body: Buffer.from(answerOf(key)),
    reason: null
  })
  if (settled.kind !== 'settled') throw new Error(`${key} could not be settled`)
}

const HEADERS = encodeHeaders(Object.entries(ANSWER_HEADERS).flat())

function claimOf (key: string): Claim {
  return {
    id: recordId(ROUTE, SCOPE, key),
    scheme: FIRST_SCHEME,
    earlierId: null,
    owner: randomBytes(OWNER_BYTES),
    fingerprint: { alg: 1, value: randomBytes(32) },
    leaseMs: 15_000,
    unknownKeepMs: 30 * 24 * HOUR_MS,
    quarantineMs: 315_000,
    question: null,
    about: {
      route: ROUTE,
      method: 'POST',
      path: PATH,
      requestId: '01234567-89ab-cdef-0123-456789abcdef',
      instance: 'gateway-of-the-churn',
      keyHash: keyHash(key),
      keyText: null
    }
  }
}

/** Autovacuum's rule without its naps: threshold + scale factor × rows, of dead rows and of inserted ones. */
class Vacuums {
  readonly #table: Table
  #rule: Rule | null = null
  #count = 0
  #seconds = 0
  #deadMost = 0
  #largest = 0
  /** Since the last vacuum. Counted here: the statistics come up to a second late, in which a tenth of a day may go by. */
  #inserted = 0
  #dead = 0

  constructor (table: Table) { this.#table = table }

  /** It must not help. */
  async start (): Promise<void> { await this.#table.rows('alter table onceway.records set (autovacuum_enabled = false)') }

  /** A settle leaves a version of the row behind, a sweep the row. */
  async note (settled: number, swept: number): Promise<void> {
    this.#inserted += settled
    this.#dead += settled + swept
    this.#deadMost = Math.max(this.#deadMost, this.#dead)
    this.#rule ??= await this.#table.one<Rule>(RULE)
    if (this.#dead > this.#rule.dead || this.#inserted > this.#rule.inserted) await this.#vacuum()
  }

  async judged (): Promise<Pick<
    ChurnResult,
    'hotShare' | 'deadMost' | 'vacuums' | 'vacuumSeconds' | 'largest' | 'atEnd' | 'rewritten' | 'bloat'
  >> {
    const atEnd = await this.#table.sizes()
    const { updates, hotUpdates } = await this.#table.counts()
    const largest = Math.max(this.#largest, atEnd.total)
    await this.#table.rows('vacuum full onceway.records')
    const rewritten = await this.#table.sizes()
    return {
      hotShare: hotUpdates / updates,
      deadMost: this.#deadMost,
      vacuums: this.#count,
      vacuumSeconds: this.#seconds,
      largest,
      atEnd,
      rewritten,
      bloat: largest / rewritten.total
    }
  }

  /** A table never shrinks by itself, so it is at its largest just before one. */
  async #vacuum (): Promise<void> {
    const { bytes } = await this.#table.one<{ bytes: string }>("select pg_total_relation_size('onceway.records') as bytes")
    this.#largest = Math.max(this.#largest, Number(bytes))
    const began = performance.now()
    await this.#table.rows('vacuum (analyze) onceway.records')
    this.#seconds += (performance.now() - began) / 1_000
    this.#count++
    this.#inserted = this.#dead = 0
    this.#rule = null
  }
}

/** How many make a vacuum due. */
interface Rule { readonly dead: number, readonly inserted: number }

const setting = (name: string): string =>
  `coalesce((select option_value::float8 from pg_options_to_table(c.reloptions) where option_name = '${name}'), current_setting('${name}')::float8)`

const RULE = `select ${setting('autovacuum_vacuum_threshold')} + ${setting('autovacuum_vacuum_scale_factor')} * greatest(c.reltuples, 0) as dead,
       ${setting('autovacuum_vacuum_insert_threshold')} + ${setting('autovacuum_vacuum_insert_scale_factor')} * greatest(c.reltuples, 0) as inserted
  from pg_class c where c.oid = 'onceway.records'::regclass`
