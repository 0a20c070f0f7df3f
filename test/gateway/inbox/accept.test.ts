import assert from 'node:assert/strict'
import { test } from 'node:test'
import { headerValue } from '../../../src/core/headers/lines.ts'
import { readPointer } from '../../../src/core/json/pointer.ts'
import type { Pointer } from '../../../src/core/json/pointer.ts'
import { call } from '../../harness/call.ts'
import { eventually } from '../../harness/eventually.ts'
import { DOWN, firstly, gate, LOST_REPLY, LOST_REQUEST } from '../../harness/faulty-store.ts'
import { apiPolicy, countingMeter } from '../../harness/gateway.ts'
import { idOf, startInbox } from './inbox-world.ts'

const OWNER = Buffer.alloc(16, 1)

test('a request is accepted once, and a duplicate gets the same 202', async (t) => {
  const { ask, messages, witness } = await startInbox(t)
  const first = await ask('order-1', { body: '{"a":1}' })
  assert.equal(first.status, 202)
  const id = idOf('order-1').toString('base64url')
  assert.deepEqual(first.json, { id, location: `/.well-known/onceway/messages/${id}` })
  assert.equal(first.headers.location, first.json.location)
  assert.equal(first.headers['idempotency-status'], 'accepted')
  assert.equal(first.headers['preference-applied'], undefined)
  const again = await ask('order-1', { body: '{"a":1}' })
  assert.deepEqual(
    [again.status, again.text, again.headers.location, again.headers['idempotency-status']],
    [202, first.text, first.headers.location, 'accepted']
  )
  const [message, ...more] = await messages()
  assert.deepEqual(more, [])
  assert.ok(message?.id.equals(idOf('order-1')))
  assert.equal(witness.seen.length, 0)
})

test('a credential of the gateway\'s own is not stored with a message, nor what a sender puts in its place', async (t) => {
  const { url, inbox } = await startInbox(t, { upstream: { requestHeaders: [['X-Consumer-Token', 'of the gateway']] } })
  await call(url, '/things', {
    headers: { 'Idempotency-Key': 'k', Authorization: 'Bearer of the sender', 'x-consumer-token': 'of the sender' },
    body: '{}'
  })
  await inbox.alive(OWNER, 60_000)
  const [delivery] = await inbox.take({ routes: [{ route: 'things', places: 1 }], owner: OWNER })
  assert.equal(headerValue(delivery?.request.headers ?? [], 'idempotency-key'), 'k')
  assert.equal(headerValue(delivery?.request.headers ?? [], 'x-consumer-token'), null)
})

test('what the consumer will get is what came: target, fields and bytes, with the hop of the acceptance', async (t) => {
  const { url, inbox } = await startInbox(t, { upstream: { requestHeaders: [['X-Consumer', 'one']] } })
  const body = Buffer.from([0, 255, 10, 13])
  await call(url, '/things/7?x=%20', {
    method: 'PATCH',
    headers: {
      'Idempotency-Key': 'k',
      'Content-Type': 'application/octet-stream',
      'X-Own': 'kept',
      'Onceway-Key': 'forged',
      Prefer: 'return=minimal, respond-async; foo=1, wait=10'
    },
    body
  })
  await inbox.alive(OWNER, 60_000)
  const [delivery] = await inbox.take({ routes: [{ route: 'things', places: 1 }], owner: OWNER })
  const request = delivery?.request
  assert.deepEqual([request?.method, request?.target], ['PATCH', '/things/7?x=%20'])
  assert.deepEqual(request?.body, body)
  const value = (name: string): string | null => headerValue(request?.headers ?? [], name)
  assert.deepEqual(
    [
      'x-own', 'x-consumer', 'content-type', 'idempotency-key', 'via', 'x-forwarded-for', 'onceway-key',
      'content-length', 'prefer'
    ].map(value),
    ['kept', null, 'application/octet-stream', 'k', '1.1 onceway', '127.0.0.1', null, null, 'return=minimal']
  )
})

test('another request under the same key is a mismatch, unless the route replays', async (t) => {
  const strict = await startInbox(t)
  await strict.ask('k', { body: 'one' })
  const other = await strict.ask('k', { body: 'two' })
  assert.deepEqual([other.status, other.json.code], [422, 'key-reused'])
  assert.equal((await strict.messages()).length, 1)
  const lax = await startInbox(t, { policy: { onMismatch: { action: 'replay', status: 422 } } })
  await lax.ask('k', { body: 'one' })
  assert.equal((await lax.ask('k', { body: 'two' })).status, 202)
  assert.equal((await lax.messages()).length, 1)
})

