/** What a guarded request may cost at most, and what is aimed for, beside the figures of a result. Pure. */
import type { Work } from './contestants.ts'
import { BASELINE, FLOOR_DURABLE, FLOOR_EMBEDDED, FLOOR_REPLY, NODE_IDEMPOTENCY, OUTBOX } from './names.ts'
import type { BenchResult } from './report.ts'
import type { Case, RATIOS } from './results.ts'

type Ratio = typeof RATIOS[number]
/** `unit`: what the ratio is multiplied by. */
type Figure =
  | { readonly ratio: Ratio, readonly over: string, readonly unit?: number }
  | { readonly absolute: 'rssMib' }
  | { readonly allocated: true }

interface Target {
  readonly what: string
  readonly contestant: string
  readonly work: Work
  readonly figure: Figure
  /** Throughput is at least as much. Everything else is at most as much. */
  readonly bounds: ReadonlyArray<readonly [concurrency: number, must: number, aim: number]>
}

/** µs a request. The plain proxy took as much on the machine on which the targets were set. */
const PLAIN_MICROS = 95
const BYTES_PER_KB = 1_000

const throughputOver = (over: string): Figure => ({ ratio: 'throughput', over })
const cpuOver = (over: string): Figure => ({ ratio: 'cpu', over })
const p99Over = (over: string): Figure => ({ ratio: 'p99', over })
const ALLOCATED: Figure = { allocated: true }
const RSS: Figure = { absolute: 'rssMib' }
const OURS = ['onceway-postgres', 'onceway', 'onceway-embedded'] as const
const [POSTGRES, REDIS, EMBEDDED] = OURS
const FLOOR_BOUNDS: Target['bounds'] = [[1, 0.65, 0.8], [32, 0.65, 0.8], [256, 0.65, 0.8]]
const P99_BOUNDS: Target['bounds'] = [[1, 2, 1.3], [32, 2, 1.3], [256, 2, 1.3]]

const TARGETS: readonly Target[] = ([
  ['first request, Postgres: throughput over floor-durable', POSTGRES, 'first', throughputOver(FLOOR_DURABLE), FLOOR_BOUNDS],
  ['… over plain', POSTGRES, 'first', throughputOver(BASELINE), [[32, 0.62, 0.8], [256, 1, 1.3]]],
  ['… CPU of the gateway over the floor\'s', POSTGRES, 'first', cpuOver(FLOOR_DURABLE), [[32, 2, 1.5], [256, 1.9, 1.5]]],
  [
    '… CPU of Postgres over the floor\'s', POSTGRES, 'first', { ratio: 'storeCpu', over: FLOOR_DURABLE },
    [[32, 1.7, 1.3], [256, 1.7, 1.3]]
  ],
  [
    `… CPU of both, µs, where plain takes ${PLAIN_MICROS}`, POSTGRES, 'first', { ratio: 'allCpu', over: BASELINE, unit: PLAIN_MICROS },
    [[32, 175, 130], [256, 125, 95]]
  ],
  ['… p99 over the floor\'s', POSTGRES, 'first', p99Over(FLOOR_DURABLE), P99_BOUNDS],
  ['… throughput over node-idempotency', POSTGRES, 'first', throughputOver(NODE_IDEMPOTENCY), [[32, 0.65, 0.85], [256, 0.9, 1.2]]],
  [
    'first request, Redis and Postgres: throughput over floor-durable', REDIS, 'first', throughputOver(FLOOR_DURABLE),
    [[1, 0.5, 0.65], [32, 0.55, 0.7], [256, 0.55, 0.7]]
  ],
  ['… p99 over the floor\'s', REDIS, 'first', p99Over(FLOOR_DURABLE), P99_BOUNDS],
  ['… a commit takes 2.4 ms: over the naive shape', 'onceway-slow', 'first', throughputOver('naive-slow'), [[32, 2, 2.5], [256, 4, 5]]],
  ['first request, embedded: throughput over floor-embedded', EMBEDDED, 'first', throughputOver(FLOOR_EMBEDDED), FLOOR_BOUNDS],
  ['… over plain', EMBEDDED, 'first', throughputOver(BASELINE), [[32, 0.75, 1], [256, 1, 1.3]]],
  ['… p99 over the floor\'s', EMBEDDED, 'first', p99Over(FLOOR_EMBEDDED), P99_BOUNDS],
  ...OURS.map((ours) => [`replay from memory (${ours}): over floor-reply`, ours, 'replay', throughputOver(FLOOR_REPLY), FLOOR_BOUNDS]),
  ['replay from Redis: over plain', 'onceway-no-lru', 'replay', throughputOver(BASELINE), [[32, 2, 2.6]]],
  ['replay from Postgres: over plain', 'onceway-store-only', 'replay', throughputOver(BASELINE), [[32, 1.6, 2]]],
  ['inbox, accepted: over plain', 'onceway-inbox-postgres', 'accept', throughputOver(BASELINE), [[32, 1, 1.3]]],
  ['inbox, delivered: over the outbox', 'onceway-inbox-postgres', 'deliver', throughputOver(OUTBOX), [[32, 2.2, 3]]],
  ...OURS.map((ours) => [`kB allocated for a first request (${ours})`, ours, 'first', ALLOCATED, [[32, 40, 30]]]),
  ...OURS.map((ours) => [`kB allocated for a replay from memory (${ours})`, ours, 'replay', ALLOCATED, [[32, 18, 12]]]),
  ...OURS.map((ours) => [`RSS in MiB (${ours})`, ours, 'first', RSS, [[256, 300, 240]]])
] as Array<[string, string, Work, Figure, Target['bounds']]>).map(([what, contestant, work, figure, bounds]) =>
  ({ what, contestant, work, figure, bounds }))

