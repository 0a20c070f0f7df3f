/**
 * `npm run bench:scaling`: what a number of guarded requests per second takes, from the figures of kept results and from
 * assumptions that are all named here. Prints the tables of the pages that PAGES names; `-- --write` puts them there.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { CLAIM_CONNECTIONS } from '../src/store/postgres/claim-batches.ts'
import { SETTLE_CONNECTIONS } from '../src/store/postgres/settle-batches.ts'
import type { GrowthResult } from './growth/run.ts'
import type { Cell } from './growth/sizes.ts'
import type { BenchResult } from './report.ts'
import type { Case } from './results.ts'

/**
 * The kept results that everything here is computed from. A newer run is taken up by its name here and `--write`. Sizes and the log of
 * the database are of the last growth run that swept.
 */
export const RESULTS = 'bench/results/2026-11-26.json'
export const GROWTH = 'bench/results/2026-11-21-growth.json'
export const MEASUREMENTS = 'docs/internals/scaling-measurements.md'
export const PAGES = ['docs/guides/scale.md', MEASUREMENTS] as const

/** The load that costs are taken at: batches of about seven, which is what a busy process makes. */
const CONCURRENCY = 32
/** Renewals and signs of life have one connection each, everything else three (src/store/postgres/open.ts). */
export const CONNECTIONS_PER_PROCESS = CLAIM_CONNECTIONS + SETTLE_CONNECTIONS + 1 + 1 + 3
/** What Redis 7.0.15 takes for a key with its value and its place in the tables (test/store/redis/scaling.test.ts). */
export const REDIS_LOCK_BYTES = 290
export const REDIS_COPY_BYTES = 850

const PAGE_BYTES = 8_192
const DAY = 86_400
const RATES = [1_000, 10_000, 100_000, 1_000_000]
const RETENTIONS = [{ name: '24 h', seconds: DAY }, { name: '7 d', seconds: 7 * DAY }]
const SHARDS = [1, 2, 4, 8, 16, 64]

/** Nobody has measured these here. docs/internals/scaling-measurements.md names every one of them. */
export const ASSUMED = {
  /** Of a core: above it a process with bursts queues. */
  gatewayBusy: 0.6,
  coresPerGateway: 8,
  gatewaysMin: 2,
  /** Of its one thread. */
  redisBusy: 0.6,
  copiesSeconds: 600,
  /** Request and answer, in from the client and out to the upstream, with headers; not TLS. */
  wireBytes: 4_000,
  /** To and from Postgres and Redis. */
  storeBytes: 3_000,
  primary: {
    cores: 32,
    /** The other half is for the sweep, vacuum, checkpoints and the replicas' senders. */
    busy: 0.5,
    /** Half of 256 GiB: the primary key is read and written at random places, so it is to be in memory. */
    indexBytes: 128 * 2 ** 30,
    /** Dead versions and free space between two vacuums. */
    bloat: 1.3,
    diskBytes: 8e12,
    walPerSecond: 200e6,
    commitsPerSecond: 10_000,
    checkpointSeconds: 900,
    connections: 1_000
  },
  /** Memory of a process is 290 MiB in the results, and up to 64 MiB of bodies and 32 MiB of answers. The rest is for bursts. */
  pod: { vCpus: 1, gib: 1 },
  redisPod: { vCpus: 1, gib: 4 },
  /** The least that a primary and its standby are worth starting with. */
  primaryMin: { vCpus: 2, gib: 8 },
  /** Of one month, in one currency. Nobody's price list: put your own here. */
  price: { vCpu: 25, gib: 3, tb: 100 }
} as const

/** Per first request, unless it says otherwise. */
export interface Costs {
  readonly gatewayMicros: number
  readonly postgresMicros: number
  readonly redisMicros: number
  /** The same at one connection: every statement alone. */
  readonly postgresAloneMicros: number
  readonly commits: number
  /** Without page images: the rows, their index entries, the commits. */
  readonly walBytes: number
  readonly sweptWalBytes: number
  readonly recordBytes: number
  readonly keyIndexBytes: number
}

