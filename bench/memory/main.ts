/**
 * `npm run bench:memory -- --requests 1000000 --waiting 10000 --keys 100 --json FILE --report FILE`: is a gateway's memory flat over
 * many requests, and back after many waiters? Exit 1 when it is not, or when an answer was wrong. 0 leaves that half out.
 */
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { isRight, reported } from './report.ts'
import { runMemory } from './run.ts'

const { values } = parseArgs({
  options: {
    requests: { type: 'string', default: '1000000' },
    waiting: { type: 'string', default: '10000' },
    keys: { type: 'string', default: '100' },
    json: { type: 'string' },
    report: { type: 'string' }
  }
})

/** One every 50,000 of a million. */
const SAMPLES = 20
/** What a busy gateway has under way; more would only wait for the same two cores. */
const CONCURRENCY = 32
/** Two halves of three: among three there is one after which everything was collected. */
const WAVES = 6
/** A few collections. */
const REST_MS = 10_000

function whole (name: string, text: string): number {
  const number = Number(text)
  if (!Number.isInteger(number) || number < 0) throw new RangeError(`--${name} wants a whole number from 0 on`)
  return number
}

const [requests, waiting, keys] = [whole('requests', values.requests), whole('waiting', values.waiting), whole('keys', values.keys)]
if (waiting > 0 && (keys === 0 || keys > waiting)) throw new RangeError('--keys wants at least one, and no more than there are clients')

const result = await runMemory({
  stores: ['embedded', 'redis and postgres'],
  requests: requests === 0 ? null : { requests, samples: SAMPLES, concurrency: CONCURRENCY },
  waiting: waiting === 0 ? null : { waiting, keys, waves: WAVES, restMs: REST_MS },
  say: (text) => { console.log(text) }
})
const text = reported(result, process.argv.slice(2))
console.log(text)
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(result, null, 2)}\n`)
if (values.report !== undefined) writeFileSync(values.report, text)
process.exitCode = isRight(result) ? 0 : 1
