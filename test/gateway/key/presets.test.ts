/** Presets through a whole gateway: requests that pass are marked and counted, the scope of events, and OASIS repeatable requests. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { keyHeaderOf, readKeySources } from '../../../src/config/routes/key-source.ts'
import type { IdempotencyPolicy, KeyPolicy } from '../../../src/core/policy/policy.ts'
import { call } from '../../harness/call.ts'
import type { Called } from '../../harness/call.ts'
import { countingMeter, guardedRoute, relayPolicy, startGateway } from '../../harness/gateway.ts'
import { startWitness } from '../../harness/witness.ts'
import type { Behaviour, Witness } from '../../harness/witness.ts'

interface Started {
  readonly post: (body: string, headers?: Record<string, string>) => Promise<Called>
  readonly witness: Witness
  readonly counts: ReadonlyMap<string, number>
}

async function start (
  t: TestContext,
  from: string,
  { policy = {}, answer }: { policy?: Partial<IdempotencyPolicy>, answer?: Behaviour } = {}
): Promise<Started> {
  const read = readKeySources(from)
  assert.ok('value' in read)
  const key: KeyPolicy = {
    sources: read.value,
    header: keyHeaderOf(read.value),
    required: true,
    syntax: 'lenient',
    store: 'text',
    windowMs: 3_600_000
  }
  const witness = await startWitness(answer)
  const meter = countingMeter()
  const { url, close } = await startGateway(t, { routes: [guardedRoute(witness.url, relayPolicy({ key, ...policy }))], world: { meter } })
  t.after(async () => { await close(); await witness.close() })
  return {
    post: async (body, headers = {}) => call(url, '/hooks', { body, headers: { 'Content-Type': 'application/json', ...headers } }),
    witness,
    counts: meter.counts
  }
}

const statusOf = ({ headers }: Called): unknown => headers['idempotency-status']

const NOTIFICATION = { 'aeg-event-type': 'Notification' }

test('Event Grid: an event alone is guarded; several, and the handshake, go on each time, byte for byte, without a record', async (t) => {
  const { post, witness, counts } = await start(t, 'eventgrid')
  const [one, two] = ['[{"id":"1","eventType":"x"}]', '[ {"id":"1","eventType":"x"},\n{"id":"2"} ]']
  assert.deepEqual([statusOf(await post(one, NOTIFICATION)), statusOf(await post(one, NOTIFICATION))], ['executed', 'replayed'])
  for (let n = 0; n < 2; n++) {
    const { status, headers, json } = await post(two, { ...NOTIFICATION, 'X-Trace': 'a' })
    assert.deepEqual([status, headers['idempotency-status'], typeof json.id], [201, 'ignored', 'number'])
  }
  assert.equal(statusOf(await post('[{}]', { 'aeg-event-type': 'SubscriptionDeletion' })), 'ignored')
  assert.equal(statusOf(await post('[]', { 'aeg-event-type': 'SubscriptionValidation' })), 'ignored')
  assert.equal(counts.get('passed'), 4)
  const [, first] = witness.seen
  assert.equal(first?.body.toString(), two)
  assert.deepEqual(
    [first?.headers['x-trace'], first?.headers['onceway-key'], first?.headers['idempotency-attempt'], first?.headers['content-type']],
    ['a', undefined, undefined, 'application/json']
  )
})

test('Event Grid: what passes and finds nobody, or nobody who answers, says so', async (t) => {
  const { post, witness } = await start(t, 'eventgrid', { answer: (_seen, _response, socket) => { socket.resetAndDestroy() } })
  const lost = await post('[{"id":"1"},{"id":"2"}]', NOTIFICATION)
  assert.deepEqual([lost.status, lost.json.code, lost.headers['retry-after']], [503, 'upstream-failed', '1'])
  await witness.close()
  const unsent = await post('[{"id":"1"},{"id":"2"}]', NOTIFICATION)
  assert.deepEqual([unsent.status, unsent.json.code, unsent.headers['retry-after']], [503, 'upstream-unreachable', '1'])
})

test('SNS: a confirmation passes each time; a notification is its subscription\'s', async (t) => {
  const { post, witness, counts } = await start(t, 'sns', {
    policy: { scope: { kind: 'parts', parts: [{ kind: 'header', name: 'x-amz-sns-subscription-arn' }] } }
  })
  const notification = (arn: string): Record<string, string> => ({
    'x-amz-sns-message-type': 'Notification',
    'x-amz-sns-message-id': 'm-1',
    'x-amz-sns-subscription-arn': arn
  })
  const said = []
  for (const headers of [
    { 'x-amz-sns-message-type': 'SubscriptionConfirmation', 'x-amz-sns-message-id': 'm-0' },
    { 'x-amz-sns-message-type': 'SubscriptionConfirmation', 'x-amz-sns-message-id': 'm-0' },
    notification('a'),
    notification('a'),
    notification('b')
  ]) {
    said.push(statusOf(await post('{}', headers)))
  }
  assert.deepEqual(said, ['ignored', 'ignored', 'executed', 'replayed', 'executed'])
  assert.deepEqual([counts.get('passed'), witness.seen.length], [2, 4])
})

test('a batch of CloudEvents is refused, and why is said; nothing is executed', async (t) => {
  const { post, witness } = await start(t, 'cloudevents')
  const { status, json } = await post('[]', { 'Content-Type': 'application/cloudevents-batch+json' })
  assert.deepEqual([status, json.code, witness.seen.length], [400, 'key-invalid', 0])
  assert.match(json.detail, /one by one/)
})

test('OASIS: the result is told; another request with the id is 400; one that is older than what is remembered, 412', async (t) => {
  const { post, witness } = await start(t, 'repeatability', {
    policy: {
      profile: 'api',
      fingerprint: { of: ['method', 'target', 'body'], body: 'bytes' },
      onMismatch: { action: 'reject', status: 400 }
    }
  })
  const sent = (firstSentMs: number): Record<string, string> => ({
    'Repeatability-Request-ID': 'r-1',
    'Repeatability-First-Sent': new Date(firstSentMs).toUTCString()
  })
  const told = ({ status, headers }: Called): unknown[] => [status, headers['idempotency-status'], headers['repeatability-result']]
  const now = Date.now()
  assert.deepEqual(told(await post('{"n":1}', sent(now))), [201, 'executed', 'accepted'])
  assert.deepEqual(told(await post('{"n":1}', sent(now))), [201, 'replayed', 'accepted'])
  assert.deepEqual(told(await post('{"n":2}', sent(now))), [400, 'mismatch', 'rejected'])
  const old = await post('{"n":1}', sent(now - 3_600_000))
  assert.deepEqual([...told(old), old.json.code], [412, undefined, 'rejected', 'key-too-old'])
  const wrong = await post('{"n":1}', { 'Repeatability-Request-ID': 'r-1', 'Repeatability-First-Sent': 'yesterday' })
  assert.deepEqual([...told(wrong), wrong.json.code], [400, undefined, 'rejected', 'key-invalid'])
  assert.equal(witness.seen.length, 1)
})

test('content is remembered for its window, a header\'s key for the retention', async (t) => {
  const { post } = await start(t, 'hash:body')
  const until = Date.parse(String((await post('{"n":1}')).headers['idempotency-expires']))
  const { post: other } = await start(t, 'hash:body', { policy: { retentionMs: 86_400_000 } })
  assert.ok(Math.abs(until - Date.parse(String((await other('{"n":1}')).headers['idempotency-expires']))) < 60_000)
})

test('OASIS: what the upstream says of repeating is not passed on beside ours', async (t) => {
  const { post } = await start(t, 'repeatability', {
    answer: (_seen, response) => { response.writeHead(200, { 'Repeatability-Result': 'rejected' }); response.end('ok') }
  })
  const headers = { 'Repeatability-Request-ID': 'r-1', 'Repeatability-First-Sent': new Date().toUTCString() }
  for (let n = 0; n < 2; n++) assert.equal((await post('', headers)).headers['repeatability-result'], 'accepted')
  assert.equal((await post('', { 'Repeatability-First-Sent': new Date().toUTCString() })).headers['repeatability-result'], 'rejected')
})

test('a field that a sender\'s key is made of cannot be taken away on the way', async (t) => {
  const { post, witness } = await start(t, 'standard-webhooks')
  const { status, json } = await post('{}', { 'webhook-id': 'm', Connection: 'webhook-id' })
  assert.deepEqual([status, json.code, witness.seen.length], [400, 'bad-request', 0])
})

test('a body too large to be looked into is told so', async (t) => {
  const { post } = await start(t, 'pubsub', { policy: { keep: { ...relayPolicy().keep, requestBytesMax: 4 * 1024 * 1024 } } })
  const { status, json } = await post(JSON.stringify({ message: { data: 'x'.repeat(1024 * 1024), messageId: '1' }, subscription: 's' }))
  assert.deepEqual([status, json.code], [400, 'key-missing'])
  assert.match(json.detail, /larger than 1 MiB/)
})