test('a request without a key is a message of its own each time, and needs a key where the route says so', async (t) => {
  const meter = countingMeter()
  const { url, messages, witness } = await startInbox(t, { world: { meter } })
  const locations = new Set<string | undefined>()
  for (let time = 0; time < 3; time++) {
    const answer = await call(url, '/things', { body: 'same' })
    assert.equal(answer.status, 202)
    locations.add(answer.headers.location)
  }
  assert.equal(locations.size, 3)
  assert.equal((await messages()).length, 3)
  assert.equal(meter.counts.get('keyless'), 3)
  assert.equal(witness.seen.length, 0)
  const required = await startInbox(t, {
    policy: {
      key: {
        sources: [{ kind: 'header', name: 'idempotency-key' }],
        header: 'idempotency-key',
        required: true,
        syntax: 'lenient',
        store: 'hash',
        windowMs: 1_000
      }
    }
  })
  assert.equal((await call(required.url, '/things', { body: 'same' })).json.code, 'key-missing')
})

test('beyond its depth an inbox takes nothing new, and answers for what it has', async (t) => {
  const { ask, messages, gateway, inbox } = await startInbox(t, { inbox: { depthMax: 2 } })
  assert.equal((await ask('a')).status, 202)
  assert.equal((await ask('b')).status, 202)
  const full = await ask('c')
  assert.deepEqual([full.status, full.json.code, full.headers['retry-after']], [503, 'overloaded', '1'])
  assert.equal((await ask('a')).status, 202)
  assert.equal((await ask('a', { body: 'other' })).status, 422)
  assert.equal((await messages()).length, 2)
  // Delivered, and the poll shows it: there is room again.
  await inbox.alive(OWNER, 60_000)
  for (const { token } of await inbox.take({ routes: [{ route: 'things', places: 2 }], owner: OWNER })) {
    await inbox.settle(token, { kind: 'delivered', answer: null, status: 204 })
  }
  gateway.depths.pollStarted()
  gateway.depths.pollFinished(await inbox.depths())
  assert.equal((await ask('c')).status, 202)
})

test('so it is with its bytes', async (t) => {
  const { ask } = await startInbox(t, { inbox: { bytesMax: 10 } })
  assert.equal((await ask('a', { body: '123456' })).status, 202)
  assert.equal((await ask('b', { body: '12345' })).json.code, 'overloaded')
  assert.equal((await ask('c', { body: '1234' })).status, 202)
})

test('what is accepted while the store is asked how much there is, counts', async (t) => {
  const { ask, gateway } = await startInbox(t, { inbox: { depthMax: 2 } })
  await ask('a')
  gateway.depths.pollStarted()
  await ask('b')
  gateway.depths.pollFinished([])
  assert.equal((await ask('c')).status, 202)
  assert.equal((await ask('d')).json.code, 'overloaded')
})

test('what comes at once counts before it is accepted, and is told that it is the inbox that is full; what was not accepted gives its room back', async (t) => {
  const { ask, faults, messages, calls } = await startInbox(t, { inbox: { depthMax: 2 } })
  const { promise: held, resolve: letGo } = Promise.withResolvers<void>()
  faults.set('accept', async (proceed) => { await held; return proceed() })
  const asked = Array.from({ length: 6 }, (_, index) => ask(`k${index}`))
  const refused = await Promise.race(asked)
  assert.deepEqual([refused.status, refused.json.code], [503, 'overloaded'])
  assert.match(String(refused.json.detail), /^The inbox of this route is full/)
  letGo()
  assert.deepEqual((await Promise.all(asked)).map(({ status }) => status).sort(), [202, 202, 503, 503, 503, 503])
  assert.deepEqual([calls('accept'), (await messages()).length], [2, 2])
  const second = await startInbox(t, { inbox: { depthMax: 1 } })
  second.faults.set('accept', DOWN)
  assert.equal((await second.ask('a')).json.code, 'store-unavailable')
  second.faults.delete('accept')
  assert.equal((await second.ask('b')).status, 202)
})

test('the store is down: 503 and nothing is accepted', async (t) => {
  const { ask, faults, messages, gateway } = await startInbox(t)
  faults.set('accept', DOWN)
  const answer = await ask('k')
  assert.deepEqual([answer.status, answer.json.code, answer.headers['retry-after']], [503, 'store-unavailable', '1'])
  assert.match(answer.json.detail, /Nothing was sent/)
  assert.equal((await messages()).length, 0)
  await eventually(() => gateway.limits.buffered.held === 0, () => `${gateway.limits.buffered.held} bytes are held`)
  faults.clear()
  assert.equal((await ask('k')).status, 202)
})

