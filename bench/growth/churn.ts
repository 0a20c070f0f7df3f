/**
 * Days of a table that neither grows nor shrinks: what is claimed and settled goes in at one end, what is oldest is swept
 * at the other, through the store's own statements. It goes by in minutes, in which autovacuum would hardly wake up: so
 * vacuum runs when autovacuum would have, at the table's own thresholds. Compared: storage parameters.
 */
import { openPostgres } from '../../src/store/postgres/open.ts'
import { fill, turnOver } from './cycles.ts'
import type { Numbers } from './load.ts'
import type { Servers } from './servers.ts'
import { Table } from './table.ts'
import type { TableSizes } from './table.ts'
import { keyOf } from './thing.ts'

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
    const nextKey = (): string => keyOf('made', numbers.take())
    await vacuums.start()
    await fill(store, nextKey, records)
    await table.settle()
    const began = performance.now()
    const { walBytes } = await table.walOf(async () => turnOver({
      store, table, nextKey, count: records * days, note: async (settled, swept) => vacuums.note(settled, swept)
    }))
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
