/** What a soak says when it is over: for a terminal, and as the report that is kept with the sources. Pure but for versions. */
import { cpus } from 'node:os'
import { versions } from '../harness/versions.ts'
import type { SoakResult } from './run.ts'
import type { Sample } from './sampler.ts'
import { median } from './verdict.ts'
import type { Verdict } from './verdict.ts'

const MIB = 1024 * 1024
/** Rows of the table: one every so many milliseconds, or every sample where there are few. */
const ROW_EVERY_MS = 120_000
const ROWS_MIN = 12
/** Judged, and near enough to another column. */
const NOT_IN_TABLE = / (resources|requests|unsettled)$/

export function isRight ({ flat, wrongCount }: SoakResult): boolean {
  return flat && wrongCount === 0
}

export function printed (result: SoakResult): string {
  return [
    summary(result),
    ...result.verdicts.map((verdict) => `  ${verdict.flat ? 'flat  ' : 'RISES '} ${verdictCells(verdict).join('  ')}`),
    ...result.wrong.map((what) => `  WRONG  ${what}`),
    isRight(result) ? 'flat and right' : 'NOT flat and right'
  ].join('\n')
}

export function reported (result: SoakResult, args: readonly string[]): string {
  const { samples, verdicts, warmUpMs, sampleEveryMs, retentionMs } = result
  const names = verdicts.map(({ name }) => name).filter((name) => !NOT_IN_TABLE.test(name))
  return `# Soak

\`npm run soak -- ${args.join(' ')}\`, ${new Date().toISOString().slice(0, 10)}: **${isRight(result) ? 'flat and right' : 'not flat and right'}**.

${summary(result)}

${versions().map((line) => `* ${line}`).join('\n')}

Two gateways run on one Postgres and one Redis, with the upstream and the clients on the same machine (${cpus().length} cores, ${Math.round(100 * busyOf(samples))} % busy in the middle).
Records are kept for ${retentionMs / 1_000} s, so that after the warm-up as many are swept as are made. A tenth of the requests are
duplicates (half at once, half later). A hundredth are given up in flight and sent again. Every answer is compared with what its
execution gave. At the end every key is compared with how often it was executed.

## Verdict

Samples are taken every ${sampleEveryMs / 1_000} s, and the first ${warmUpMs / 1_000} s are not judged. A series is flat if two values rise by no more than is allowed. One is the median, from the first
third to the last. The other is a line through all of it (Theil-Sen), over the same time. Of the heap the lowest of
several samples in a row counts, which is about what a collection left.

| series | first third | last third | line climbs | allowed | |
|---|---|---|---|---|---|
${verdicts.map((verdict) => `| ${verdictCells(verdict).join(' | ')} | ${verdict.flat ? 'flat' : '**rises**'} |`).join('\n')}

${result.wrong.map((what) => `* wrong: ${what}`).join('\n')}

## Series

| minute | ${names.join(' | ')} | busy |
|---|${'---|'.repeat(names.length + 1)}
${rowsOf(samples).map(({ atMs, values }) => `| ${(atMs / 60_000).toFixed(1)} | ${names.map((name) => shown(name, values[name] ?? 0)).join(' | ')} | ${Math.round(100 * (values['busy'] ?? 0))} % |`).join('\n')}
`.replace(/\n{3,}/g, '\n\n')
}

function summary ({ minutes, rate, gateways, counts, executions, wrongCount }: SoakResult): string {
  return `${minutes} minutes at ${rate} requests a second over ${gateways} gateways: ${counts.requests} requests of ${counts.keys} keys, ${executions} executions, ${counts.replays} replays, ${counts.disconnects} disconnects, ${counts.inFlight} told that they are in flight, ${counts.late} answered too late to be judged, ${counts.refused} refused and asked again, ${wrongCount} wrong.`
}

function verdictCells ({ name, first, last, climbed, allowed }: Verdict): string[] {
  return [name, ...[first, last, climbed, allowed].map((value) => shown(name, value))]
}

function shown (name: string, value: number): string {
  return /rss|heap/.test(name) ? `${(value / MIB).toFixed(1)} MiB` : String(Math.round(value * 10) / 10)
}

function rowsOf (samples: readonly Sample[]): Sample[] {
  const endMs = samples.at(-1)?.atMs ?? 0
  const everyMs = Math.min(ROW_EVERY_MS, endMs / ROWS_MIN)
  const rows: Sample[] = []
  for (const sample of samples) if (sample.atMs >= rows.length * everyMs) rows.push(sample)
  return rows
}

function busyOf (samples: readonly Sample[]): number {
  return samples.length === 0 ? 0 : median(samples.map(({ values }) => values['busy'] ?? 0))
}
