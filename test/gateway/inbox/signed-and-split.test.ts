/** Signatures and batches of an inbox. */
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { keyHeaderOf, readKeySources } from '../../../src/config/routes/key-source.ts'
import { headerValue } from '../../../src/core/headers/lines.ts'
import { recordId } from '../../../src/core/record/record-id.ts'
import { readPointer } from '../../../src/core/json/pointer.ts'
import type { IdempotencyPolicy, VerifyPolicy } from '../../../src/core/policy/policy.ts'
import type { StoredRequest } from '../../../src/core/inbox/message.ts'
import { call } from '../../harness/call.ts'
import type { Called } from '../../harness/call.ts'
import { countingMeter } from '../../harness/gateway.ts'
import { ASYNC, startAsync, startInbox } from './inbox-world.ts'
import type { InboxWorld } from './inbox-world.ts'

const OWNER = Buffer.alloc(16, 1)
const SECRET = 'hunter2'
const VERIFY: VerifyPolicy = { scheme: 'github', secrets: [SECRET], toleranceMs: 300_000, hmac: null }
const signed = (body: string, secret = SECRET): Record<string, string> => ({
  'X-Hub-Signature-256': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`
})

function keyFrom (from: string | readonly string[]): Pick<IdempotencyPolicy, 'key' | 'fingerprint'> {
  const read = readKeySources(from)
  assert.ok('value' in read)
  return {
    key: { sources: read.value, header: keyHeaderOf(read.value), required: true, syntax: 'lenient', store: 'text', windowMs: 86_400_000 },
    fingerprint: { of: ['method', 'target'], body: 'none' }
  }
}

/** What consumers would receive, oldest first. */
async function requests ({ inbox }: InboxWorld): Promise<StoredRequest[]> {
  await inbox.alive(OWNER, 60_000)
  return (await inbox.take({ routes: [{ route: 'things', places: 100 }], owner: OWNER })).map(({ request }) => request)
}

const bodies = async (world: InboxWorld): Promise<string[]> => (await requests(world)).map(({ body }) => body.toString())

test('a good signature is told to the consumer, in a field that nobody else writes', async (t) => {
  const world = await startInbox(t, { policy: { verify: VERIFY } })
  assert.equal((await world.ask('k', { body: 'one', headers: { ...signed('one'), 'Onceway-Verified': 'stripe' } })).status, 202)
  const [request] = await requests(world)
  assert.deepEqual(request?.headers.filter((name) => /verified/i.test(name)), ['Onceway-Verified'])
  assert.equal(headerValue(request.headers, 'onceway-verified'), 'github')
})

test('without verify nothing is told, whatever the sender says', async (t) => {
  const world = await startInbox(t)
  await world.ask('k', { headers: { 'Onceway-Verified': 'github' } })
  const [request] = await requests(world)
  assert.equal(headerValue(request?.headers ?? [], 'onceway-verified'), null)
})

test('no signature, another\'s or another body\'s is a 401 and nothing is accepted, not even as a duplicate', async (t) => {
  const world = await startInbox(t, { policy: { verify: VERIFY } })
  await world.ask('taken', { body: 'one', headers: signed('one') })
  for (const [key, headers] of [['k', {}], ['k', signed('one', 'hunter3')], ['k', signed('two')], ['taken', {}]] as const) {
    const refused = await world.ask(key, { body: 'one', headers })
    assert.deepEqual([refused.status, refused.json.code, refused.headers['www-authenticate']], [401, 'signature-invalid', 'Signature'])
    assert.match(String(refused.json.detail), /Nothing was accepted\.$/)
  }
  assert.equal((await world.messages()).length, 1)
})

test('it is counted under which secret a sender signs, and why a signature was refused', async (t) => {
  const counted: string[] = []
  const signature = (route: string, result: string): void => { counted.push(`${route} ${result}`) }
  const meter = new Proxy(countingMeter(), {
    get: (target, name) => name === 'signature' ? signature : Reflect.get(target, name) as unknown
  })
  const world = await startInbox(t, { policy: { verify: { ...VERIFY, secrets: [SECRET, 'hunter1'] } }, world: { meter } })
  const bad = { 'X-Hub-Signature-256': 'sha256=no hex' }
  for (const headers of [signed('one'), signed('one', 'hunter1'), {}, bad, signed('one', 'hunter3')]) {
    await world.ask('k', { body: 'one', headers })
  }
  assert.deepEqual(counted, ['current', 'previous', 'missing', 'malformed', 'wrong'].map((result) => `things ${result}`))
})

test('where clients ask for the inbox, a signature is asked of those who do not as well', async (t) => {
  const { ask, witness, messages, url } = await startAsync(t, { policy: { verify: VERIFY } })
  assert.match((await ask('a', { headers: ASYNC })).json.detail, /Nothing was accepted\.$/)
  assert.match((await ask('a')).json.detail, /Nothing was executed\.$/)
  assert.equal((await ask('a', { headers: signed('same') })).status, 201)
  assert.equal((await ask('b', { headers: { ...ASYNC, ...signed('same') } })).status, 202)
  // The same for a message without a key. A request that is not guarded is not checked.
  assert.equal((await call(url, '/things', { body: 'same', headers: ASYNC })).status, 401)
  assert.equal((await call(url, '/things', { body: 'same' })).status, 201)
  assert.deepEqual([witness.seen.map(({ headers }) => headers['onceway-verified']), (await messages()).length], [['github', undefined], 1])
})

interface Sender {
  readonly name: string
  readonly from: string
  readonly headers: Record<string, string>
  readonly event: (id: string) => string
  readonly together: (...events: readonly string[]) => string
  readonly alone: (event: string) => string
  readonly type: string
  readonly key: (id: string) => string
}

const JSON_TYPE = { 'Content-Type': 'application/json' }
const SENDERS: readonly Sender[] = [
  {
    name: 'CloudEvents',
    from: 'cloudevents',
    headers: { 'Content-Type': 'application/cloudevents-batch+json' },
    event: (id) => `{"source":"/a","id":"${id}","n":1.50}`,
    together: (...events) => `[${events.join()}]`,
    alone: (event) => event,
    type: 'application/cloudevents+json',
    key: (id) => `cloudevents:2:/a1:${id}`
  },
  {
    name: 'Event Grid',
    from: 'eventgrid',
    headers: { ...JSON_TYPE, 'aeg-event-type': 'Notification' },
    event: (id) => `{"id":"${id}","n":1.50}`,
    together: (...events) => `[${events.join()}]`,
    alone: (event) => `[${event}]`,
    type: 'application/json',
    key: (id) => `eventgrid:${id}`
  },
  {
    name: 'SQS',
    from: 'json:/Records/0/messageId',
    headers: JSON_TYPE,
    event: (id) => `{"messageId":"${id}","n":1.50}`,
    together: (...events) => `{"Records":[${events.join()}]}`,
    alone: (event) => `{"Records":[${event}]}`,
    type: 'application/json',
    key: (id) => id
  }
]

async function senderOf (
  t: TestContext,
  { from, headers }: Sender,
  inbox: Parameters<typeof startInbox>[1] = {}
): Promise<{ world: InboxWorld, send: (body: string) => Promise<Called> }> {
  const world = await startInbox(t, { ...inbox, inbox: { batch: 'split', ...inbox?.inbox }, policy: keyFrom(from) })
  return { world, send: async (body) => call(world.url, '/things', { headers, body }) }
}

for (const sender of SENDERS) {
  const { name, event, together, alone, type, key } = sender

  test(`${name}: every event of a batch is a message, under the key that it has alone`, async (t) => {
    const { world, send } = await senderOf(t, sender)
    const accepted = await send(together(event('1'), event('2')))
    assert.deepEqual([accepted.status, accepted.headers['idempotency-status']], [202, 'accepted'])
    // One event comes again in another batch, twice. New events are accepted, and known ones stay single.
    assert.equal((await send(together(event('2'), event('3'), event('3')))).status, 202)
    const messages = await world.messages()
    assert.deepEqual(
      messages.map(({ id }) => id.toString('hex')),
      ['1', '2', '3'].map((id) => recordId('things', 'anonymous', key(id)).toString('hex'))
    )
    assert.deepEqual(messages.map(({ about }) => about.keyText), ['1', '2', '3'].map(key))
    const stored = await requests(world)
    assert.deepEqual(stored.map(({ body }) => body.toString()), ['1', '2', '3'].map((id) => alone(event(id))))
    for (const { headers } of stored) assert.equal(headerValue(headers, 'content-type'), type)
  })

  test(`${name}: one event without an identity, and none is accepted`, async (t) => {
    const { world, send } = await senderOf(t, sender)
    const refused = await send(together(event('1'), '{"poison":true}', event('3')))
    assert.deepEqual([refused.status, refused.json.code], [400, 'key-missing'])
    assert.match(String(refused.json.detail), /^Item 1 of the batch: .*Nothing of this request was accepted\.$/)
    assert.deepEqual(await world.messages(), [])
  })

  test(`${name}: a batch is refused where it is not taken apart`, async (t) => {
    const { world, send } = await senderOf(t, sender, { inbox: { batch: 'refuse' } })
    const refused = await send(together(event('1'), event('2')))
    assert.deepEqual([refused.status, refused.json.code], [400, 'key-invalid'])
    assert.deepEqual([await world.messages(), world.witness.seen.length], [[], 0])
  })
}

for (const [what, headers] of [
  ['as text', { 'Content-Type': 'text/plain; charset=UTF-8' }],
  ['as a form', { 'Content-Type': 'application/x-www-form-urlencoded' }],
  ['without a media type', {}]
] as const) {
  test(`Records ${what}: none is lost that comes beside one that is known`, async (t) => {
    const sqs = SENDERS[2] as Sender
    const { event, together, alone } = sqs
    const { world, send } = await senderOf(t, { ...sqs, headers })
    for (const batch of [['1', '2'], ['1', '3']]) assert.equal((await send(together(...batch.map(event)))).status, 202)
    assert.deepEqual(await bodies(world), ['1', '2', '3'].map((id) => alone(event(id))))
  })

  test(`Records ${what}: refused where a route does not take batches apart`, async (t) => {
    const sqs = SENDERS[2] as Sender
    const { world, send } = await senderOf(t, { ...sqs, headers }, { inbox: { batch: 'refuse' } })
    const refused = await send(sqs.together(sqs.event('1'), sqs.event('2')))
    assert.deepEqual([refused.status, refused.json.code, await world.messages()], [400, 'key-invalid', []])
  })
}

test('a batch is signed as a whole, and ordered by its events', async (t) => {
  const order = { kind: 'json', pointer: readPointer('/group') ?? [], written: '/group' } as const
  const world = await startInbox(t, { inbox: { batch: 'split', order }, policy: { ...keyFrom('json:/id'), verify: VERIFY } })
  const body = '[{"id":"1","group":"a"},{"id":"2","group":"a"},{"id":"3","group":"b"}]'
  assert.equal((await call(world.url, '/things', { headers: JSON_TYPE, body })).status, 401)
  assert.equal((await call(world.url, '/things', { headers: { ...JSON_TYPE, ...signed(body) }, body })).status, 202)
  assert.deepEqual(await bodies(world), ['{"id":"1","group":"a"}', '{"id":"3","group":"b"}'])
  const unfit = '[{"id":"4","group":"a"},{"id":"5","group":{}}]'
  const refused = await call(world.url, '/things', { headers: { ...JSON_TYPE, ...signed(unfit) }, body: unfit })
  assert.deepEqual([refused.status, refused.json.code, (await world.messages()).length], [400, 'bad-request', 3])
  assert.match(
    refused.json.detail,
    /^Item 1 of the batch: The value by which messages of this route are ordered is no string.*Nothing of this request was accepted\.$/
  )
})

test('an item whose key has another request behind it is named, and none is accepted, full or not', async (t) => {
  const policy: Partial<IdempotencyPolicy> = { ...keyFrom('json:/id'), fingerprint: { of: ['body'], body: 'bytes' } }
  const world = await startInbox(t, { inbox: { batch: 'split', depthMax: 3 }, policy })
  const send = async (body: string): Promise<Called> => call(world.url, '/things', { headers: JSON_TYPE, body })
  const said = /^Item 2 of the batch: Its key has already been used with a different request\. Nothing of this request was accepted\.$/
  assert.equal((await send('{"id":"1","n":1}')).status, 202)
  const refused = await send('[{"id":"2"},{"id":"2"},{"id":"1","n":2}]')
  assert.deepEqual([refused.status, refused.json.code, (await world.messages()).length], [422, 'key-reused', 1])
  assert.match(refused.json.detail, said)
  assert.equal((await send('{"id":"2"}')).status, 202)
  const full = await send('[{"id":"2"},{"id":"2"},{"id":"1","n":2}]')
  assert.equal(full.status, 422)
  assert.match(full.json.detail, said)
  // A single event gets the same answer.
  assert.doesNotMatch((await send('{"id":"1","n":2}')).json.detail, /Item/)
})

test('a batch is answered with one entry for each item, in order, and duplicates say so; what came alone is answered as everywhere', async (t) => {
  const world = await startInbox(t, { inbox: { batch: 'split' }, policy: keyFrom('json:/id') })
  const send = async (body: string): Promise<Called> => call(world.url, '/things', { headers: JSON_TYPE, body })
  const told = (id: string) => {
    const name = recordId('things', 'anonymous', id).toString('base64url')
    return { id: name, location: `/.well-known/onceway/messages/${name}` }
  }
  const again = (id: string) => ({ ...told(id), duplicate: true })
  for (const [body, messages] of [
    ['[{"id":"1"},{"id":"2"},{"id":"1"}]', [told('1'), told('2'), again('1')]],
    ['[{"id":"1"},{"id":"1"}]', [again('1'), again('1')]],
    ['[{"id":"3"}]', [told('3')]],
    ['[{"id":"4"},{"id":"3"}]', [told('4'), again('3')]]
  ] as const) {
    const { status, json, headers } = await send(body)
    assert.deepEqual([status, json, headers.location], [202, { messages }, undefined], body)
  }
  const { json, headers } = await send('{"id":"1"}')
  assert.deepEqual([json, headers.location], [told('1'), told('1').location])
})

test('an identity that nobody looks for because the body is too deep, or no JSON, is not said to be missing without a word of why', async (t) => {
  const world = await startInbox(t, { inbox: { batch: 'split' }, policy: keyFrom('json:/id') })
  const deep = `{"id":"1","n":${'['.repeat(200)}${']'.repeat(200)}}`
  for (const [body, said] of [
    [deep, /which is not there\. The body is nested deeper than 128 levels, and is not looked into\.$/],
    [`[${deep}]`, /^The batch is nested deeper than 128 levels/],
    ['\ufeff{"id":"1"}', /The body is no JSON in UTF-8\.$/],
    ['{"no":1}', /which is not there\.$/]
  ] as const) {
    const refused = await call(world.url, '/things', { headers: JSON_TYPE, body })
    assert.equal(refused.status, 400)
    assert.match(refused.json.detail, said)
  }
})

test('an inbox without room for all of a batch takes none of it, and the sender may come again', async (t) => {
  const { world, send } = await senderOf(t, SENDERS[2] as Sender, { inbox: { depthMax: 2 } })
  const { event, together } = SENDERS[2] as Sender
  assert.equal((await send(together(event('1')))).status, 202)
  const full = await send(together(event('2'), event('3')))
  assert.deepEqual([full.status, full.json.code, full.headers['retry-after'], (await world.messages()).length], [503, 'overloaded', '1', 1])
  assert.equal((await send(together(event('1'), event('2')))).status, 503)
  assert.equal((await send(together(event('1')))).status, 202, 'what it has it has')
})

test('a batch of more events or bytes than the inbox ever holds is told so, and not to come again', async (t) => {
  const { event, together } = SENDERS[2] as Sender
  const batch = together(event('1'), event('2'), event('3'))
  for (const inbox of [{ depthMax: 2 }, { bytesMax: batch.length / 2 }]) {
    const { world, send } = await senderOf(t, SENDERS[2] as Sender, { inbox })
    const refused = await send(batch)
    assert.deepEqual([refused.status, refused.json.code, refused.headers['retry-after']], [413, 'request-too-large', undefined])
    assert.match(String(refused.json.detail), /Send fewer at once\. Nothing was accepted\.$/)
    assert.deepEqual(await world.messages(), [])
    assert.equal((await send(together(event('1')))).status, 202)
    assert.equal(world.gateway.limits.buffered.held, 0)
  }
})

test('a batch that was taken before its route\'s bound was lowered gets its 202 again', async (t) => {
  const { event, together } = SENDERS[2] as Sender
  const batch = together(event('1'), event('2'), event('3'))
  const before = await senderOf(t, SENDERS[2] as Sender)
  assert.equal((await before.send(batch)).status, 202)
  const lowered = await senderOf(t, SENDERS[2] as Sender, { inbox: { depthMax: 2 }, shared: before.world.inbox })
  assert.equal((await lowered.send(batch)).status, 202)
})

test('what was held for a batch is given back', async (t) => {
  const { world, send } = await senderOf(t, SENDERS[2] as Sender)
  const { event, together } = SENDERS[2] as Sender
  for (const body of [together(event('1'), event('2')), together(event('1'), '{}')]) await send(body)
  assert.equal(world.gateway.limits.buffered.held, 0)
})
