/** A change of the fingerprint's policy, as two gateways beside each other have it: what was released is free, for the same request. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { MemoryStore } from '../../src/store/memory.ts'
import { NO_LOCKS } from '../../src/store/no-locks.ts'
import { apiPolicy, guardedRoute, relayPolicy, startGateway, upstreamPolicy } from '../harness/gateway.ts'
import type { TestGateway } from '../harness/gateway.ts'
import { call } from '../harness/call.ts'
import { startWitness } from '../harness/witness.ts'
import type { Behaviour, Witness } from '../harness/witness.ts'

const JSON_BODY = { body: '{"a":1}', headers: { 'Idempotency-Key': 'k', 'Content-Type': 'application/json' } }

async function startTwo (t: TestContext, before: ReturnType<typeof apiPolicy>, after: ReturnType<typeof apiPolicy>, answer: Behaviour): Promise<[TestGateway, TestGateway, Witness]> {
  const witness = await startWitness(answer)
  const world = { records: new MemoryStore({ nowMs: Date.now }), locks: NO_LOCKS }
  const gateway = async (idempotency: typeof before): Promise<TestGateway> => startGateway(t, { world, routes: [{ ...guardedRoute(witness.url), upstream: upstreamPolicy(witness.url), idempotency }] })
  const both: [TestGateway, TestGateway] = [await gateway(before), await gateway(after)]
  t.after(async () => { for (const { close } of both) await close(); await witness.close() })
  return [...both, witness]
}

test('a released key is free under another fingerprint policy too, for the same request', async t => {
  const before = apiPolicy({ fingerprint: { of: ['method', 'target', 'mediaType', 'body'], body: 'auto' } })
  const after = apiPolicy({ fingerprint: { of: ['method', 'target', 'mediaType', 'body'], body: 'json' } })
  const [one, other, witness] = await startTwo(t, before, after, (_seen, response, _socket, count) => {
    if (count < 3) response.writeHead(503, { 'Retry-After': '1' }).end('busy')
    else response.writeHead(201).end('made')
  })
  assert.equal((await call(one.url, '/things', JSON_BODY)).headers['idempotency-status'], 'released')
  const foreign = await call(other.url, '/things', { ...JSON_BODY, body: '{"a":2}' })
  assert.equal(foreign.json.code, 'key-reused')
  // There and back: each claim has its own route's fingerprint.
  assert.equal((await call(other.url, '/things', JSON_BODY)).headers['idempotency-status'], 'released')
  const last = await call(one.url, '/things', JSON_BODY)
  assert.deepEqual([last.status, last.headers['idempotency-status']], [201, 'executed'])
  assert.deepEqual(witness.seen.map(({ headers }) => headers['idempotency-attempt']), ['1', '2', '3'])
  assert.equal((await call(other.url, '/things', JSON_BODY)).headers['idempotent-replayed'], 'true')
})

test('so is one whose outcome is not known, where the route says retry', async t => {
  const before = relayPolicy({ fingerprint: { of: ['method', 'target'], body: 'none' } })
  const after = relayPolicy({ fingerprint: { of: ['target'], body: 'none' } })
  const [one, other, witness] = await startTwo(t, before, after, (_seen, response, socket, count) => {
    if (count === 1) socket.destroy()
    else response.writeHead(200).end('taken')
  })
  assert.equal((await call(one.url, '/things', JSON_BODY)).json.code, 'outcome-unknown')
  assert.equal((await call(other.url, '/things', JSON_BODY)).headers['idempotency-status'], 'executed')
  assert.deepEqual(witness.seen.map(({ headers }) => headers['idempotency-attempt']), ['1', '2'])
})