/** A row for each target that the result has a figure for. Bold: it misses what it must reach. */
export function targetsTable (result: BenchResult): string {
  const rows = TARGETS.flatMap((target) => target.bounds.flatMap(([concurrency, must, aim]) => {
    const found = foundIn(result, target, concurrency)
    if (found === null) return []
    const isThroughput = 'ratio' in target.figure && target.figure.ratio === 'throughput'
    const isMissed = isThroughput ? found.value < must : found.value > must
    const shown = `${digits(found.value)}${found.spread === null ? '' : ` [${found.spread.map(digits).join('–')}]`}`
    return [`| ${target.what} | ${concurrency} | ${isMissed ? `**${shown}**` : shown} | ${must} | ${aim} |`]
  }))
  return `| | connections | measured [spread] | must | aim |\n|---|---|---|---|---|\n${rows.join('\n')}`
}

interface Found { readonly value: number, readonly spread: readonly [number, number] | null }

function foundIn ({ cases, allocations }: BenchResult, { contestant, work, figure }: Target, concurrency: number): Found | null {
  const isIt = (one: { contestant: string, work: Work, concurrency: number }): boolean =>
    one.contestant === contestant && one.work === work && one.concurrency === concurrency
  if ('allocated' in figure) {
    const counted = allocations.find(isIt)
    return counted === undefined ? null : { value: counted.heapBytes / BYTES_PER_KB, spread: null }
  }
  const found = cases.find(isIt)
  if (found === undefined) return null
  return 'absolute' in figure ? { value: found.absolute[figure.absolute], spread: null } : ratioIn(found, figure)
}

function ratioIn (found: Case, { ratio, over, unit = 1 }: Extract<Figure, { ratio: Ratio }>): Found | null {
  const comparison = [found, ...found.others].find((each) => each.over === over)
  const [value, spread] = [comparison?.ratio[ratio] ?? null, comparison?.spread[ratio] ?? null]
  return value === null || spread === null ? null : { value: value * unit, spread: [spread[0] * unit, spread[1] * unit] }
}

/** Two digits of a ratio, none of a hundred. */
function digits (value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)
}
