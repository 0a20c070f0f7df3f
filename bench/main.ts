/**
 * `npm run bench -- --full --check --only NAME,… --seconds N --rounds N --concurrency N,… --before CHECKOUT --json FILE --report
 * FILE`: onceway beside what else one could do, on this machine, in one run. Exit 1 when onceway gave a wrong answer or executed
 * a key twice, and with --check when it has become slower: than CHECKOUT, or than the committed result. What others do wrong is reported.
 */
import { cpus, totalmem } from 'node:os'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { versions, versionOfTool } from '../test/harness/versions.ts'
import { checked, checkedBeside, checkText, COMMITTED } from './check.ts'
import type { Checked } from './check.ts'
import { basesOf, briefly, CONTESTANTS } from './contestants.ts'
import type { Contestant } from './contestants.ts'
import { readResult } from './kept.ts'
import { BASELINE } from './names.ts'
import { missingPackages, packageVersions } from './packages.ts'
import { plannedSeconds } from './plan.ts'
import { inWords, shownOn } from './progress.ts'
import { printed, reported } from './report.ts'
import type { BenchResult } from './report.ts'
import { runBench } from './run.ts'

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    full: { type: 'boolean', default: false },
    check: { type: 'boolean', default: false },
    seconds: { type: 'string' },
    rounds: { type: 'string' },
    concurrency: { type: 'string', default: '1,32,256' },
    pool: { type: 'string', default: '10000' },
    before: { type: 'string' },
    json: { type: 'string' },
    report: { type: 'string' }
  }
})

/** Rounds say more than seconds: what disturbs one of them disturbs no other. Together with `briefly` this takes ten minutes. */
const BRIEF = { rounds: '5', seconds: '1' }
const LONG = { rounds: '7', seconds: '3' }
const BRIEF_ALLOCATIONS_AT = 32

function whole (name: string, text: string): number {
  const number = Number(text)
  if (!Number.isInteger(number) || number < 1) throw new RangeError(`--${name} wants a whole number above 0`)
  return number
}

/** Those named and those that they are compared with. Without names, a few that say how fast it is here, or all. */
function chosen (): Contestant[] {
  if (values.only === undefined) return values.full ? [...CONTESTANTS] : briefly()
  const names = new Set(values.only.split(','))
  for (const name of names) {
    if (!CONTESTANTS.some((contestant) => contestant.name === name)) {
      throw new RangeError(`--only knows no ${name}; it knows ${CONTESTANTS.map((contestant) => contestant.name).join(', ')}`)
    }
  }
  const bases = CONTESTANTS.filter(({ name }) => names.has(name))
    .flatMap((contestant) => contestant.works.flatMap((work) => basesOf(contestant, work)))
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
  const flags = (['full', 'check'] as const).filter((name) => values[name]).map((name) => `--${name}`)
  const before = values.before === undefined ? [] : ['--before CHECKOUT']
  const options = [...flags, ...said.map((name) => `--${name} ${values[name]}`), ...before]
  return ['npm run bench', ...options.length === 0 ? [] : ['--'], ...options].join(' ')
}

/** Each of ours a second time, from the checkout that `--before` names. */
function withBefore (contestants: readonly Contestant[]): Contestant[] {
  const { before } = values
  return before === undefined
    ? [...contestants]
    : contestants.flatMap((each) => [each, ...each.of === undefined ? [] : [each.of(resolve(before))]])
}

function compare (result: BenchResult): Checked {
  return values.before === undefined ? checked(readResult(new URL(`../${COMMITTED}`, import.meta.url)), result) : checkedBeside(result)
}

const { present, skipped } = withoutMissing(withBefore(chosen()))
// Before the first minute is spent: what cannot be written at the end is lost.
for (const file of [values.json, values.report]) if (file !== undefined) mkdirSync(dirname(file), { recursive: true })
const brief = values.only === undefined && !values.full
const rounds = whole('rounds', values.rounds ?? (brief ? BRIEF : LONG).rounds)
const seconds = whole('seconds', values.seconds ?? (brief ? BRIEF : LONG).seconds)
const poolKeys = whole('pool', values.pool)
const concurrencies = values.concurrency.split(',').map((text) => whole('concurrency', text))
const options = {
  contestants: present,
  concurrencies,
  rounds,
  seconds,
  poolKeys,
  allocationsAt: brief && concurrencies.includes(BRIEF_ALLOCATIONS_AT) ? [BRIEF_ALLOCATIONS_AT] : concurrencies
}
console.log(`${present.map(({ name }) => name).join(', ')}: about ${inWords(plannedSeconds(options))}`)
const ran = await runBench({ ...options, show: shownOn(process.stdout) })
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
  allocations: ran.allocations,
  contestants: Object.fromEntries(present.map(({ name, what }) => [name, what])),
  skipped,
  violations: ran.violations
}
console.log(printed(result))
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(result, null, 2)}\n`)
if (values.report !== undefined) writeFileSync(values.report, reported(result))
const compared = values.check ? compare(result) : null
if (compared !== null) console.log(`\n${checkText(compared)}`)
// What others get wrong is reported, and is theirs.
const wrong = result.violations.some(({ contestant }) => contestant.startsWith('onceway'))
process.exitCode = wrong || (compared?.worse.length ?? 0) > 0 ? 1 : 0
