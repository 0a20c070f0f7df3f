/** Derived keys: found in the request, readable, and refused with a clear detail if they cannot be made. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { keyHeaderOf, readKeySources } from '../../../src/config/routes/key-source.ts'
import type { KeyPolicy } from '../../../src/core/policy/policy.ts'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { call } from '../../harness/call.ts'
import type { Called } from '../../harness/call.ts'
import { guardedRoute, relayPolicy, startGateway } from '../../harness/gateway.ts'
import { startWitness } from '../../harness/witness.ts'

function keyed (from: string | readonly string[], over: Partial<KeyPolicy> = {}): KeyPolicy {
  const read = readKeySources(from)
  assert.ok('value' in read)
  return {
    sources: read.value,
    header: keyHeaderOf(read.value),
    required: false,
    syntax: 'lenient',
    store: 'text',
    windowMs: 86_400_000,
    ...over
  }
}

async function start (
  t: TestContext,
  key: KeyPolicy
): Promise<{
  post: (path: string, body?: string, headers?: Record<string, string>) => Promise<Called>
  executions: () => number
  records: MemoryStore
}> {
  const witness = await startWitness()
  const records = new MemoryStore({ nowMs: Date.now })
  const { url, close } = await startGateway(t, { routes: [guardedRoute(witness.url, relayPolicy({ key }))], world: { records } })
  t.after(async () => { await close(); await witness.close() })
  return {
    post: async (path, body = '', headers = {}) => call(url, path, { body, headers }),
    executions: () => witness.seen.length,
    records
  }
}

test('a redelivery whose envelope differs is the same event by the id in its body', async (t) => {
  const { post, executions, records } = await start(t, keyed('json:/event/id'))
  const first = await post('/hooks', '{"event":{"id":"evt_1"},"attempt":1}')
  const again = await post('/hooks', '{"attempt":2,"event":{"id":"evt_1"}}')
  assert.deepEqual([first.headers['idempotency-status'], again.headers['idempotency-status'], executions()], ['executed', 'replayed', 1])
  assert.equal(again.text, first.text)
  assert.equal((await records.list({ limit: 1 }))[0]?.about.keyText, 'evt_1')
})

test('a body that lacks it gets 400 with the pointer named, nothing is executed, and nothing of the payload is said', async (t) => {
  const { post, executions } = await start(t, keyed('json:/event/id'))
  for (const body of ['', 'secret, no JSON', '{"event":{}}', '{"event":{"id":null}}']) {
    const { status, json, text } = await post('/hooks', body)
    assert.deepEqual([status, json.code, json.error.type], [400, 'key-missing', 'invalid_request_error'], body)
    assert.match(json.detail, /\/event\/id/)
    assert.doesNotMatch(text, /secret/)
  }
  const { status, json } = await post('/hooks', '{"event":{"id":{}}}')
  assert.deepEqual([status, json.code, executions()], [400, 'key-invalid', 0])
})

test('the same content twice is one event; other content is another', async (t) => {
  const { post, executions } = await start(t, keyed('hash:body'))
  const statuses = []
  for (const body of ['{"n":1}', '{"n":1}', '{"n":2}']) statuses.push((await post('/hooks', body)).headers['idempotency-status'])
  assert.deepEqual([statuses, executions()], [['executed', 'replayed', 'executed'], 2])
})

test('a key in the query; a request without one passes through unguarded', async (t) => {
  const { post, executions } = await start(t, keyed('query:id'))
  assert.equal((await post('/hooks?id=1')).headers['idempotency-status'], 'executed')
  assert.equal((await post('/hooks?id=1')).headers['idempotency-status'], 'replayed')
  assert.equal((await post('/hooks')).headers['idempotency-status'], undefined)
  assert.equal(executions(), 2)
})

test('where a topic was sent with the message, both make the key', async (t) => {
  const { post, executions } = await start(t, keyed('template:{header:X-Topic}-{header:X-Offset}'))
  const sent = async (topic: string, offset: string): Promise<unknown> =>
    (await post('/hooks', '{}', { 'X-Topic': topic, 'X-Offset': offset })).headers['idempotency-status']
  assert.deepEqual(
    [await sent('a', '1'), await sent('a', '1'), await sent('b', '1'), await sent('a', '2')],
    ['executed', 'replayed', 'executed', 'executed']
  )
  assert.equal((await post('/hooks', '{}', { 'X-Topic': 'a' })).json.code, 'key-missing')
  assert.equal(executions(), 3)
})

test('the client\'s own header comes first where a list says so', async (t) => {
  const { post, executions } = await start(t, keyed(['header:Idempotency-Key', 'json:/id']))
  assert.equal((await post('/hooks', '{"id":"a"}', { 'Idempotency-Key': 'k' })).headers['idempotency-status'], 'executed')
  assert.equal((await post('/hooks', '{"id":"b"}', { 'Idempotency-Key': 'k' })).headers['idempotency-status'], 'replayed')
  assert.equal((await post('/hooks', '{"id":"k"}')).headers['idempotency-status'], 'replayed')
  assert.equal((await post('/hooks', '{"id":"b"}')).headers['idempotency-status'], 'executed')
  assert.equal(executions(), 2)
})

const NO_KEY: ReadonlyArray<readonly [from: string | readonly string[], body: string, said: string]> = [
  ['header:Idempotency-Key', '{}', 'The request has no Idempotency-Key header.'],
  ['header:x-operation-id', '{}', 'The request has no X-Operation-Id header.'],
  ['query:operation', '{}', 'The request has no operation in its query.'],
  [['header:Idempotency-Key', 'query:operation'], '{}', 'The request has no Idempotency-Key header and no operation in its query.'],
  ['json:/id', '{}', 'The key is to be the body\'s value at /id, which is not there.'],
  [
    ['header:Idempotency-Key', 'json:/id'],
    '{}',
    'The key is to be the body\'s value at /id, which is not there. The request has no Idempotency-Key header either.'
  ],
  ['hash:/id,/type', '{"id":1}', 'The key is to be made of the body\'s value at /type, which is not there'],
  ['template:{header:X-Topic}:{query:n}', '{}', 'A part of the key is to be the x-topic header, which is not there.'],
  ['github', '{}', 'The request has no X-Github-Delivery header (github).'],
  [['standard-webhooks', 'svix'], '{}', 'The request has no Webhook-Id header (standard-webhooks) and no Svix-Id header (svix).'],
  ['cloudevents', '{}', 'The request has no Ce-Source header (cloudevents).'],
  ['eventgrid', '{}', 'The request has no key from eventgrid.'],
  ['stripe-event', '{}', 'The key is to be the body\'s value at /id, which is not there.'],
  ['pubsub', '{}', 'A part of the key is to be the body\'s value at /message/messageId, which is not there.']
]

for (const [from, body, said] of NO_KEY) {
  test(`a request without a key is told where the route looks for one: ${[from].flat().join(', ')}`, async (t) => {
    const { post, executions } = await start(t, keyed(from, { required: true }))
    const { status, json } = await post('/hooks?other=canary', body, { 'X-Other': 'canary' })
    assert.deepEqual([status, json.code, executions()], [400, 'key-missing', 0])
    assert.equal(String(json.detail).slice(0, said.length), said)
    assert.equal(json.error.message, json.detail)
    assert.doesNotMatch(JSON.stringify(json), /canary/)
  })
}