export function costsOf (bench: BenchResult, growth: GrowthResult): Costs {
  const busy = caseOf(bench, CONCURRENCY).absolute
  const alone = caseOf(bench, 1).absolute
  const largest = present(growth.sizes?.tables.at(-1), 'a table of a size').sizes
  const cells = present(growth.sizes, 'sizes').cells.filter((cell) =>
    cell.work === 'first' && cell.stores === 'redis and postgres' && cell.concurrency === CONCURRENCY)
  return {
    gatewayMicros: busy.cpuMicros,
    postgresMicros: present(busy.postgresCpuMicros, 'the CPU of Postgres'),
    redisMicros: present(busy.redisCpuMicros, 'the CPU of Redis'),
    postgresAloneMicros: present(alone.postgresCpuMicros, 'the CPU of Postgres at one connection'),
    commits: mean(cells.map(commitsOf)),
    walBytes: mean(cells.filter(({ records }) => records === 0).map(({ walPerRequest }) => walPerRequest)),
    sweptWalBytes: present(growth.sweeps.find(({ besideTransaction }) => !besideTransaction), 'a sweep').walPerSwept,
    recordBytes: largest.total / largest.records,
    keyIndexBytes: present(largest.indexes.records_pkey, 'the primary key\'s size') / largest.records
  }
}

function caseOf (bench: BenchResult, concurrency: number): Case {
  return present(
    bench.cases.find((each) => each.contestant === 'onceway' && each.work === 'first' && each.concurrency === concurrency),
    `onceway, first requests at ${concurrency} connections`
  )
}

/** A claim and a settle, each a share of its batch's commit. */
function commitsOf ({ measured, operations }: Cell): number {
  const batches = (operations.claim_insert?.count ?? Number.NaN) + (operations.settle?.count ?? Number.NaN)
  return batches / measured.requests
}

/**
 * Ids are random, so every claim dirties another page of the primary key, and the first time after a checkpoint the whole
 * page goes into the log. `requests` since the checkpoint, on a table of `records`: how many bytes of images each pays for.
 */
export function pageImageBytes (costs: Costs, records: number, requests: number): number {
  const pages = records * costs.keyIndexBytes / PAGE_BYTES
  if (pages === 0 || requests === 0) return 0
  const touched = pages * -Math.expm1(-requests / pages)
  return touched / requests * PAGE_BYTES
}

export interface PrimaryLoad {
  readonly records: number
  readonly keyIndexBytes: number
  readonly diskBytes: number
  readonly walPerRequest: number
  readonly walPerSecond: number
  readonly processes: number
  readonly connections: number
  /** Of every bound, how much is used; 1: all. */
  readonly used: Readonly<Record<Bound, number>>
}

export type Bound = 'CPU' | 'index in memory' | 'disk' | 'WAL' | 'commits' | 'connections'

/** One primary with `rate` first requests a second, each kept for `retentionSeconds`, and the gateways that belong to it. */
export function primaryLoad (costs: Costs, rate: number, retentionSeconds: number): PrimaryLoad {
  const { primary } = ASSUMED
  const records = rate * retentionSeconds
  const keyIndexBytes = records * costs.keyIndexBytes
  const diskBytes = records * costs.recordBytes * primary.bloat
  const walPerRequest = costs.walBytes + costs.sweptWalBytes + pageImageBytes(costs, records, rate * primary.checkpointSeconds)
  const processes = processesFor(costs, rate)
  const connections = processes * CONNECTIONS_PER_PROCESS
  return {
    records,
    keyIndexBytes,
    diskBytes,
    walPerRequest,
    walPerSecond: walPerRequest * rate,
    processes,
    connections,
    used: {
      CPU: rate * costs.postgresMicros / 1e6 / (primary.cores * primary.busy),
      'index in memory': keyIndexBytes / primary.indexBytes,
      disk: diskBytes / primary.diskBytes,
      WAL: walPerRequest * rate / primary.walPerSecond,
      commits: rate * costs.commits / primary.commitsPerSecond,
      connections: connections / primary.connections
    }
  }
}

