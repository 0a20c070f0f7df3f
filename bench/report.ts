/** What a run says when it is over: for a terminal, as the file that is kept, and as the table of the README. Pure. */
import type { Work } from './contestants.ts'
import type { Violation } from './judge.ts'
import type { Case, Rounds } from './results.ts'

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
  readonly contestants: Readonly<Record<string, string>>
  /** By name, and why. */
  readonly skipped: Readonly<Record<string, string>>
  readonly violations: readonly Violation[]
}

/** From here on it is the load generator's speed as much as the contestant's. */
const GENERATOR_BUSY = 0.9
const COLUMNS = [
  'contestant', 'work', 'throughput', '', 'CPU', '', 'p50', 'p99', 'req/s', 'p50 ms', 'p99 ms', 'CPU µs', 'Postgres µs',
  'Redis µs', 'RSS MiB'
]

export function printed (result: BenchResult): string {
  return [
    ...result.roundsByConcurrency.flatMap((rounds) => [
      '',
      roundsLine(rounds, result.rounds),
      ...aligned([COLUMNS, ...rowsAt(result, rounds.concurrency)])
    ]),
    '',
    ...notes(result)
  ].join('\n')
}

export function reported (result: BenchResult): string {
  const { machine } = result
  return `# Benchmark

\`${result.command}\`, ${result.date}. Ratios are over the plain proxy (\`plain\`) in the same round, those of \`…-slow\` over \`naive-slow\`: median
[lowest–highest] of the rounds that count; of \`deliver\` and \`steady\` over \`outbox\`. CPU is processor time per answered request, or delivered message; ${result.secondsPerTurn} s a turn, replays from a pool of ${result.poolKeys} keys.
How it is measured: [bench/README.md](../README.md).

${[...result.versions, `${machine.cpu}, ${machine.cores} cores, ${machine.memoryGib} GiB`].map((line) => `* ${line}`).join('\n')}

${notes(result).map((line) => `* ${line}`).join('\n')}
${result.roundsByConcurrency.map((rounds) => section(result, rounds)).join('')}
## Contestants

${Object.entries(result.contestants).map(([name, what]) => `* \`${name}\`: ${what}`).join('\n')}
`
}

function section (result: BenchResult, rounds: Rounds): string {
  const rows = rowsAt(result, rounds.concurrency)
  return `
## ${roundsLine(rounds, result.rounds)}

| ${COLUMNS.join(' | ')} |
|${'---|'.repeat(COLUMNS.length)}
${rows.map((row) => `| ${row.join(' | ')} |`).join('\n')}
`
}

/** What the README shows, and what it calls it. */
const README_ROWS: ReadonlyArray<readonly [contestant: string, work: Work, title: string]> = [
  ['plain', 'pass', 'a plain proxy (`@fastify/http-proxy`), which guards nothing'],
  ['onceway', 'first', 'onceway, first request, with Postgres and Redis'],
  ['onceway', 'replay', 'onceway, replay']
]
/** Busy, and not yet a queue. */
const README_CONCURRENCY = 32

/** Three figures to choose by: the plain proxy, a first request and a replay. */
export function readmeTable (result: BenchResult, file: string): string {
  const concurrencies = result.roundsByConcurrency.map(({ concurrency }) => concurrency)
  const concurrency = concurrencies.find((each) => each >= README_CONCURRENCY) ?? concurrencies.at(-1)
  const rows = README_ROWS.flatMap(([contestant, work, title]) => {
    const found = result.cases.find((each) => each.contestant === contestant && each.work === work && each.concurrency === concurrency)
    return found === undefined
      ? []
      : [`| ${title} | ${thousands(found.absolute.requestsPerSecond)} | ${(found.absolute.p50Ms ?? 0).toFixed(1)} ms |`]
  })
  return `| ${concurrency} connections, one gateway process | requests a second | median latency |
|---|---|---|
${rows.join('\n')}

${result.date}, ${result.machine.cores} cores shared with load, server and databases, \`${result.command}\` ([full result](${file})).`
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

function rowsAt ({ cases }: BenchResult, concurrency: number): string[][] {
  return cases.filter((each) => each.concurrency === concurrency).map(({ contestant, work, ratio, spread, absolute }) => [
    contestant,
    work,
    times(ratio.throughput), between(spread.throughput),
    times(ratio.cpu), between(spread.cpu),
    times(ratio.p50),
    times(ratio.p99),
    String(Math.round(absolute.requestsPerSecond)) + (absolute.generatorBusy >= GENERATOR_BUSY ? ' (g)' : ''),
    times(absolute.p50Ms),
    times(absolute.p99Ms),
    ...[absolute.cpuMicros, absolute.postgresCpuMicros, absolute.redisCpuMicros].map((value) => value === null ? '–' : value.toFixed(0)),
    absolute.rssMib.toFixed(0)
  ])
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

function aligned (rows: readonly (readonly string[])[]): string[] {
  const widths = COLUMNS.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  return rows.map((row) =>
    row.map((cell, column) => column < 2 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0)).join('  '))
}
