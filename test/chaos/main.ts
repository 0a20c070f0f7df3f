/**
 * `npm run chaos -- --seed N --seconds N --gateways N --json FILE`: a run, printed. Exit 1 on any violation. With
 * `--seeds 1..10` one run per seed, and `--report FILE` writes them down. `--topology NAME`: other stores than one of each
 * (topologies/). `--differ`: gateways with different configurations, which change (differ.ts). `--mode inbox --messages
 * N`: accepted and delivered, instead of executed (inbox/). Decides nothing about right and wrong.
 */
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { printedInbox, reportedInbox } from './inbox/report.ts'
import { runInbox } from './inbox/run.ts'
import type { InboxResult } from './inbox/run.ts'
import { printed, reported } from './report.ts'
import { runChaos } from './run.ts'
import type { ChaosResult } from './run.ts'
import { isTopology, TOPOLOGIES } from './topologies/topologies.ts'

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    seeds: { type: 'string' },
    mode: { type: 'string', default: 'enforce' },
    messages: { type: 'string', default: '20000' },
    seconds: { type: 'string', default: '60' },
    gateways: { type: 'string', default: '2' },
    topology: { type: 'string', default: 'plain' },
    differ: { type: 'boolean', default: false },
    json: { type: 'string' },
    report: { type: 'string' }
  }
})

/** `3` or `1..10`. */
function seedsOf (text: string): number[] {
  const [first, last = first] = text.split('..').map((part) => wholeNumber('seeds', part, 0))
  if (first === undefined || last === undefined) throw new RangeError('--seeds wants FIRST..LAST')
  return Array.from({ length: last - first + 1 }, (_, index) => first + index)
}

function wholeNumber (name: string, text: string, least: number): number {
  const number = Number(text)
  if (!Number.isInteger(number) || number < least) throw new RangeError(`--${name} wants a whole number from ${least} on`)
  return number
}

const seeds = seedsOf(values.seeds ?? values.seed)
const seconds = wholeNumber('seconds', values.seconds, 1)
const gateways = wholeNumber('gateways', values.gateways, 2)
const { topology } = values
if (!isTopology(topology)) throw new RangeError(`--topology wants one of ${Object.keys(TOPOLOGIES).join(', ')}`)
const { mode } = values
if (mode !== 'enforce' && mode !== 'inbox') throw new RangeError('--mode wants enforce or inbox')
const messages = wholeNumber('messages', values.messages, 1)

const enforced: ChaosResult[] = []
const inboxes: InboxResult[] = []
for (const seed of seeds) {
  if (mode === 'inbox') {
    const result = await runInbox({ seed, seconds, gateways, messages, topology })
    console.log(printedInbox(result))
    inboxes.push(result)
  } else {
    const result = await runChaos({ seed, seconds, gateways, topology, differ: values.differ })
    console.log(printed(result))
    enforced.push(result)
  }
}
const results = [...enforced, ...inboxes]
const args = process.argv.slice(2)
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(results.length === 1 ? results[0] : results, null, 2)}\n`)
if (values.report !== undefined) writeFileSync(values.report, mode === 'inbox' ? reportedInbox(inboxes, args) : reported(enforced, args))
// Open handles have no owner any more.
process.exit(results.some(({ violations }) => violations.length > 0) ? 1 : 0)
