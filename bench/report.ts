/** What a run says when it is over: for a terminal, as the file that is kept, and as the table of the README. Pure. */
import type { Work } from './contestants.ts'
import type { Violation } from './judge.ts'
import { BASELINE, FLOOR_DURABLE, NODE_IDEMPOTENCY } from './names.ts'
import { RATIOS, storeMicros } from './results.ts'
import type { Allocations, Case, Comparison, Rounds } from './results.ts'

export interface BenchResult {
  readonly command: string
  readonly date: string
  readonly versions: readonly string[]
  readonly machine: { readonly cpu: string, readonly cores: number, readonly memoryGib: number }
  readonly secondsPerTurn: number
  readonly poolKeys: number
  /** Of each concurrency. */
  readonly rounds: number
  /** At the concurrency that had fewest. */
  readonly quietRounds: number
  readonly roundsByConcurrency: readonly Rounds[]
  readonly cases: readonly Case[]
  readonly allocations: readonly Allocations[]
  readonly contestants: Readonly<Record<string, string>>
  /** By name, and why. */
  readonly skipped: Readonly<Record<string, string>>
  readonly violations: readonly Violation[]
}

/** From here on it is the load generator's speed as much as the contestant's. */
const GENERATOR_BUSY = 0.9
const FIGURES = [
  'contestant', 'work', 'req/s', 'p50 ms', 'p99 ms', 'CPU µs', 'Postgres µs', 'Redis µs', 'all µs', 'RSS MiB', 'kB'
]
const RATIO_COLUMNS = [
  'contestant', 'work', 'over', 'throughput', '', 'CPU', '', 'stores', '', 'together', '', 'p50', '', 'p99', ''
]

export function printed (result: BenchResult): string {
  return [
    ...result.roundsByConcurrency.flatMap((rounds) => [
      '',
      roundsLine(rounds, result.rounds),
      ...aligned([FIGURES, ...figuresAt(result, rounds.concurrency)], 2),
      '',
      ...aligned([RATIO_COLUMNS, ...ratiosAt(result, rounds.concurrency)], 3)
    ]),
    '',
    ...notes(result),
    ...answered(result)
  ].join('\n')
}

/** How fast it is here, in the words of the README: requests a second, added milliseconds, one comparison. */
export function answered (result: BenchResult): string[] {
  const find = (contestant: string, work: Work, concurrency: number): Case | undefined =>
    result.cases.find((each) => each.contestant === contestant && each.work === work && each.concurrency === concurrency)
  const busy = busyConcurrency(result)
  const [ours, replays, plain, npm] = [
    find(SHOWN, 'first', busy), find(SHOWN, 'replay', busy), find(BASELINE, 'pass', busy), find(NODE_IDEMPOTENCY, 'first', busy)
  ]
  if (ours === undefined || plain === undefined) return []
  const rate = ({ absolute }: Case): string => thousands(absolute.requestsPerSecond)
  const floor = [ours, ...ours.others].find(({ over }) => over === FLOOR_DURABLE)
  const added = find(SHOWN, 'first', 1)?.absolute.addedP50Ms ?? null
  return [
    '',
    `${busy} connections, one process, on Postgres alone: ${rate(ours)} first requests a second${
      replays === undefined ? '' : `, ${rate(replays)} replays`}. A plain proxy: ${rate(plain)}.`,
    ...added === null ? [] : [`A first request adds ${added.toFixed(1)} ms at one connection (p50, over the plain proxy).`],
    ...npm === undefined ? [] : [`${NODE_IDEMPOTENCY} with Redis, which stores nothing durably: ${rate(npm)} first requests a second.`],
    ...floor === undefined ? [] : [`The least that two durable commits and a hop take (${FLOOR_DURABLE}): ${times(floor.ratio.throughput)} of its throughput.`]
  ]
}

/** With the fewest parts. */
const SHOWN = 'onceway-postgres'

export function reported (result: BenchResult): string {
  const { machine } = result
  return `# Benchmark

\`${result.command}\`, ${result.date}. Ratios are over another contestant in the same round: median [lowest–highest] of the rounds that count.
CPU is processor time per answered request, or delivered message: of the process, of Postgres and Redis, and of all together. kB is what a request allocates on the heap.
${result.secondsPerTurn} s a turn, replays from a pool of ${result.poolKeys} keys. How it is measured: [bench/README.md](../README.md).

${[...result.versions, `${machine.cpu}, ${machine.cores} cores, ${machine.memoryGib} GiB`].map((line) => `* ${line}`).join('\n')}

${notes(result).map((line) => `* ${line}`).join('\n')}
${result.roundsByConcurrency.map((rounds) => section(result, rounds)).join('')}
## Contestants

${Object.entries(result.contestants).map(([name, what]) => `* \`${name}\`: ${what}`).join('\n')}
`
}

function section (result: BenchResult, rounds: Rounds): string {
  return `
