/**
 * `npm test` and, with `--long`, `npm run test:long`: the files of one tier (tiers.ts). `npm test -- FILE…` runs some files, each by
 * itself, and prints them as Node's test runner does.
 */
import { existsSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { finished } from 'node:stream/promises'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { describeSource, findServers } from '../test/harness/binaries.ts'
import { onInstall } from '../test/harness/packages.ts'
import { RunReport, spoken } from './test-report.ts'
import { roundsOf } from './tiers.ts'

/** A file waits for leases, timeouts and faults, and keeps a core busy in between: one for each core. */
const BESIDE = availableParallelism()

/** Run before each file. */
const BOUND = ['--import', new URL('file-bound.ts', import.meta.url).href]

const chosen = process.argv.slice(2).filter((argument) => !argument.startsWith('--'))
const long = process.argv.includes('--long')

lookForServers()
if (chosen.length > 0) await runChosen()
else await runTier()

/** Before the first file, which would wait for them in silence. */
function lookForServers (): void {
  const startedAt = performance.now()
  onInstall((step) => { console.log(`${step} …`) })
  findServers()
  console.log(`${servers()} It took ${spoken(performance.now() - startedAt)} to look.`)
}

function servers (): string {
  return `Postgres is ${describeSource('postgres')}, and Redis is ${describeSource('redis')}.`
}

async function runTier (): Promise<void> {
  const rounds = roundsOf(long ? 'long' : 'short')
  const files = rounds.flatMap((round) => round.files)
  const command = long ? 'npm run test:long' : 'npm test'
  console.log(`${command} runs ${files.length} files, and each starts the servers that it needs.`)
  const report = new RunReport(files)
  for (const round of rounds) await report.follow(run({ files: round.files, concurrency: round.alone ? 1 : BESIDE, execArgv: BOUND }))
  if (!report.succeeded) process.exitCode = 1
  console.log(report.summary(command, servers()))
}

async function runChosen (): Promise<void> {
  const missing = chosen.filter((file) => !existsSync(file))
  if (missing.length > 0) throw new Error(`there is no ${missing.join(', ')}`)
  const results = run({ files: chosen, concurrency: BESIDE, execArgv: BOUND })
  results.on('test:fail', ({ todo }) => { if (todo === undefined || todo === false) process.exitCode = 1 })
  const printed = results.compose(spec)
  printed.pipe(process.stdout, { end: false })
  await finished(printed)
}
