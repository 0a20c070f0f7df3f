/**
 * `npm run soak:outage -- --seconds 120 --rate 30 --seed 1 --report FILE`: a consumer that is down, and what becomes of what was meant for
 * it; exit 1 on a stampede, or when anything was lost. `--broken NAME` takes a break of test/broken, to see that it is noticed.
 */
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { positive } from '../../harness/options.ts'
import { isRight, printed, reported } from './report.ts'
import { runOutage } from './run.ts'

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '120' },
    rate: { type: 'string', default: '30' },
    seed: { type: 'string', default: '1' },
    report: { type: 'string' },
    broken: { type: 'string' }
  }
})

const result = await runOutage({
  seconds: positive('seconds', values.seconds),
  rate: positive('rate', values.rate),
  seed: positive('seed', values.seed),
  broken: values.broken ?? null
})
console.log(printed(result))
if (values.report !== undefined) writeFileSync(values.report, reported(result, process.argv.slice(2)))
process.exitCode = isRight(result) ? 0 : 1
