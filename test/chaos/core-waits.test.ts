import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { CoreWaits, waitedForCoreMs, waitedMs } from './core-waits.ts'

const BUSY_MS = 1_500

test('more busy processes than cores wait for one, and one that sleeps does not', async (t) => {
  const idle = spawn(process.execPath, ['--eval', 'console.log(1); setInterval(() => {}, 60_000)'])
  t.after(() => { idle.kill('SIGKILL') })
  await once(idle.stdout, 'data')
  const busy = Array.from({ length: 2 * availableParallelism() }, () => spawn(process.execPath, [
    '--eval',
    `const until = Date.now() + ${2 * BUSY_MS}; while (Date.now() < until);`
  ]))
  t.after(() => { for (const child of busy) child.kill('SIGKILL') })
  await Promise.all(busy.map(async (child) => once(child, 'spawn')))
  const pids = busy.map(({ pid = 0 }) => pid)
  const [waits, idleWaits] = [new CoreWaits(), new CoreWaits()]
  assert.equal(waits.look(pids), null, 'nothing is known before the first look')
  idleWaits.look([idle.pid ?? 0])
  await sleep(BUSY_MS)
  const waited = waits.look(pids)
  assert.ok((idleWaits.look([idle.pid ?? 0])?.ms ?? 0) < BUSY_MS / 10)
  assert.ok(waited !== null && waited.ms > BUSY_MS / 4 && waited.ms <= waited.untilMs - waited.fromMs, JSON.stringify(waited))
})

test('of a process that has ended nothing is known', async () => {
  const child = spawn(process.execPath, ['--version'])
  await once(child, 'exit')
  assert.equal(waitedForCoreMs(child.pid ?? 0), null)
})

test('a wait counts by its share of the time that is asked for', () => {
  const waits = [{ fromMs: 0, untilMs: 100, ms: 50 }, { fromMs: 100, untilMs: 200, ms: 100 }]
  assert.equal(waitedMs(waits, 0, 200), 150)
  assert.equal(waitedMs(waits, 50, 150), 75)
  assert.equal(waitedMs(waits, 200, 900), 0)
})
