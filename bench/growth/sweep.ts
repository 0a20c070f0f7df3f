/**
 * A million records that end in the same second, under a gateway with a steady load: what its requests take before, while
 * the sweeper works them off, and after; how fast it is, what it writes, and what a vacuum leaves.
 */
import { metricsOf, totalOf } from '../../test/e2e/metrics.ts'
import { Client as Connection } from 'pg'
import { Client, measured, OpenLoop } from './load.ts'
import type { Ask, Measured, Numbers } from './load.ts'
import { seed } from './seeder.ts'
import type { Seeded } from './seeder.ts'
import { withGateway } from './servers.ts'
import type { Servers, Stores } from './servers.ts'
import { makeDatabase } from './sizes.ts'
import { Table } from './table.ts'
import type { TableCounts, TableSizes } from './table.ts'
import { keyOf } from './thing.ts'

export interface SweepOptions {
  /** Records that end, and as many that stay. */
  readonly records: number
  readonly rate: number
  /** Of the phases before and after. */
  readonly phaseSeconds: number
  readonly stores: Exclude<Stores, 'embedded'>
  /** A transaction stands open all the while, as a backup's does: nothing that was deleted can be forgotten. */
  readonly besideTransaction: boolean
  readonly say: (text: string) => void
}

/** What its firsts and its replays took, together and apart. */
export interface Phase {
  readonly seconds: number
  readonly all: Measured
  readonly firsts: Measured
  readonly replays: Measured
  readonly walPerSecond: number
}

export interface SweepResult {
  readonly stores: Stores
  readonly besideTransaction: boolean
  readonly records: number
  readonly rate: number
  readonly seeded: Seeded
  readonly before: Phase
  readonly during: Phase
  readonly after: Phase
  readonly sweptPerSecond: number
  /** Over what the requests themselves write. */
  readonly walPerSwept: number
  readonly counts: TableCounts
  readonly sizes: { readonly before: TableSizes, readonly swept: TableSizes, readonly vacuumed: TableSizes }
  readonly vacuum: { readonly seconds: number, readonly walBytes: number }
  readonly wrongCount: number
  readonly wrong: readonly string[]
}

/** A tenth of the requests are replays of what stays: they read from the same table. */
const REPLAY_EVERY = 10
/** What it takes until the load can begin, over what the seeder took for the records that stay: more of the same, a vacuum, a gateway. */
const READY_FACTOR = 2
const READY_LEAST_MS = 8_000
/** A machine that is busy with something else may take longer than that; then all is made anew, with more time for it. */
const TRIES_MAX = 3
/** More than a gateway that keeps up ever has under way. */
const CONNECTIONS = 256
const LOOKS_EVERY_MS = 100
/** Compiling and connecting are over. */
const WARM_UP_SHARE = 0.25

export async function measureSweep (servers: Servers, numbers: Numbers, options: SweepOptions): Promise<SweepResult> {
  for (let tries = 1; ; tries++) {
    const result = await trySweep(servers, numbers, options, 2 ** (tries - 1))
    if (result !== null) return result
    if (tries === TRIES_MAX) throw new Error('the records end before there is anything to compare with: the machine is too busy')
    options.say('the records would have ended too early: once more, with twice the time')
  }
}

/** null: it was not ready in time. */
async function trySweep (servers: Servers, numbers: Numbers, options: SweepOptions, patience: number): Promise<SweepResult | null> {
  const { records, phaseSeconds, stores } = options
  const { database, template } = await makeDatabase(servers, numbers)
  const table = await Table.open(database)
  const transaction = options.besideTransaction ? await openTransaction(database) : null
  try {
    const staying = await seed({ database, from: 0, count: records, expiresAtMs: null, template })
    const warmUpMs = phaseSeconds * 1_000 * WARM_UP_SHARE
    const beginsAtMs = Date.now() + patience * (READY_FACTOR * staying.seconds * 1_000 + READY_LEAST_MS)
    const endsAtMs = beginsAtMs + warmUpMs + phaseSeconds * 1_000
    await seed({ database, from: records, count: records, expiresAtMs: endsAtMs, template })
    await table.settle()
    const before = await table.sizes()
    return await withGateway(servers, { stores, database, limits: 'recentBytes: 0B' }, async (gateway) => {
      if (Date.now() > beginsAtMs) return null
      options.say(`${2 * records} records, half of them end in ${Math.round((endsAtMs - Date.now()) / 1_000)} s`)
      await pause(beginsAtMs - Date.now())
      const run = new SweepRun(gateway.adminUrl, new Client(gateway.url, CONNECTIONS), numbers, table, options)
      const measured = await run.run(warmUpMs, endsAtMs)
      return { ...measured, sizes: { before, ...measured.sizes }, seeded: staying }
    })
  } finally {
    await transaction?.end()
    await table.close()
  }
}

