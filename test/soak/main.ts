/**
 * `npm run soak -- --minutes 30 --rate N --json FILE --report FILE`: a soak, printed; exit 1 when anything has grown or
 * any answer was wrong. `--broken NAME` takes a break of test/broken, to see that it is noticed.
 */
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { positive } from '../harness/options.ts'
import { isRight, printed, reported } from './report.ts'
import { runSoak } from './run.ts'
import type { Sample } from './sampler.ts'
import { scaleOf } from './tolerances.ts'

/** Two gateways, both stores, the upstream and the clients keep two cores about half busy with this. */
const RATE = '120'
/** A sign of life for whoever watches half an hour of it. */
const SAYS_EVERY_MS = 60_000

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '30' },
    rate: { type: 'string', default: RATE },
    json: { type: 'string' },
    report: { type: 'string' },
    broken: { type: 'string' }
  }
})

function sayNowAndThen (): (sample: Sample) => void {
  let said = 0
  return ({ atMs, values }) => {
    if (atMs < said * SAYS_EVERY_MS) return
    said++
    console.log(`${Math.round(atMs / 1_000)} s: ${Math.round(100 * (values['busy'] ?? 0))} % busy, ${values['records']} records, ${Math.round((values['one rss'] ?? 0) / 1024 / 1024)} and ${Math.round((values['two rss'] ?? 0) / 1024 / 1024)} MiB`)
  }
}

const minutes = positive('minutes', values.minutes)
const result = await runSoak({
  minutes,
  rate: positive('rate', values.rate),
  scale: scaleOf(minutes),
  broken: values.broken ?? null,
  onSample: sayNowAndThen()
})
console.log(printed(result))
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(result, null, 2)}\n`)
if (values.report !== undefined) writeFileSync(values.report, reported(result, process.argv.slice(2)))
process.exitCode = isRight(result) ? 0 : 1
