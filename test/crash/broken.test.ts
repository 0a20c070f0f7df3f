/** Gateways on broken ports violate the invariant that depends on the port's promise, and the checker reports it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { violationsOf } from '../harness/checker.ts'
import { BROKEN } from './broken-ports.ts'
import { scenarioNamed } from './scenarios.ts'
import { run } from './simulation.ts'
import type { Case } from './simulation.ts'

for (const { name, scenario, broken, breaks, locks = 'kept', diesAfter } of BROKEN) {
  test(`the checker catches ${name}: ${breaks.join(', ')}`, async () => {
    const sound: Case = { scenario: scenarioNamed(scenario), store: 'memory', locks, fault: null }
    const first = await run(sound)
    assert.deepEqual(violationsOf(first.history), [])
    const at = first.calls[0]?.find(({ operation }) => operation === diesAfter)?.number
    const { history } = await run({ ...sound, broken, fault: at === undefined ? null : { gateway: 0, at, kind: 'after' } })
    const broke = new Set(violationsOf(history).map(({ invariant }) => invariant))
    assert.deepEqual(breaks.filter((invariant) => !broke.has(invariant)), [], `only ${Array.from(broke).join(', ')} broke`)
  })
}