class SweepRun {
  readonly #adminUrl: string
  readonly #client: Client
  readonly #table: Table
  readonly #options: SweepOptions
  readonly #load: OpenLoop

  constructor (adminUrl: string, client: Client, numbers: Numbers, table: Table, options: SweepOptions) {
    this.#adminUrl = adminUrl
    this.#client = client
    this.#table = table
    this.#options = options
    let asked = 0
    this.#load = new OpenLoop(client, options.rate, (): Ask => asked++ % REPLAY_EVERY === REPLAY_EVERY - 1
      ? { key: keyOf('seed', Math.floor(Math.random() * options.records)), expected: 'replayed' }
      : { key: keyOf('made', numbers.take()), expected: 'executed' })
  }

  async run (
    warmUpMs: number,
    endsAtMs: number
  ): Promise<Omit<SweepResult, 'seeded' | 'sizes'> & { readonly sizes: Omit<SweepResult['sizes'], 'before'> }> {
    const { records, rate, stores, besideTransaction, phaseSeconds, say } = this.#options
    this.#load.start()
    try {
      await pause(warmUpMs)
      const before = await this.#phase(async () => { await pause(endsAtMs - Date.now()) })
      // The sweeper comes round every few seconds: until then nothing is different.
      await this.#untilSwept(1)
      const during = await this.#phase(async () => this.#untilSwept(records))
      say(`swept in ${during.seconds.toFixed(1)} s`)
      const after = await this.#phase(async () => { await pause(phaseSeconds * 1_000) })
      await this.#load.stop()
      // Not before: counting what is left reads the whole table.
      const counts = await this.#table.counts()
      const swept = await this.#table.sizes()
      const { sizes: vacuumed, ...vacuum } = await this.#vacuum()
      return {
        stores,
        besideTransaction,
        records,
        rate,
        before,
        during,
        after,
        sweptPerSecond: records / during.seconds,
        walPerSwept: (during.walPerSecond - before.walPerSecond) * during.seconds / records,
        counts,
        sizes: { swept, vacuumed },
        vacuum,
        wrongCount: this.#client.wrongCount,
        wrong: this.#client.wrong
      }
    } finally {
      await this.#load.stop()
      await this.#client.close()
    }
  }

  async #phase (work: () => Promise<void>): Promise<Phase> {
    const fromMs = this.#load.nowMs
    const { walBytes } = await this.#table.walOf(work)
    const toMs = this.#load.nowMs
    // What is under way belongs to this phase too, and has to be waited for.
    await pause(LOOKS_EVERY_MS)
    const samples = this.#load.between(fromMs, toMs)
    const of = (expected: Ask['expected'] | null): Measured =>
      measured(samples.filter((sample) => expected === null || sample.expected === expected).map(({ ms }) => ms), toMs - fromMs)
    return {
      seconds: (toMs - fromMs) / 1_000,
      all: of(null),
      firsts: of('executed'),
      replays: of('replayed'),
      walPerSecond: walBytes / (toMs - fromMs) * 1_000
    }
  }

  async #untilSwept (records: number): Promise<void> {
    while (totalOf(await metricsOf(this.#adminUrl), 'onceway_records_swept_total') < records) await pause(LOOKS_EVERY_MS)
  }

  async #vacuum (): Promise<SweepResult['vacuum'] & { readonly sizes: TableSizes }> {
    const began = performance.now()
    const { walBytes } = await this.#table.walOf(async () => this.#table.rows('vacuum onceway.records'))
    return { seconds: (performance.now() - began) / 1_000, walBytes, sizes: await this.#table.sizes() }
  }
}

async function openTransaction (database: string): Promise<Connection> {
  const client = new Connection({ connectionString: database, application_name: 'a long transaction' })
  await client.connect()
  await client.query('begin isolation level repeatable read')
  await client.query('select 1 from onceway.installation')
  return client
}

async function pause (ms: number): Promise<void> {
  await new Promise<void>((resolve) => { setTimeout(resolve, Math.max(0, ms)) })
}
