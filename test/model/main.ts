/**
 * `npm run model`: runs every search, the wide ones too, one after another. Exits with 1 if a result is not as expected. `--only TEXT`:
 * only searches whose name contains it. `--trail`: also prints the schedule that leads to the error.
 */
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { versionOfTool, versions } from '../harness/versions.ts'
import { MUTATIONS } from './mutations.ts'
import { search, trail } from './pan.ts'
import type { Limits } from './pan.ts'
import { OUTSIDE, SEARCHES, WIDE } from './searches.ts'
import { isAsItMust, lineOf, reportOf } from './telling.ts'
import type { Told } from './telling.ts'

const { values } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    trail: { type: 'boolean', default: false },
    report: { type: 'string' },
    megabytes: { type: 'string', default: '6000' },
    minutes: { type: 'string', default: '60' }
  }
})

const limits: Limits = { seconds: Number(values.minutes) * 60, megabytes: Number(values.megabytes) }
const startedAt = performance.now()
const told: Told[] = []
for (const one of [...SEARCHES, ...WIDE, ...MUTATIONS, ...OUTSIDE].filter(({ name }) => name.includes(values.only))) {
  const result = { search: one, verdict: await search(one, 'by' in one ? 'counterexample' : WIDE.includes(one) ? 'wide' : 'small', limits) }
  told.push(result)
  process.stdout.write(`${lineOf(result)}\n`)
  if (values.trail && result.verdict.violated !== null) process.stdout.write(`${await trail(one, limits)}\n`)
}
if (values.report !== undefined) {
  const command = ['npm run model --', ...process.argv.slice(2)].join(' ')
  const [onceway = '', node = ''] = versions()
  const facts = {
    command,
    versions: [onceway, node, versionOfTool('spin', '-V'), versionOfTool('gcc', '--version')],
    date: new Date().toISOString().slice(0, 10),
    seconds: (performance.now() - startedAt) / 1_000
  }
  writeFileSync(values.report, reportOf(told, facts))
}
process.exitCode = told.length > 0 && told.every(isAsItMust) ? 0 : 1