export function processesFor (costs: Costs, rate: number): number {
  return Math.max(ASSUMED.gatewaysMin, Math.ceil(rate * costs.gatewayMicros / 1e6 / ASSUMED.gatewayBusy))
}

/** What is used most: where this primary ends. */
export function boundOf ({ used }: PrimaryLoad): { readonly bound: Bound, readonly share: number } {
  const [bound, share] = Object.entries(used).reduce((most, each) => each[1] > most[1] ? each : most) as [Bound, number]
  return { bound, share }
}

/** The fewest primaries of which none is over a bound. */
export function primariesFor (costs: Costs, rate: number, retentionSeconds: number): number {
  let primaries = 1
  // The load of one falls with their number, but not in proportion: its gateways come in whole processes.
  while (boundOf(primaryLoad(costs, rate / primaries, retentionSeconds)).share > 1) {
    if (primaries >= rate) throw new Error('not even a primary for every request would do')
    primaries++
  }
  return primaries
}

/** The highest rate that one primary carries, to within a request. */
export function endOfOnePrimary (costs: Costs, retentionSeconds: number): number {
  let [low, high] = [0, 10_000_000]
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2)
    if (boundOf(primaryLoad(costs, middle, retentionSeconds)).share > 1) high = middle
    else low = middle
  }
  return low
}

export interface Split { readonly perStatement: number, readonly commits: number, readonly postgresMicros: number }

/**
 * A process whose batches are spread over `shards` primaries sends as many requests in more, smaller statements. What a
 * statement costs by itself and what each of its rows costs comes from two measurements: alone, and in batches.
 */
export function splitOver (costs: Costs, shards: number): Split {
  const batch = batchOf(costs)
  const hit = shards * (1 - (1 - 1 / shards) ** batch)
  const statementMicros = (costs.postgresAloneMicros - costs.postgresMicros) / (1 - 1 / batch)
  const rowMicros = costs.postgresAloneMicros - statementMicros
  const perStatement = batch / hit
  return { perStatement, commits: 2 / perStatement, postgresMicros: statementMicros / perStatement + rowMicros }
}

/** Requests in a statement: a request is in two of them. */
export function batchOf (costs: Costs): number {
  return 2 / costs.commits
}

export function costsTable (bench: BenchResult): string {
  const kinds: ReadonlyArray<readonly [string, string, string]> = [
    ['first request', 'onceway', 'first'], ['first request, no Redis', 'onceway-postgres', 'first'],
    ['replay from memory', 'onceway', 'replay'], ['replay from Redis', 'onceway-no-lru', 'replay'],
    ['replay from Postgres', 'onceway-store-only', 'replay']
  ]
  const concurrencies = bench.roundsByConcurrency.map(({ concurrency }) => concurrency)
  const rows = kinds.map(([name, contestant, work]) => [name, ...concurrencies.map((concurrency) => {
    const found = bench.cases.find((each) => each.contestant === contestant && each.work === work && each.concurrency === concurrency)
    return found === undefined
      ? '–'
      : [found.absolute.cpuMicros, found.absolute.postgresCpuMicros, found.absolute.redisCpuMicros]
          .map((micros) => micros === null ? '–' : whole(micros))
          .join(' + ')
  })])
  return table(['CPU µs: gateway + Postgres + Redis', ...concurrencies.map((concurrency) => `${concurrency} at once`)], rows)
}

export function gatewaysTable (costs: Costs): string {
  const rows = RATES.map((rate) => {
    const processes = processesFor(costs, rate)
    return [
      whole(rate), whole(processes), whole(Math.max(ASSUMED.gatewaysMin, Math.ceil(processes / ASSUMED.coresPerGateway))),
      short(rate * ASSUMED.wireBytes * 8 / 1e9), whole(redisFor(costs, rate)),
      short(rate * ASSUMED.copiesSeconds * REDIS_COPY_BYTES / 1e9), short(rate * ASSUMED.storeBytes * 8 / 1e9)
    ]
  })
  return table(
    [
      'requests/s',
      'gateway processes',
      `machines of ${ASSUMED.coresPerGateway} cores`,
      'Gbit/s, clients and upstreams',
      'Redis servers',
      'GB of copies in all',
      'Gbit/s, stores'
    ],
    rows
  )
}