## ${roundsLine(rounds, result.rounds)}

${markdown(FIGURES, figuresAt(result, rounds.concurrency))}

${markdown(RATIO_COLUMNS, ratiosAt(result, rounds.concurrency))}
`
}

function markdown (columns: readonly string[], rows: ReadonlyArray<readonly string[]>): string {
  return `| ${columns.join(' | ')} |
|${'---|'.repeat(columns.length)}
${rows.map((row) => `| ${row.join(' | ')} |`).join('\n')}`
}

/** What the README shows, and what it calls it. */
const README_ROWS: ReadonlyArray<readonly [contestant: string, work: Work, title: string]> = [
  [BASELINE, 'pass', 'a plain proxy (`@fastify/http-proxy`), which guards nothing'],
  ['onceway', 'first', 'onceway, first request, with Postgres and Redis'],
  [SHOWN, 'first', 'onceway, first request, with Postgres alone'],
  ['onceway', 'replay', 'onceway, replay'],
  [NODE_IDEMPOTENCY, 'first', '`@node-idempotency/core` with Redis, first request: not durable']
]
/** Busy, and not yet a queue. */
const README_CONCURRENCY = 32

/** What needs no upstream is faster than a proxy that asks it. */
function addedText (addedMs: number | null): string {
  return addedMs !== null && addedMs <= 0 ? 'nothing' : ms(addedMs)
}

/** Figures to choose by: how many a second, and how much later. */
export function readmeTable (result: BenchResult, file: string): string {
  const concurrency = busyConcurrency(result)
  const alone = result.roundsByConcurrency.some((rounds) => rounds.concurrency === 1)
  const rows = README_ROWS.flatMap(([contestant, work, title]) => {
    const at = (connections: number): Case | undefined =>
      result.cases.find((each) => each.contestant === contestant && each.work === work && each.concurrency === connections)
    const found = at(concurrency)
    if (found === undefined) return []
    const added = alone ? [` ${contestant === BASELINE ? '–' : addedText(at(1)?.absolute.addedP50Ms ?? null)} |`] : []
    return [`| ${title} | ${thousands(found.absolute.requestsPerSecond)} | ${ms(found.absolute.p50Ms ?? 0)} |${added.join('')}`]
  })
  return `| ${concurrency} connections, one gateway process | requests a second | median latency |${alone ? ' added to a single request |' : ''}
|---|---|---|${alone ? '---|' : ''}
${rows.join('\n')}

${result.date}, ${result.machine.cores} cores shared with load, server and databases, \`${result.command}\` ([full result](${file})).`
}

function ms (value: number | null): string {
  return value === null ? '–' : `${value.toFixed(1)} ms`
}

function busyConcurrency ({ roundsByConcurrency }: BenchResult): number {
  const concurrencies = roundsByConcurrency.map(({ concurrency }) => concurrency)
  return concurrencies.find((each) => each >= README_CONCURRENCY) ?? concurrencies.at(-1) ?? README_CONCURRENCY
}

/** To the nearest hundred: more digits would be another run's. */
function thousands (perSecond: number): string {
  return (perSecond < 1_000 ? Math.round(perSecond) : Math.round(perSecond / 100) * 100).toLocaleString('en-US')
}

/** What is accepted beside first requests on the same store, and what is delivered. One table for each concurrency. */
export function inboxTable (result: BenchResult, file: string): string {
  const tables = result.roundsByConcurrency.map(({ concurrency }) => {
    const at = result.cases.filter((each) => each.concurrency === concurrency)
    const rows = at.filter(({ work }) => work === 'accept' || work === 'first').map((one) => inboxRow(result, one, at))
    return `
| ${concurrency} at once | accepted, or a first request | delivered | messages/s | p50, p99 ms | CPU µs |
|---|---|---|---|---|---|
${rows.join('\n')}`
  })
  return `Throughput / CPU, medians: of what is accepted over a plain \`@fastify/http-proxy\`, of what is delivered over the outbox, both in the same round. p50, p99:
from the 202 to the consumer, under a steady rate. CPU µs: of the process and of the store, for each message that is accepted + delivered. ${result.date}, ${result.machine.cores} cores,
\`${result.command}\`, [all of it](${file}):
${tables.join('\n')}`
}

