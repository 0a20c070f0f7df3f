/** A gateway that stops says what it waits for, and the next one waits for it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../harness/eventually.ts'
import { slow } from '../harness/slow.ts'
import { startWitness } from '../harness/witness.ts'
import { Onceway, pay } from './onceway.ts'
import { directory } from './world.ts'

const LONG = { ONCEWAY_DRAIN_TIMEOUT: '90s' }

test('Ctrl-C says what is under way, goes on saying it, and the last line is that it has stopped', async (t) => {
  const { answer, open } = slow()
  const witness = await startWitness(answer)
  t.after(() => witness.close())
  const onceway = new Onceway(t, ['serve', '--upstream', witness.url], { ...LONG, ONCEWAY_LOG_LEVEL: 'info' })
  const { url } = await onceway.urls()
  const payments = [pay(url, 'a'), pay(url, 'b')]
  await witness.reached(2)
  onceway.process.kill('SIGINT')
  await onceway.says(
    /^onceway: stopping: 2 executions in flight, up to \d+ s more\. Press Ctrl-C again to end at once\. Requests in flight become indeterminate\.$/
  )
  await onceway.says(/^onceway: still stopping: 2 executions in flight, up to \d+ s more\./)
  open()
  assert.deepEqual(await Promise.all(payments), ['executed', 'executed'])
  assert.equal(await onceway.lastLine(), 'onceway has stopped.')
  assert.equal(await onceway.ended, 0)
})

test('Ctrl-C says that the gateway still serves for drain.delay', async (t) => {
  const onceway = new Onceway(t, ['serve', '--upstream', 'http://127.0.0.1:1'], { ONCEWAY_DRAIN_DELAY: '60s' })
  await onceway.urls()
  onceway.process.kill('SIGINT')
  await onceway.says(/^onceway: stopping: it serves for \d+ s more \(drain\.delay\), nothing is in flight\. Press Ctrl-C again to end at once/)
})

test('a gateway that is started while the one before drains waits for it, says so once, and serves what that one stored', async (t) => {
  const { answer, open } = slow()
  const witness = await startWitness(answer)
  t.after(() => witness.close())
  const args = ['serve', '--upstream', witness.url, '--data-dir', directory(t)]
  const before = new Onceway(t, args, LONG)
  const { url } = await before.urls()
  const payment = pay(url, 'a')
  await witness.reached(1)
  before.process.kill('SIGTERM')
  const next = new Onceway(t, args, LONG)
  await eventually(() => next.err.includes('\n'), 'it says what it waits for', 60_000)
  open()
  assert.equal(await payment, 'executed')
  assert.equal(await pay((await next.urls()).url, 'a'), 'replayed')
  const by = process.platform === 'linux' ? ` (process ${before.process.pid})` : ''
  assert.match(next.err, /^onceway: another onceway[^\n]* still serves from \S+: waiting up to \d+ s for it to stop\.\n$/)
  assert.ok(next.err.startsWith(`onceway: another onceway${by} still`), next.err)
})

test('SIGTERM ends a gateway that waits for the one before', async (t) => {
  const args = ['serve', '--upstream', 'http://127.0.0.1:1', '--data-dir', directory(t)]
  await new Onceway(t, args).urls()
  const next = new Onceway(t, args, LONG)
  await eventually(() => next.err.includes('waiting'), 'it waits', 60_000)
  next.process.kill('SIGTERM')
  assert.equal(await next.ended, 0)
  assert.ok(!next.out.includes('listens'))
})