export function primariesTable (costs: Costs): string {
  const rows = RETENTIONS.flatMap(({ name, seconds }) => RATES.map((rate) => {
    const primaries = primariesFor(costs, rate, seconds)
    const load = primaryLoad(costs, rate / primaries, seconds)
    const { bound, share } = boundOf(load)
    return [
      whole(rate), name, short(rate * seconds / 1e9), short(load.diskBytes * primaries / 1e12), short(load.keyIndexBytes * primaries / 1e9),
      short(load.walPerRequest / 1e3), short(load.walPerSecond * primaries / 1e6), `**${whole(primaries)}**`,
      `${bound}, ${whole(share * 100)} %`, whole(load.connections)
    ]
  }))
  return table(
    [
      'requests/s', 'kept', '10⁹ records', 'TB', 'GB of primary key', 'kB of WAL a request', 'MB/s of WAL', 'primaries',
      'nearest bound of each', 'connections of each'
    ],
    rows
  )
}

/** For an operator: what a rate of first requests takes. */
export function planTable (costs: Costs): string {
  const rows = RATES.map((rate) => {
    const [day, week] = RETENTIONS.map(({ seconds }) => {
      const primaries = primariesFor(costs, rate, seconds)
      return { primaries, diskBytes: primaryLoad(costs, rate / primaries, seconds).diskBytes * primaries }
    }) as [{ primaries: number, diskBytes: number }, { primaries: number, diskBytes: number }]
    return [
      whole(rate), whole(processesFor(costs, rate)), whole(redisFor(costs, rate)),
      ...[day, week].flatMap(({ primaries, diskBytes }) => [whole(primaries), short(diskBytes / 1e12)])
    ]
  })
  const [day, week] = RETENTIONS.map(({ name }) => name)
  return table(
    ['first requests/s', 'gateway processes', 'Redis servers', `primaries, kept ${day}`, 'TB', `primaries, kept ${week}`, 'TB'],
    rows
  )
}

export interface Bill { readonly pods: number, readonly vCpus: number, readonly gib: number, readonly tb: number, readonly price: number }

/** What is rented for a rate, with a standby for each primary. Sizes are those that the load needs, not the largest that is assumed. */
export function billOf (costs: Costs, rate: number, retentionSeconds: number): Bill {
  const { primary, pod, redisPod, primaryMin, price } = ASSUMED
  const [pods, redis, primaries] = [processesFor(costs, rate), redisFor(costs, rate), primariesFor(costs, rate, retentionSeconds)]
  const load = primaryLoad(costs, rate / primaries, retentionSeconds)
  const cores = Math.max(primaryMin.vCpus, Math.ceil(load.used.CPU * primary.cores))
  // Half of the memory is for the primary key.
  const memory = Math.max(primaryMin.gib, Math.ceil(2 * load.keyIndexBytes / 2 ** 30))
  const vCpus = pods * pod.vCpus + redis * redisPod.vCpus + 2 * primaries * cores
  const gib = pods * pod.gib + redis * redisPod.gib + 2 * primaries * memory
  const tb = 2 * primaries * load.diskBytes / 1e12
  return { pods, vCpus, gib, tb, price: vCpus * price.vCpu + gib * price.gib + tb * price.tb }
}

export function billTable (costs: Costs): string {
  const rows = RETENTIONS.flatMap(({ name, seconds }) => RATES.map((rate) => {
    const { pods, vCpus, gib, tb, price } = billOf(costs, rate, seconds)
    return [whole(rate), name, whole(pods), whole(vCpus), whole(gib), short(tb), whole(price), short(price / (rate * 30 * DAY / 1e6))]
  }))
  return table(
    ['first requests/s', 'kept', 'gateway pods', 'vCPU in all', 'GiB in all', 'TB in all', 'a month', 'a million requests'],
    rows
  )
}