function inboxRow (result: BenchResult, one: Case, at: readonly Case[]): string {
  const of = (work: Work): Case | undefined => at.find((each) => each.contestant === one.contestant && each.work === work)
  const [delivered, steady] = one.work === 'accept' ? [of('deliver'), of('steady')] : []
  const micros = ({ absolute }: Case): string =>
    (absolute.cpuMicros + (absolute.postgresCpuMicros ?? 0) + (absolute.redisCpuMicros ?? 0)).toFixed(0)
  return `| ${[
    `${result.contestants[one.contestant] ?? one.contestant}${one.work === 'first' ? ': a first request' : ''}`,
    `${times(one.ratio.throughput)} / ${times(one.ratio.cpu)}`,
    delivered === undefined ? '' : `${times(delivered.ratio.throughput)} / ${times(delivered.ratio.cpu)}`,
    delivered === undefined ? '' : delivered.absolute.requestsPerSecond.toFixed(0),
    steady === undefined ? '' : `${times(steady.absolute.p50Ms)}, ${times(steady.absolute.p99Ms)}`,
    delivered === undefined ? micros(one) : `${micros(one)} + ${micros(delivered)}`
  ].join(' | ')} |`
}

function roundsLine ({ concurrency, quiet, counted }: Rounds, rounds: number): string {
  return `${concurrency} ${concurrency === 1 ? 'connection' : 'connections'}: ${quiet} of ${rounds} rounds quiet, ${counted === quiet ? 'these' : 'all'} count`
}

function figuresAt ({ cases, allocations }: BenchResult, concurrency: number): string[][] {
  return cases.filter((each) => each.concurrency === concurrency).map(({ contestant, work, absolute }) => {
    const counted = allocations.find((each) => each.contestant === contestant && each.work === work && each.concurrency === concurrency)
    const together = absolute.cpuMicros + (storeMicros(absolute) ?? 0)
    return [
      contestant,
      work,
      String(Math.round(absolute.requestsPerSecond)) + (absolute.generatorBusy >= GENERATOR_BUSY ? ' (g)' : ''),
      times(absolute.p50Ms),
      times(absolute.p99Ms),
      ...[absolute.cpuMicros, absolute.postgresCpuMicros, absolute.redisCpuMicros, together]
        .map((value) => value === null ? '–' : value.toFixed(0)),
      absolute.rssMib.toFixed(0),
      counted === undefined ? '–' : (counted.heapBytes / 1_000).toFixed(1)
    ]
  })
}

/** A row for each comparison. Over itself there is nothing to say. */
function ratiosAt ({ cases }: BenchResult, concurrency: number): string[][] {
  return cases.filter((each) => each.concurrency === concurrency).flatMap((each) =>
    [each, ...each.others].filter(({ over }) => over !== each.contestant)
      .map((one) => [each.contestant, each.work, one.over, ...ratioCells(one)]))
}

function ratioCells ({ ratio, spread }: Comparison): string[] {
  return RATIOS.flatMap((name) => [times(ratio[name]), between(spread[name])])
}

function notes ({ cases, skipped, violations, rounds }: BenchResult): string[] {
  const busy = cases.some(({ absolute }) => absolute.generatorBusy >= GENERATOR_BUSY)
  const one = (each: Violation): string => `violation: ${each.contestant}, ${each.work}, ${each.concurrency} connections: ${each.what}`
  return [
    ...Object.entries(skipped).map(([name, why]) => `skipped: ${name}: ${why}`),
    ...busy ? ['(g): the load generator had a core to itself and needed nearly all of it; the contestant may be faster'] : [],
    ...violations.length === 0
      ? [`every answer in ${rounds} ${rounds === 1 ? 'round' : 'rounds'} was the right one, no guarded key was executed twice`]
      : violations.map(one)
  ]
}

function times (value: number | null): string {
  return value === null ? '–' : value.toFixed(2)
}

function between (spread: readonly [number, number] | null): string {
  return spread === null ? '' : `[${spread.map(times).join('–')}]`
}

/** Names to the left, figures to the right. */
function aligned (rows: ReadonlyArray<readonly string[]>, names: number): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  return rows.map((row) =>
    row.map((cell, column) => column < names ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0)).join('  '))
}
