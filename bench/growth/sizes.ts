/**
 * The table at several sizes: first requests and replays through a gateway process, what the stores' operations took,
 * bytes per record and WAL per request. Every size is a database of its own, so that one round measures all of them
 * within minutes and what the machine does meanwhile meets them alike.
 */
import type { GatewayProcess } from '../../test/soak/gateway-process.ts'
import { openPostgres } from '../../src/store/postgres/open.ts'
import { age, EDGE } from './cycles.ts'
import type { Aged } from './cycles.ts'
import { storeTimes } from './histograms.ts'
import type { Operation, OperationTimes } from './histograms.ts'
import { Client, closedLoop } from './load.ts'
import type { Ask, Measured, Numbers } from './load.ts'
import { seed } from './seeder.ts'
import type { Seeded } from './seeder.ts'
import { withGateway } from './servers.ts'
import type { Servers, Stores } from './servers.ts'
import { Table } from './table.ts'
import type { TableSizes } from './table.ts'
import { keyOf } from './thing.ts'

export interface SizesOptions {
  /** Ascending; the first is what the others are compared with. */
  readonly records: readonly number[]
  /** How often all records of a table are replaced, by claim, settle and sweep, before it is measured. */
  readonly turnovers: number
  readonly rounds: number
  /** Of one cell. */
  readonly seconds: number
  readonly stores: ReadonlyArray<Exclude<Stores, 'embedded'>>
  readonly concurrencies: readonly number[]
  readonly say: (text: string) => void
}

export type Work = 'first' | 'first after a checkpoint' | 'replay'

export interface Cell {
  readonly records: number
  readonly stores: Stores
  readonly round: number
  readonly work: Work
  readonly concurrency: number
  readonly measured: Measured
  readonly walPerRequest: number
  readonly operations: Partial<Record<Operation, OperationTimes>>
}

export interface SeededTable {
  readonly records: number
  readonly seeded: Seeded
  readonly walPerRecord: number
  /** null: as it was seeded. */
  readonly aged: Aged | null
  readonly sizes: TableSizes
  /** Of the keys that are there: the first, and how many. */
  readonly keys: { readonly from: number, readonly count: number }
}

export interface SizesResult {
  readonly tables: readonly SeededTable[]
  readonly cells: readonly Cell[]
  readonly wrongCount: number
  readonly wrong: readonly string[]
}

/** What an "empty" table holds all the same: replays need something to replay. */
export const REPLAYS_OF_NONE = 10_000
/** Of a cell's length: code is compiled, connections and prepared statements are made. */
const WARM_UP_SHARE = 0.4

export async function measureSizes (servers: Servers, numbers: Numbers, options: SizesOptions): Promise<SizesResult> {
  const result = { tables: [] as SeededTable[], cells: [] as Cell[], wrongCount: 0, wrong: [] as string[] }
  const made = new Map<number, MadeTable>()
  for (const records of options.records) {
    const one = await makeTable(servers, numbers, records, options)
    made.set(records, one)
    result.tables.push(one.table)
    const { seeded, sizes } = one.table
    options.say(`${records} records: ${Math.round(seeded.perSecond)} a second, ${Math.round(sizes.total / sizes.records)} bytes each`)
  }
  for (let round = 1; round <= options.rounds; round++) {
    for (const stores of options.stores) {
      for (const records of options.records) {
        // What one round has added to an empty table is not nothing to the next.
        if (records === 0 && round > 1) made.set(0, await makeTable(servers, numbers, 0, options))
        const { database, table: { keys } } = made.get(records) as MadeTable
        const measured = await measureTable(servers, numbers, options, { records, stores, round, database, keys })
        result.cells.push(...measured.cells)
        result.wrongCount += measured.client.wrongCount
        result.wrong.push(...measured.client.wrong)
      }
    }
    options.say(`round ${round} of ${options.rounds}: ${result.wrongCount} wrong`)
  }
  return result
}

/** A migrated database with one record of a gateway's own, which the seeder copies. */
export async function makeDatabase (servers: Servers, numbers: Numbers): Promise<{ readonly database: string, readonly template: string }> {
  const database = await servers.postgres.createDatabase('growth')
  const template = keyOf('made', numbers.take())
  await withGateway(servers, { stores: 'postgres', database }, async ({ url }) => {
    const client = new Client(url, 1)
    await client.ask({ key: template, expected: 'executed' })
    await client.close()
    if (client.wrongCount > 0) throw new Error(`the first record was not made: ${client.wrong.join()}`)
  })
  return { database, template }
}

interface MadeTable { readonly database: string, readonly table: SeededTable }

