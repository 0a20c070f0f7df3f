/**
 * `npm run bench:fairness -- [--only NAME,…] [--before CHECKOUT]`: what healthy messages of an inbox wait for beside poison, pauses,
 * bursts, old transactions and groups. With `--before`, each scenario is played on that checkout too, right before. Prints one line for
 * each.
 */
import { parseArgs } from 'node:util'
import { SCENARIOS } from './scenarios.ts'

const { values } = parseArgs({ options: { only: { type: 'string' }, before: { type: 'string' } } })
const wanted = values.only?.split(',') ?? Object.keys(SCENARIOS)
const unknown = wanted.filter((name) => !(name in SCENARIOS))
if (unknown.length > 0) throw new Error(`no such scenario: ${unknown.join(', ')}. There are ${Object.keys(SCENARIOS).join(', ')}`)

for (const name of wanted) {
  const scenario = SCENARIOS[name]
  if (scenario === undefined) continue
  console.log(`${name}: ${scenario.what}`)
  for (const checkout of values.before === undefined || scenario.isNew === true ? [null] : [values.before, null]) {
    const figures = await scenario.play(checkout)
    const told = Object.entries(figures).map(([label, figure]) => `${label}: ${figure}`).join(', ')
    console.log(`  ${checkout === null ? 'now   ' : 'before'} ${told}`)
  }
}
