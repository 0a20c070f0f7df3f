/**
 * A gateway that dies at every call in turn, on the embedded store. After each death the same file is opened again, as the next process
 * would. memory.test.ts tests failing calls of a live process, which do not depend on the store.
 */
import { test } from 'node:test'
import { sweeper } from './aside.ts'
import { SCENARIOS } from './scenarios.ts'

const runAll = sweeper()

/** A file belongs to one process. One of the two stories of a second life suffices, because only the store differs. */
const ALONE = SCENARIOS.filter(({ name, gateways }) => gateways === 1 && name !== 'new-life')

for (const scenario of ALONE) {
  test(`${scenario.name}, in one file: whatever call the process dies at, the next one finds what it needs`, async (t) => {
    const cases = await runAll({ scenario, store: 'sqlite', locks: 'none', faults: ['before', 'after'] })
    t.diagnostic(`${cases} cases`)
  })
}

test('keep, behind the worker that serves it: whatever call the process dies at, the next one finds what it needs', async (t) => {
  const [keep] = ALONE
  if (keep === undefined) throw new Error('there is no scenario')
  const cases = await runAll({ scenario: keep, store: 'sqlite-worker', locks: 'none', faults: ['after'] })
  t.diagnostic(`${cases} cases`)
})
