/** The report of splits, as docs/reports/split.md has it. */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { findServer } from '../harness/binaries.ts'
import type { SplitResult } from './split.ts'

export function reportOf (command: string, results: ReadonlyArray<{ readonly kill: boolean, readonly result: SplitResult }>): string {
  const [first] = results
  const names = results.map(({ kill }) => kill ? 'one gateway killed' : 'all gateways drained')
  const rows = (name: string, of: (result: SplitResult) => string | number): string =>
    `| ${name} | ${results.map(({ result }) => of(result)).join(' | ')} |`
  const seconds = (value: number): string => value.toFixed(2)
  return `# A cell split in two

Made by \`${command}\` with Node ${process.version}, ${first?.result.versions.join(', ') ?? ''}, Postgres ${serverVersion('postgres')} and Redis ${serverVersion('redis')}, ${new Date().toISOString().slice(0, 10)}.

Two cells stand behind nginx and HAProxy. Slots 250-499 of the first one move to a cell of their own, by the steps of [Split a cell](../guides/scale.md#split-a-cell). Clients ask for new keys and old ones before, during and after it. Everything runs on one machine, which is busy with it. So the times are those of slow starts.

| | ${names.join(' | ')} |
|---|${names.map(() => '---').join('|')}|
${rows('keys', ({ keys }) => keys)}
${rows('requests', ({ requests }) => requests)}
${rows('replays', ({ replays }) => replays)}
${rows('answers 503, retried', ({ refused }) => refused)}
${rows('keys of unknown outcome', ({ unknown }) => unknown)}
${rows('**keys executed twice, or with two answers, or forgotten**', ({ violations }) => `**${violations.length}**`)}
${rows('longest time without an answer, half that stays, s', ({ without }) => seconds(without.stays))}
${rows('longest time without an answer, half that moves, s', ({ without }) => seconds(without.moves))}
${rows('longest time without an answer, the other cell, s', ({ without }) => seconds(without.other))}

How long each step took, in seconds:

| step | ${names.join(' | ')} |
|---|${names.map(() => '---').join('|')}|
${first?.result.steps.map(([name], at) => rows(name, ({ steps }) => seconds(steps[at]?.[1] ?? 0))).join('\n') ?? ''}

A key is of unknown outcome if its answer was lost, as that of one key in fifteen, or if it was in flight in the gateway that was killed. Its record is in both halves after the split, and its retries are not executed.
`
}

function serverVersion (server: 'postgres' | 'redis'): string {
  const source = findServer(server)
  if (source.kind !== 'binaries') return 'of unknown version'
  const program = server === 'postgres' ? 'postgres' : 'redis-server'
  const { stdout } = spawnSync(join(source.directory, program), ['--version'], { encoding: 'utf8' })
  return /[0-9]+\.[0-9]+(?:\.[0-9]+)?/.exec(stdout)?.[0] ?? 'of unknown version'
}
