/** Two gateways with different fingerprint policies: a released key is free for the same request on both. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { NO_LOCKS } from '../../../src/store/shared/no-locks.ts'
import { apiPolicy, guardedRoute, relayPolicy, startGateway, upstreamPolicy } from '../../harness/gateway.ts'
import type { TestGateway } from '../../harness/gateway.ts'
import { call } from '../../harness/call.ts'
import { startWitness } from '../../harness/witness.ts'
import type { Behaviour, Witness } from '../../harness/witness.ts'

const JSON_BODY = { body: '{"a":1}', headers: { 'Idempotency-Key': 'k', 'Content-Type': 'application/json' } }

async function startTwo (
  t: TestContext,
  before: ReturnType<typeof apiPolicy>,
  after: ReturnType<typeof apiPolicy>,
  answer: Behaviour
): Promise<[TestGateway, TestGateway, Witness]> {
  const witness = await startWitness(answer)
  const world = { records: new MemoryStore({ nowMs: Date.now }), locks: NO_LOCKS }
  const gateway = async (idempotency: typeof before): Promise<TestGateway> => startGateway(t, {
    world,
    routes: [{ ...guardedRoute(witness.url), upstream: upstreamPolicy(witness.url), idempotency }]
  })
  const both: [TestGateway, TestGateway] = [await gateway(before), await gateway(after)]
  t.after(async () => { for (const { close } of both) await close(); await witness.close() })
  return [...both, witness]
}

test('a released key is free under another fingerprint policy too, for the same request', async (t) => {
  const before = apiPolicy({ fingerprint: { of: ['method', 'target', 'mediaType', 'body'], body: 'auto' } })
  const after = apiPolicy({ fingerprint: { of: ['method', 'target', 'mediaType', 'body'], body: 'json' } })
  const [one, other, witness] = await startTwo(t, before, after, (_seen, response, _socket, count) => {
    if (count < 3) response.writeHead(503, { 'Retry-After': '1' }).end('busy')
    else response.writeHead(201).end('made')
  })
  assert.equal((await call(one.url, '/things', JSON_BODY)).headers['idempotency-status'], 'released')
  const foreign = await call(other.url, '/things', { ...JSON_BODY, body: '{"a":2}' })
  assert.equal(foreign.json.code, 'key-reused')
  // In both directions: each claim has the fingerprint of its own route.
  assert.equal((await call(other.url, '/things', JSON_BODY)).headers['idempotency-status'], 'released')
  const last = await call(one.url, '/things', JSON_BODY)
  assert.deepEqual([last.status, last.headers['idempotency-status']], [201, 'executed'])
  assert.deepEqual(witness.seen.map(({ headers }) => headers['idempotency-attempt']), ['1', '2', '3'])
  assert.equal((await call(other.url, '/things', JSON_BODY)).headers['idempotent-replayed'], 'true')
})

test('so is one whose outcome is not known, where the route says retry', async (t) => {
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

const IGNORING = { of: ['method', 'target', 'body'], body: 'json', ignore: ['/trace_id'] } as const

test('a row of a policy without members is compared by one with them, and the other way round it is neither replayed nor executed', async (t) => {
  const [plain, ignoring, witness] = await startTwo(t, apiPolicy(), apiPolicy({ fingerprint: IGNORING }), (_seen, response) => {
    response.writeHead(201).end('made')
  })
  const ask = async (gateway: TestGateway, key: string, body = '{"a":1}') => call(gateway.url, '/things', {
    body,
    headers: { 'Idempotency-Key': key, 'Content-Type': 'application/json' }
  })
  assert.equal((await ask(plain, 'one')).headers['idempotency-status'], 'executed')
  assert.equal((await ask(ignoring, 'one')).headers['idempotent-replayed'], 'true')
  assert.equal((await ask(ignoring, 'one', '{"a":1,"trace_id":1}')).json.code, 'key-reused')
  assert.equal((await ask(ignoring, 'two')).headers['idempotency-status'], 'executed')
  assert.equal((await ask(plain, 'two')).json.code, 'outcome-unknown')
  assert.equal((await ask(plain, 'two', '{"a":2}')).json.code, 'outcome-unknown')
  assert.equal((await ask(ignoring, 'two', '{"trace_id":7,"a":1}')).headers['idempotent-replayed'], 'true')
  assert.equal(witness.seen.length, 2)
})

test('a key that was released under other members is not free: nobody can tell whether it is the same request', async (t) => {
  const [one, other, witness] = await startTwo(
    t,
    apiPolicy({ fingerprint: IGNORING }),
    apiPolicy({ fingerprint: { ...IGNORING, ignore: ['/trace_id', '/sent_at'] } }),
    (_seen, response) => { response.writeHead(503, { 'Retry-After': '1' }).end('busy') }
  )
  assert.equal((await call(one.url, '/things', JSON_BODY)).headers['idempotency-status'], 'released')
  assert.equal((await call(other.url, '/things', JSON_BODY)).json.code, 'outcome-unknown')
  assert.equal(witness.seen.length, 1)
  assert.equal((await call(one.url, '/things', JSON_BODY)).headers['idempotency-status'], 'released')
  assert.equal(witness.seen.length, 2)
})
