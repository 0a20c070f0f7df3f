import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DurabilityWatch } from '../../src/background/durability.ts'
import { STRICT } from '../../src/core/protocol/durability.ts'
import type { Remark, Durability, ReportedDurability } from '../../src/core/protocol/durability.ts'
import { recordingLog } from '../harness/gateway.ts'
import { ManualClock } from '../harness/manual-clock.ts'

const WEAK: Durability = { reasons: ['asynchronous-standby'] }

function start () {
  const [clock, log] = [new ManualClock(), recordingLog()]
  const metered: ReportedDurability[] = []
  const world: { answers: Durability | null, remarks: readonly Remark[], asked: number } = { answers: STRICT, remarks: [], asked: 0 }
  const watch = new DurabilityWatch({
    durability: async () => {
      world.asked++
      if (world.answers === null) throw new Error('not there')
      return world.answers
    },
    remarks: () => world.remarks,
    meter: { standing: (told) => { metered.push(told) } },
    clock,
    log,
    logsChanges: true
  }).start()
  return { clock, log, metered, world, watch }
}

test('it is said once, and again when it is another one', async () => {
  const { clock, log, metered, world, watch } = start()
  await clock.advance(1)
  assert.deepEqual(log.lines, [
    { level: 'info', message: 'the promise is strict', event: 'promise-strict', promise: 'strict', reasons: [] }
  ])
  await clock.advance(4_000)
  assert.equal(world.asked, 1, 'the database is not asked all the time')
  world.answers = WEAK
  await clock.advance(2_000)
  assert.equal(log.lines.length, 2)
  assert.deepEqual([log.lines[1]?.level, log.lines[1]?.['reasons']], ['warn', ['asynchronous-standby']])
  assert.match(String(log.lines[1]?.message), /synchronous_standby_names/)
  assert.equal(watch.last?.promise, 'weakened')
  assert.equal(metered.at(-1)?.promise, 'weakened')
  await clock.advance(300_000)
  assert.equal(log.lines.length, 2)
  await watch.stop()
})

test('until the database can be asked nothing is said, and then soon', async () => {
  const { clock, log, world, watch } = start()
  world.answers = null
  await clock.advance(10_000)
  assert.deepEqual([watch.last, log.lines], [null, []])
  world.answers = STRICT
  await clock.advance(1_000)
  assert.equal(watch.last?.promise, 'strict')
  await watch.stop()
})

test('while a database that was reached cannot be asked, what was told last stands', async () => {
  const { clock, log, world, watch } = start()
  await clock.advance(1)
  world.answers = null
  await clock.advance(120_000)
  assert.equal(watch.last?.promise, 'strict')
  assert.equal(log.lines.length, 1)
  world.answers = WEAK
  await clock.advance(1_000)
  assert.equal(watch.last?.promise, 'weakened', 'a failover is looked at as soon as there is somebody to ask')
  await watch.stop()
})

test('what Redis says of itself is added when it has been reached', async () => {
  const { clock, log, world, watch } = start()
  await clock.advance(1)
  world.remarks = ['redis-evicts']
  await clock.advance(1_000)
  assert.deepEqual(log.lines[1], {
    level: 'info',
    message: 'the promise is strict',
    event: 'promise-strict',
    promise: 'strict',
    reasons: [],
    remarks: ['redis-evicts']
  })
  assert.equal(world.asked, 1)
  await watch.stop()
})
