/**
 * `npm run simulate -- --schedules N --seed S`: runs schedules S, S+1, … and reports what they reached. If anything is wrong with one, it
 * exits with 1 and prints the command that runs this one again.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { parseArgs } from 'node:util'
import { playSeed } from './explore.ts'
import type { Explored } from './explore.ts'
import { failureLines, reportOf, summaryOf, transcriptOf } from './telling.ts'
import { exploreAll } from './workers.ts'

const USAGE = 'npm run simulate -- [--schedules N] [--seed S] [--workers N] [--until-wrong] [--json FILE] [--report FILE] | --replay SEED'
/** Between two lines of progress. */
const PROGRESS_MS = 20_000

const { values } = parseArgs({
  options: {
    schedules: { type: 'string', default: '5000' },
    seed: { type: 'string', default: '1' },
    workers: { type: 'string', default: String(availableParallelism()) },
    'until-wrong': { type: 'boolean', default: false },
    json: { type: 'string' },
    report: { type: 'string' },
    replay: { type: 'string' }
  }
})

process.exitCode = values.replay === undefined ? await simulate() : await replay(wholeNumber('replay', values.replay))

async function replay (seed: number): Promise<number> {
  const played = await playSeed(seed)
  process.stdout.write(`${transcriptOf(played)}\n`)
  return played.wrongs.length === 0 ? 0 : 1
}

async function simulate (): Promise<number> {
  const seed = wholeNumber('seed', values.seed)
  const schedules = wholeNumber('schedules', values.schedules)
  const startedAt = performance.now()
  let saidAt = startedAt
  const progress = ({ failures }: Explored, played: number): void => {
    // At once: a long run may not come to its end.
    for (const line of failureLines(failures)) process.stderr.write(`${line}\n`)
    if (performance.now() - saidAt < PROGRESS_MS) return
    saidAt = performance.now()
    process.stderr.write(`${played} of ${schedules} schedules\n`)
  }
  const explored = await exploreAll({
    seed,
    schedules,
    workers: wholeNumber('workers', values.workers),
    untilWrong: values['until-wrong'],
    progress
  })
  const told = { explored, seed, seconds: (performance.now() - startedAt) / 1_000 }
  process.stdout.write(`${summaryOf(told)}\n`)
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ seed, seconds: told.seconds, ...explored }, null, 2)}\n`)
  if (values.report !== undefined) {
    writeFileSync(values.report, reportOf({
      ...told,
      command: `npm run simulate -- ${process.argv.slice(2).join(' ')}`,
      version: versionOf(),
      date: new Date().toISOString().slice(0, 10)
    }))
  }
  return explored.failures.length === 0 ? 0 : 1
}

function versionOf (): string {
  return (JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string }).version
}

function wholeNumber (name: string, text: string): number {
  const number = Number(text)
  if (/^\d+$/.test(text) && Number.isSafeInteger(number) && (number > 0 || name === 'seed' || name === 'replay')) return number
  process.stderr.write(`--${name} is a whole number${name === 'seed' || name === 'replay' ? '' : ' above 0'}\n${USAGE}\n`)
  return process.exit(2)
}
