/** A cell is split in two under load: no key is executed twice, every answer stays. Small; `npm run cells -- split` does more. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { needs } from '../harness/needs.ts'
import { runSplit } from './split.ts'

describe('a cell that is split under load', needs('nginx', 'haproxy', 'postgres tools', 'own redis'), () => {
  test('executes no key twice, and forgets none, also if a gateway is killed meanwhile', async (t) => {
    const result = await runSplit(t, { keysPerSecond: 15, secondsAround: 2, gatewaysPerCell: 1, kill: true })
    assert.deepEqual(result.violations, [])
    assert.equal(new Set(result.ids).size, 2)
    assert.ok(result.keys > 30 && result.replays > result.keys && result.unknown > 1, JSON.stringify(result))
  })
})
