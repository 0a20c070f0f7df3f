/** A gateway that dies, or whose calls fail, at every call in turn: on the memory store, Redis kept and lost. */
import { test } from 'node:test'
import { FAULTS } from '../harness/crashing.ts'
import { sweeper } from './aside.ts'
import { SCENARIOS } from './scenarios.ts'

const runAll = sweeper()

for (const scenario of SCENARIOS) {
  test(`${scenario.name}: whatever call the process dies at or loses, the invariants hold and every client gets its answer`, async (t) => {
    const cases = await runAll({ scenario, store: 'memory', locks: 'kept', faults: FAULTS })
    t.diagnostic(`${cases} cases`)
  })
  // A death before a call is nearly a death after the previous call. Once is enough here.
  test(`${scenario.name}: and so they do if Redis loses everything when the process dies`, async (t) => {
    const cases = await runAll({ scenario, store: 'memory', locks: 'flushed', faults: ['after'] })
    t.diagnostic(`${cases} cases`)
  })
}
