import assert from 'node:assert/strict'
import { test } from 'node:test'
import { call } from '../harness/call.ts'
import { guardedRoute, startGateway } from '../harness/gateway.ts'
import { startWitness } from '../harness/witness.ts'

test('the first request is executed and every retry gets its answer byte for byte', async (t) => {
  const witness = await startWitness()
  t.after(() => witness.close())
  const gateway = await startGateway(t, { routes: [guardedRoute(witness.url)] })
  const ask = () => call(gateway.url, '/things', {
    headers: { 'Idempotency-Key': 'k-1', 'Content-Type': 'application/json' },
    body: '{"a":1}'
  })
  const first = await ask()
  assert.equal(first.status, 201)
  assert.equal(first.headers['idempotency-status'], 'executed')
  assert.equal(first.headers['idempotent-replayed'], undefined)
  assert.ok(Date.parse(first.headers['idempotency-expires'] as string) > Date.now())
  const retry = await ask()
  assert.equal(retry.status, 201)
  assert.equal(retry.headers['idempotency-status'], 'replayed')
  assert.equal(retry.headers['idempotent-replayed'], 'true')
  assert.equal(retry.headers['location'], '/things/1')
  assert.equal(retry.headers['x-custom'], 'kept')
  assert.deepEqual(retry.body, first.body)
  assert.equal(witness.seen.length, 1)
})

test('another request under the same key is refused with 422 and tells nothing', async (t) => {
  const witness = await startWitness()
  t.after(() => witness.close())
  const gateway = await startGateway(t, { routes: [guardedRoute(witness.url)] })
  await call(gateway.url, '/things', { headers: { 'Idempotency-Key': 'k-1' }, body: 'one' })
  const other = await call(gateway.url, '/things', { headers: { 'Idempotency-Key': 'k-1' }, body: 'two' })
  assert.equal(other.status, 422)
  assert.equal(other.json.code, 'key-reused')
  assert.equal(other.json.type, 'urn:onceway:problem:key-reused')
  assert.equal(other.headers['idempotency-status'], 'mismatch')
  assert.ok(!other.text.includes('k-1') && !other.text.includes('one'))
  assert.equal(witness.seen.length, 1)
})
