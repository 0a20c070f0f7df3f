import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../harness/eventually.ts'
import { relayPolicy, startGuarded } from '../harness/gateway.ts'
import { slow } from '../harness/slow.ts'

const SHORT = { answerWithinMs: 50 }

for (const [profile, policy, status] of [['api', SHORT, 504], ['relay', relayPolicy(SHORT), 503]] as const) {
  test(`a starter that waited long enough gets ${status} (${profile}); the execution goes on and its retry replays`, async (t) => {
    const { answer, open } = slow()
    const { ask, witness, gateway } = await startGuarded(t, { answer, policy })
    const starter = await ask('k')
    assert.equal(starter.status, status)
    assert.equal(starter.json.code, 'in-flight')
    assert.equal(starter.headers['idempotency-status'], 'in-flight')
    assert.ok(Number(starter.headers['retry-after']) >= 1)
    assert.equal(gateway.executions.size, 1)
    open()
    await eventually(() => gateway.executions.size === 0, 'the execution has ended')
    const retry = await ask('k')
    assert.equal(retry.headers['idempotent-replayed'], 'true')
    assert.equal(witness.seen.length, 1)
  })
}

test('a stream that begins after its starter has gone is read to its end and leaves a tombstone', async (t) => {
  const { promise: finished, resolve: finish } = Promise.withResolvers<boolean>()
  // More than all buffers on the way take. If no one reads, the upstream cannot send all of it.
  const late = slow((_seen, response) => {
    response.on('close', () => { finish(response.writableFinished) })
    response.writeHead(200, { 'Content-Type': 'text/event-stream' }).end('data: 1\n\n'.repeat(2_000_000))
  })
  const { ask, witness } = await startGuarded(t, { answer: late.answer, policy: SHORT })
  assert.equal((await ask('k')).status, 504)
  late.open()
  assert.equal(await finished, true)
  assert.equal((await ask('k')).json.code, 'answer-not-kept')
  assert.equal(witness.seen.length, 1)
})
