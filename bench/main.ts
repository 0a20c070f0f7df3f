/**
 * `npm run bench -- --only NAME,… --seconds N --rounds N --concurrency N,… --before CHECKOUT --json FILE --report FILE`:
 * onceway beside what else one could do, on this machine, in one run. Exit 1 when onceway gave a wrong answer or executed a
 * key twice; what others do is told.
 */
import { cpus, totalmem } from 'node:os'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { versions, versionOfTool } from '../test/harness/versions.ts'
import { BASELINE, CONTESTANTS, overOf } from './contestants.ts'
import type { Contestant } from './contestants.ts'
import { missingPackages, packageVersions } from './packages.ts'
import { printed, reported } from './report.ts'
import type { BenchResult } from './report.ts'
import { runBench } from './run.ts'

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    seconds: { type: 'string', default: '3' },
    rounds: { type: 'string', default: '7' },
    concurrency: { type: 'string', default: '1,32,256' },
    pool: { type: 'string', default: '10000' },
    before: { type: 'string' },
    json: { type: 'string' },
    report: { type: 'string' }
  }
})

function whole (name: string, text: string): number {
  const number = Number(text)
  if (!Number.isInteger(number) || number < 1) throw new RangeError(`--${name} wants a whole number above 0`)
  return number
}

/** Those named and those that they are compared with; without names, all. */
function chosen (): Contestant[] {
  if (values.only === undefined) return [...CONTESTANTS]
  const names = new Set(values.only.split(','))
  for (const name of names) {
    if (!CONTESTANTS.some((contestant) => contestant.name === name)) {
      throw new RangeError(`--only knows no ${name}; it knows ${CONTESTANTS.map((contestant) => contestant.name).join(', ')}`)
    }
  }
  const bases = CONTESTANTS.filter(({ name }) => names.has(name))
    .flatMap((contestant) => contestant.works.map((work) => overOf(contestant, work)))
  return CONTESTANTS.filter(({ name }) => name === BASELINE || names.has(name) || bases.includes(name))
}

function withoutMissing (contestants: readonly Contestant[]): { present: Contestant[], skipped: Record<string, string> } {
  const why = contestants.some(({ needs }) => needs.includes('packages')) ? missingPackages() : null
  const absent = why === null ? [] : contestants.filter(({ needs }) => needs.includes('packages'))
  return {
    present: contestants.filter((contestant) => !absent.includes(contestant)),
    skipped: Object.fromEntries(absent.map(({ name }) => [name, why ?? '']))
  }
}

/** Without what is only about files of this machine. */
function command (): string {
  const said = (['only', 'seconds', 'rounds', 'concurrency', 'pool'] as const).filter((name) => process.argv.some((arg) =>
    arg.startsWith(`--${name}`)))
  const options = [...said.map((name) => `--${name} ${values[name]}`), ...values.before === undefined ? [] : ['--before CHECKOUT']]
  return ['npm run bench', ...options.length === 0 ? [] : ['--'], ...options].join(' ')
}

/** Each of ours a second time, from the checkout that `--before` names. */
function withBefore (contestants: readonly Contestant[]): Contestant[] {
  const { before } = values
  return before === undefined
    ? [...contestants]
    : contestants.flatMap((each) => [each, ...each.of === undefined ? [] : [each.of(resolve(before))]])
}

const { present, skipped } = withoutMissing(withBefore(chosen()))
// Before the first minute is spent: what cannot be written at the end is lost.
for (const file of [values.json, values.report]) if (file !== undefined) mkdirSync(dirname(file), { recursive: true })
const rounds = whole('rounds', values.rounds)
const seconds = whole('seconds', values.seconds)
const poolKeys = whole('pool', values.pool)
const ran = await runBench({
  contestants: present,
  concurrencies: values.concurrency.split(',').map((text) => whole('concurrency', text)),
  rounds,
  seconds,
  poolKeys,
  say: (line) => { console.log(line) }
})
const result: BenchResult = {
  command: command(),
  date: new Date().toISOString().slice(0, 10),
  versions: [...versions(), versionOfTool('nginx', '-v'), versionOfTool('wrk', '-v'), ...packageVersions()],
  machine: { cpu: cpus()[0]?.model ?? 'unknown', cores: cpus().length, memoryGib: Math.round(totalmem() / 2 ** 30) },
  secondsPerTurn: seconds,
  poolKeys,
  rounds,
  quietRounds: Math.min(...ran.rounds.map(({ quiet }) => quiet)),
  roundsByConcurrency: ran.rounds,
  cases: ran.cases,
  contestants: Object.fromEntries(present.map(({ name, what }) => [name, what])),
  skipped,
  violations: ran.violations
}
console.log(printed(result))
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(result, null, 2)}\n`)
if (values.report !== undefined) writeFileSync(values.report, reported(result))
// What others get wrong is told, and is theirs.
process.exitCode = result.violations.some(({ contestant }) => contestant.startsWith('onceway')) ? 1 : 0