async function makeTable (servers: Servers, numbers: Numbers, records: number, { turnovers, say }: SizesOptions): Promise<MadeTable> {
  const { database, template } = await makeDatabase(servers, numbers)
  const count = records === 0 ? REPLAYS_OF_NONE : records
  const table = await Table.open(database)
  try {
    const { result: seeded, walBytes } = await table.walOf(async () => seed({ database, from: 0, count, expiresAtMs: null, template }))
    await table.settle()
    const cycles = records * turnovers
    const aged = cycles === 0 ? null : await ageTable(database, table, { cycles, template, from: count })
    if (aged !== null) say(`${records} records: ${cycles} cycles, ${Math.round(cycles / aged.seconds)} a second, autovacuum ${aged.autovacuums} times`)
    await table.checkpoint()
    const keys = aged === null ? { from: 0, count } : { from: cycles + EDGE, count: count - EDGE }
    return { database, table: { records, seeded, walPerRecord: walBytes / count, aged, sizes: await table.sizes(), keys } }
  } finally {
    await table.close()
  }
}

interface Ageing { readonly cycles: number, readonly template: string, readonly from: number }

async function ageTable (database: string, table: Table, { cycles, template, from }: Ageing): Promise<Aged> {
  const store = await openPostgres({ url: database, schema: 'onceway', prepared: true, migrate: 'check', claimTimeoutMs: 10_000 })
  let next = from
  try {
    return await age(store, table, { cycles, template, nextKey: () => keyOf('seed', next++) })
  } finally {
    await store.close()
  }
}

interface Place {
  readonly records: number
  readonly stores: Stores
  readonly round: number
  readonly database: string
  readonly keys: SeededTable['keys']
}

async function measureTable (
  servers: Servers,
  numbers: Numbers,
  options: SizesOptions,
  place: Place
): Promise<{ readonly cells: readonly Cell[], readonly client: Client }> {
  const { stores, database, keys } = place
  const table = await Table.open(database)
  try {
    // No copies: what is measured is the way to the table, however few keys there are to replay.
    return await withGateway(servers, { stores, database, limits: 'recentBytes: 0B', copies: '0B' }, async (gateway) => {
      const client = new Client(gateway.url, Math.max(...options.concurrencies))
      const first = (): Ask => ({ key: keyOf('made', numbers.take()), expected: 'executed' })
      const replay = (): Ask => ({ key: keyOf('seed', keys.from + Math.floor(Math.random() * keys.count)), expected: 'replayed' })
      const asks: Record<Work, () => Ask> = { first, replay, 'first after a checkpoint': first }
      const at = { table, gateway, client, seconds: options.seconds, place }
      await warmUp(at, Math.max(...options.concurrencies), [first, replay])
      const cells: Cell[] = []
      for (const { work, concurrency } of order(options.concurrencies)) cells.push(await measureCell(at, work, concurrency, asks[work]))
      await client.close()
      return { cells, client }
    })
  } finally {
    await table.close()
  }
}

/**
 * Right after a checkpoint every page that is touched goes whole into the WAL, so that comes first, and what follows is
 * what is ordinary between two checkpoints.
 */
function order (concurrencies: readonly number[]): ReadonlyArray<{ readonly work: Work, readonly concurrency: number }> {
  const most = Math.max(...concurrencies)
  return [
    { work: 'first after a checkpoint', concurrency: most },
    ...concurrencies.toReversed().map((concurrency) => ({ work: 'first' as const, concurrency })),
    ...concurrencies.toReversed().map((concurrency) => ({ work: 'replay' as const, concurrency }))
  ]
}

interface At {
  readonly table: Table
  readonly gateway: GatewayProcess
  readonly client: Client
  readonly seconds: number
  readonly place: Place
}

async function warmUp ({ client, seconds }: At, concurrency: number, asks: ReadonlyArray<() => Ask>): Promise<void> {
  for (const next of asks) await closedLoop(client, concurrency, seconds * WARM_UP_SHARE * 1_000, next)
}

async function measureCell (
  { table, gateway, client, seconds, place }: At,
  work: Work,
  concurrency: number,
  next: () => Ask
): Promise<Cell> {
  if (work === 'first after a checkpoint') await table.checkpoint()
  const { result: { result: measured, walBytes }, times: operations } = await storeTimes(gateway.adminUrl, async () =>
    table.walOf(async () => closedLoop(client, concurrency, seconds * 1_000, next)))
  const { records, stores, round } = place
  return { records, stores, round, work, concurrency, measured, walPerRequest: walBytes / measured.requests, operations }
}
