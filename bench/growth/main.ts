/**
 * `npm run bench:growth -- --records 0,1000000,10000000 --seconds 10 --rounds 3 --turnovers 0 --only sizes,sweep,churn,variants --json FILE
 * --report FILE`: what a table that grows costs, printed; exit 1 when an answer or an execution was wrong, never for a time.
 */
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { positive } from '../../test/harness/options.ts'
import { PARAMETERS } from './churn.ts'
import { reported } from './report.ts'
import { runGrowth } from './run.ts'
import type { GrowthOptions } from './run.ts'

const PARTS = ['sizes', 'sweep', 'churn', 'variants'] as const
type Part = typeof PARTS[number]

const { values } = parseArgs({
  options: {
    records: { type: 'string', default: '0,1000000,10000000' },
    seconds: { type: 'string', default: '10' },
    rounds: { type: 'string', default: '3' },
    turnovers: { type: 'string', default: '0' },
    only: { type: 'string', default: PARTS.join() },
    sweep: { type: 'string', default: '1000000' },
    rate: { type: 'string', default: '200' },
    churn: { type: 'string', default: '200000' },
    days: { type: 'string', default: '3' },
    json: { type: 'string' },
    report: { type: 'string' }
  }
})

function whole (name: string, text: string): number {
  const number = Number(text)
  if (!Number.isInteger(number) || number < 0) throw new RangeError(`--${name} wants whole numbers from 0 on`)
  return number
}

function parts (text: string): ReadonlySet<Part> {
  const asked = text.split(',')
  const unknown = asked.filter((name) => !PARTS.some((part) => part === name))
  if (unknown.length > 0) throw new RangeError(`--only wants ${PARTS.join(', ')}, not ${unknown.join(', ')}`)
  return new Set(asked as Part[])
}

const only = parts(values.only)
const seconds = positive('seconds', values.seconds)
const sweep = {
  records: whole('sweep', values.sweep),
  rate: positive('rate', values.rate),
  phaseSeconds: seconds * 3,
  stores: 'redis and postgres'
} as const

const options: GrowthOptions = {
  sizes: only.has('sizes')
    ? {
        records: values.records.split(',').map((text) => whole('records', text)).sort((a, b) => a - b),
        turnovers: whole('turnovers', values.turnovers),
        rounds: whole('rounds', values.rounds),
        seconds,
        stores: ['postgres', 'redis and postgres'],
        concurrencies: [1, 32]
      }
    : null,
  sweeps: only.has('sweep') ? [{ ...sweep, besideTransaction: false }, { ...sweep, besideTransaction: true }] : [],
  churn: only.has('churn') ? { records: whole('churn', values.churn), days: whole('days', values.days), parameters: PARAMETERS } : null,
  variants: only.has('variants') ? { records: whole('churn', values.churn) } : null,
  say: (text) => { console.log(text) }
}

const result = await runGrowth(options)
const text = reported(result, process.argv.slice(2))
console.log(text)
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(result, null, 2)}\n`)
if (values.report !== undefined) writeFileSync(values.report, text)
process.exitCode = result.wrongCount === 0 ? 0 : 1