export function endTable (costs: Costs): string {
  const rows = RETENTIONS.map(({ name, seconds }) => {
    const rate = endOfOnePrimary(costs, seconds)
    const load = primaryLoad(costs, rate, seconds)
    return [name, hundreds(rate), ...Object.values(load.used).map((share) => `${whole(share * 100)} %`)]
  })
  return table(['kept', 'first requests/s', ...Object.keys(primaryLoad(costs, 1, 1).used)], rows)
}

export function splitTable (costs: Costs): string {
  const rows = SHARDS.map((shards) => {
    const { perStatement, commits, postgresMicros } = splitOver(costs, shards)
    return [whole(shards), short(perStatement), short(commits), whole(postgresMicros), whole(shards * CONNECTIONS_PER_PROCESS)]
  })
  return table(
    ['primaries behind one process', 'requests a statement', 'commits a request', 'Postgres µs a request', 'connections of a process'],
    rows
  )
}

/** The figures that people take away. */
export function inShort (costs: Costs): string {
  const [day, week] = [DAY, 7 * DAY].map((seconds) => hundreds(endOfOnePrimary(costs, seconds)))
  return `One primary carries about ${day} first requests a second if records are kept for a day, and ${week} if for a week. One Redis carries ${hundreds(redisRate(costs))}.`
}

/** First requests a second that one Redis carries. */
export function redisRate (costs: Costs): number {
  return ASSUMED.redisBusy * 1e6 / costs.redisMicros
}

function redisFor (costs: Costs, rate: number): number {
  return Math.max(1, Math.ceil(rate / redisRate(costs)))
}

/** By the name of the mark in a page before which each is put. */
export function scalingTables (): Readonly<Record<string, string>> {
  const bench = read<BenchResult>(RESULTS)
  const costs = costsOf(bench, read<GrowthResult>(GROWTH))
  return {
    short: inShort(costs),
    plan: planTable(costs),
    costs: costsTable(bench),
    gateways: gatewaysTable(costs),
    end: endTable(costs),
    primaries: primariesTable(costs),
    split: splitTable(costs),
    bill: billTable(costs)
  }
}

/** A page with its tables as they are computed now. A mark that names no table, and a page without a mark, are mistakes. */
export function withTables (page: string): string {
  const tables = scalingTables()
  let count = 0
  const text = page.replace(
    /(<!-- (\w+): made by "npm run bench:scaling" -->\n)[\s\S]*?(<!-- \/\2 -->)/g,
    (_, begin: string, name: string, end: string) => {
      const rows = tables[name]
      if (rows === undefined) throw new Error(`there is no table ${name}`)
      count++
      return `${begin}${rows}\n${end}`
    }
  )
  if (count === 0) throw new Error('the page has lost the marks between which its tables go')
  return text
}

function table (head: readonly string[], rows: ReadonlyArray<readonly string[]>): string {
  return [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}

function whole (value: number): string {
  return Math.round(value).toLocaleString('en')
}

function hundreds (value: number): string {
  return whole(Math.floor(value / 100) * 100)
}

/** Two digits that matter. */
function short (value: number): string {
  return value >= 10 ? whole(value) : value.toLocaleString('en', { maximumSignificantDigits: 2 })
}

function mean (values: readonly number[]): number {
  if (values.length === 0) throw new Error('the results lack what is to be averaged')
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

function present<Value> (value: Value | null | undefined, what: string): Value {
  if (value === null || value === undefined) throw new Error(`the results lack ${what}`)
  return value
}

function read<Result> (name: string): Result {
  return JSON.parse(readFileSync(new URL(`../${name}`, import.meta.url), 'utf8')) as Result
}

if (import.meta.main) {
  if (process.argv.includes('--write')) {
    for (const name of PAGES) {
      const page = new URL(`../${name}`, import.meta.url)
      writeFileSync(page, withTables(readFileSync(page, 'utf8')))
    }
  } else {
    for (const [name, rows] of Object.entries(scalingTables())) console.log(`${name}\n\n${rows}\n`)
  }
}