test('an acceptance in doubt is a 503 that says so, and its retry finds the message', async (t) => {
  for (const [fault, came] of [[LOST_REPLY, 1], [LOST_REQUEST, 0]] as const) {
    const { ask, faults, messages } = await startInbox(t)
    faults.set('accept', firstly(1, fault))
    const answer = await ask('k')
    assert.deepEqual([answer.status, answer.json.code], [503, 'store-unavailable'])
    assert.match(answer.json.detail, /taken once/)
    assert.doesNotMatch(answer.json.detail, /Nothing was sent/)
    assert.equal((await messages()).length, came)
    assert.equal((await ask('k')).status, 202)
    assert.equal((await messages()).length, 1)
  }
})

test('a store that hangs is not waited for longer than for a claim; the body is held until it answers', async (t) => {
  const { ask, faults, messages, gateway } = await startInbox(t, { world: { claimWithinMs: 20 } })
  const hanging = gate()
  faults.set('accept', hanging.fault)
  const answer = await ask('k', { body: 'x'.repeat(1_000) })
  assert.deepEqual([answer.status, answer.json.code], [503, 'store-unavailable'])
  assert.equal(gateway.limits.buffered.held, 1_000)
  hanging.open()
  await eventually(() => gateway.limits.buffered.held === 0, () => `${gateway.limits.buffered.held} bytes are held`)
  assert.equal((await messages()).length, 1)
})

test('a drain accepts nothing', async (t) => {
  const { ask, gateway, messages } = await startInbox(t)
  gateway.drain.advance('refusing')
  assert.equal((await ask('k')).json.code, 'draining')
  assert.equal((await messages()).length, 0)
})

test('messages with one value are one group, in the order of their acceptance', async (t) => {
  const { ask, inbox } = await startInbox(t, {
    inbox: { order: { kind: 'json', pointer: readPointer('/account') as Pointer, written: '/account' } }
  })
  await ask('a1', { body: '{"account":"a","n":1}' })
  await ask('a2', { body: '{"account":"a","n":2}' })
  await ask('b1', { body: '{"account":"b"}' })
  await ask('none', { body: '{}' })
  const unfit = await ask('unfit', { body: '{"account":["a"]}' })
  assert.deepEqual([unfit.status, unfit.json.code], [400, 'bad-request'])
  await inbox.alive(OWNER, 60_000)
  const taken = await inbox.take({ routes: [{ route: 'things', places: 10 }], owner: OWNER })
  assert.deepEqual(
    taken.map(({ token }) => token.id.toString('hex')).sort(),
    ['a1', 'b1', 'none'].map((key) => idOf(key).toString('hex')).sort()
  )
})

test('a body in which the order cannot be looked for is refused: it may not go ahead of what has its value', async (t) => {
  const { ask, messages } = await startInbox(t, {
    inbox: { order: { kind: 'json', pointer: readPointer('/account') as Pointer, written: '/account' } },
    policy: { keep: { ...apiPolicy().keep, requestBytesMax: 2 * 1024 * 1024 } }
  })
  const UNREAD: ReadonlyArray<readonly [what: string, body: string, why: RegExp]> = [
    ['a byte order mark', '\ufeff{"account":"a"}', /is no JSON in UTF-8/],
    ['cut off', '{"account":"a"', /is no JSON/],
    ['something behind its end', '{"account":"a"} x', /is no JSON/],
    ['a form', 'account=a', /is no JSON/],
    ['too deep', `{"account":"a","n":${'['.repeat(200)}${']'.repeat(200)}}`, /is nested deeper than 128 levels/],
    ['too large', `{"account":"a","n":"${'n'.repeat(1024 * 1024)}"}`, /is larger than 1 MiB/]
  ]
  for (const [index, [what, body, why]] of UNREAD.entries()) {
    const refused = await ask(`k${index}`, { body })
    assert.deepEqual([refused.status, refused.json.code], [400, 'bad-request'], what)
    assert.match(refused.json.detail, /cannot be looked for: the body .*Nothing was accepted\.$/)
    assert.match(refused.json.detail, why)
  }
  assert.deepEqual(await messages(), [])
})

test('without a value there is no order: none, null, an empty text, no body', async (t) => {
  const { ask, messages } = await startInbox(t, {
    inbox: { order: { kind: 'json', pointer: readPointer('/account') as Pointer, written: '/account' } }
  })
  for (const [index, body] of ['{}', '{"account":null}', '{"account":""}', '[]', ''].entries()) {
    assert.equal((await ask(`k${index}`, { body })).status, 202, body)
  }
  assert.deepEqual((await messages()).map(({ ordered }) => ordered), [false, false, false, false, false])
})

test('every acceptance wakes whoever delivers, and no duplicate does', async (t) => {
  const { ask, gateway } = await startInbox(t)
  let woken = 0
  gateway.onMessage = () => { woken++ }
  await ask('k')
  await ask('k')
  assert.equal(woken, 1)
})
