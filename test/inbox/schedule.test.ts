/** Messages that a sender schedules: from the request to the delivery. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { readPointer } from '../../src/core/json/pointer.ts'
import type { IdempotencyPolicy, InboxPolicy, ValueSource } from '../../src/core/policy/policy.ts'
import { keyHeaderOf, readKeySources } from '../../src/config/routes/key-source.ts'
import { call } from '../harness/call.ts'
import type { Called } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { startGateway } from '../harness/gateway.ts'
import { startWitness } from '../harness/witness.ts'
import { accept, Consumer, detail, inboxRoute, message, says, shared, startWorker, states } from './world.ts'

const LONGEST_MS = 604_800_000
const JSON_TYPE = { 'Content-Type': 'application/json' }

const header = (name: string): ValueSource => ({ kind: 'header', name })
function member (text: string): ValueSource {
  return { kind: 'json', pointer: readPointer(text) ?? assert.fail('it is a pointer'), written: text }
}
const BY_HEADER: Partial<InboxPolicy> = { schedule: { at: header('x-deliver-at'), delay: header('x-delay'), longestMs: LONGEST_MS } }
const BY_MEMBER: Partial<InboxPolicy> = { schedule: { at: member('/deliver_at'), delay: member('/delay'), longestMs: LONGEST_MS } }

async function start (t: TestContext, inbox: Partial<InboxPolicy>, policy: Partial<IdempotencyPolicy> = {}) {
  const receivedAtMs: number[] = []
  const witness = await startWitness((_seen, response) => {
    receivedAtMs.push(Date.now())
    response.end()
  })
  t.after(async () => { await witness.close() })
  const { url, world } = await startGateway(t, { routes: [inboxRoute(inbox, policy, witness.url)] })
  const ask = async (key: string, headers: Record<string, string | string[]> = {}, body = '{}'): Promise<Called> =>
    call(url, '/things', { headers: { 'Idempotency-Key': key, ...JSON_TYPE, ...headers }, body })
  const waits = async (): Promise<number[]> =>
    (await world.inbox.list({ limit: 100 })).map(({ dueAtMs, receivedAtMs: since }) => (dueAtMs ?? NaN) - since)
  return { url, witness, receivedAtMs, inbox: world.inbox, ask, waits }
}

async function refusedBy (asked: Promise<Called>): Promise<string> {
  const { status, json } = await asked
  assert.deepEqual([status, json.code], [400, 'bad-request'])
  return String(json.detail)
}

describe('over HTTP', () => {
  test('a delay in a header: accepted at once, delivered after it, with the time at its Location', async (t) => {
    const { url, ask, receivedAtMs, witness } = await start(t, BY_HEADER)
    const beganAtMs = Date.now()
    const { status, headers } = await ask('k', { 'X-Delay': '0.6' })
    assert.equal(status, 202)
    const { json } = await call(url, String(headers.location), { method: 'GET' })
    const dueAtMs = Date.parse(String(json.nextAttemptAt))
    assert.deepEqual([json.state, json.attempts, dueAtMs - Date.parse(String(json.receivedAt))], ['waiting', 0, 600])
    assert.equal((await ask('k', { 'X-Delay': '60' })).headers['idempotency-status'], 'accepted', 'a duplicate changes nothing')
    await eventually(() => witness.seen.length > 0, 'it is delivered')
    assert.ok(receivedAtMs[0] !== undefined && receivedAtMs[0] >= beganAtMs + 600 && receivedAtMs[0] < dueAtMs + 500)
    // The consumer gets the request as it came.
    assert.equal(witness.seen[0]?.headers['x-delay'], '0.6')
  })

  test('a time in a header: two seconds ahead on a gateway that has nothing else to do', async (t) => {
    const { ask, receivedAtMs } = await start(t, BY_HEADER)
    const dueAtMs = Date.now() + 2_000
    assert.equal((await ask('k', { 'X-Deliver-At': new Date(dueAtMs).toISOString() })).status, 202)
    await eventually(() => receivedAtMs.length > 0, 'it is delivered')
    const lateMs = (receivedAtMs[0] ?? 0) - dueAtMs
    assert.ok(lateMs >= -5 && lateMs < 500, `${lateMs} ms late`)
  })

  test('a member of the body: a date-time, Unix seconds, seconds, or nothing', async (t) => {
    const { ask, waits } = await start(t, BY_MEMBER)
    const nowMs = Date.now()
    const bodies = [
      { deliver_at: new Date(nowMs + 3_600_000).toISOString() },
      { deliver_at: Math.floor(nowMs / 1_000) + 7_200 },
      { delay: 60 },
      { delay: '2h' }
    ]
    for (const [index, body] of bodies.entries()) assert.equal((await ask(`k${index}`, {}, JSON.stringify(body))).status, 202)
    const expected = [3_600_000, 7_200_000, 60_000, 7_200_000]
    for (const [index, ms] of (await waits()).entries()) assert.ok(Math.abs(ms - (expected[index] ?? NaN)) < 2_000, `${ms} ms`)
  })

  test('due at once: no value, an empty one, null, no delay, and a time in the past', async (t) => {
    const { ask, inbox } = await start(t, BY_MEMBER)
    const past = ['{"deliver_at":"2001-01-01T00:00:00Z"}', '{"deliver_at":1}']
    const bodies = ['{}', '{"deliver_at":null}', '{"deliver_at":""}', '{"delay":0}', ...past]
    for (const [index, body] of bodies.entries()) assert.equal((await ask(`k${index}`, {}, body)).status, 202, body)
    await eventually(async () => (await inbox.list({ limit: 100 })).every(({ state }) => state === 'delivered'), 'all are delivered')
  })

  test('refused, and nothing is accepted: what cannot be read, what is too far ahead, and both at once', async (t) => {
    const { ask, inbox } = await start(t, BY_HEADER)
    for (const [headers, said] of [
      [{ 'X-Deliver-At': 'tomorrow' }, /^The time at which the message is due is neither .*\. Nothing was accepted\.$/],
      [{ 'X-Deliver-At': ['0', '0'] }, /^The time at which the message is due is there more than once\. Nothing was accepted\.$/],
      [{ 'X-Delay': '-1' }, /^The value that says how long the message waits is neither .*\. Nothing was accepted\.$/],
      [{ 'X-Delay': '8d' }, /^The message is due in more than 604800 seconds, which is the most on this route\. Nothing was accepted\.$/],
      [{ 'X-Deliver-At': '2999-01-01T00:00:00Z' }, /^The message is due in more than 604800 seconds/],
      [{ 'X-Deliver-At': '0', 'X-Delay': '0' }, /^The request says both when .* and how long it waits\. .* Nothing was accepted\.$/]
    ] as const) {
      assert.match(await refusedBy(ask('k', headers as Record<string, string>)), said)
    }
    assert.deepEqual(await inbox.list({ limit: 100 }), [])
  })

  test('a body in which the value cannot be looked for is refused', async (t) => {
    const { ask, inbox } = await start(t, BY_MEMBER)
    for (const body of ['no JSON', '{"delay":1.5}', '{"delay":[1]}', '{"delay":1,"delay":2}']) {
      assert.match(await refusedBy(ask('k', {}, body)), /Nothing was accepted\.$/, body)
    }
    assert.deepEqual(await inbox.list({ limit: 100 }), [])
  })

  test('each item of a batch has its own time; one that cannot be read refuses them all, and is named', async (t) => {
    const read = readKeySources('json:/id')
    assert.ok('value' in read)
    const key: IdempotencyPolicy['key'] = {
      sources: read.value, header: keyHeaderOf(read.value), required: true, syntax: 'lenient', store: 'text', windowMs: 86_400_000
    }
    const { url, inbox, waits } = await start(t, { ...BY_MEMBER, batch: 'split' }, { key })
    const send = async (...items: readonly object[]) => call(url, '/things', { headers: JSON_TYPE, body: JSON.stringify(items) })
    assert.match(
      await refusedBy(send({ id: 'a' }, { id: 'b', delay: 'soon' })),
      /^Item 1 of the batch: The value that says how long .*\. Nothing of this request was accepted\.$/
    )
    assert.match(await refusedBy(send({ id: 'a', delay: '9d' }, { id: 'b' })), /^Item 0 of the batch: The message is due in more than/)
    assert.deepEqual(await inbox.list({ limit: 100 }), [])
    assert.equal((await send({ id: 'a', delay: 60 }, { id: 'b', delay: 120 }, { id: 'c', delay: '1h' })).status, 202)
    assert.deepEqual((await waits()).sort((one, other) => one - other), [60_000, 120_000, 3_600_000])
  })

  test('`async: allowed`: what is accepted has its time, and what cannot be read is refused before anything is sent', async (t) => {
    const { ask, witness, waits, inbox } = await start(t, BY_HEADER, { inboxFor: 'asked' })
    const asked = { Prefer: 'respond-async' }
    await refusedBy(ask('k', { ...asked, 'X-Delay': 'soon' }))
    await refusedBy(ask('k', { ...asked, 'X-Delay': '1', 'X-Deliver-At': '1' }))
    assert.deepEqual([witness.seen.length, await inbox.list({ limit: 100 })], [0, []])
    assert.equal((await ask('k', { ...asked, 'X-Delay': '60' })).status, 202)
    assert.deepEqual(await waits(), [60_000])
    // What is executed at once has no time to wait for.
    assert.equal((await ask('other', { 'X-Delay': 'soon' })).status, 200)
    assert.equal(witness.seen.length, 1)
  })
})

describe('the deliverer', () => {
  const SCHEDULED = inboxRoute(BY_HEADER)
  const scheduled = (text: string, delayMs: number) => ({ ...message(text), delayMs })

  test('a message that another gateway has accepted is found at its time', async (t) => {
    const store = shared()
    const { clock } = store
    const consumer = new Consumer(clock, () => says(204))
    startWorker(t, store, consumer)
    await clock.advance(10_300)
    const startedAtMs = clock.monotonicMs()
    await accept(store, null, scheduled('one', 2_000))
    await clock.advance(3_500)
    assert.deepEqual(consumer.asked.map(({ atMs }) => atMs - startedAtMs), [2_000])
  })

  test('the gateway that accepts a message knows of a time before its next look', async (t) => {
    const store = shared()
    const { clock } = store
    const consumer = new Consumer(clock, () => says(204))
    const worker = startWorker(t, store, consumer)
    await clock.advance(10_300)
    const startedAtMs = clock.monotonicMs()
    await accept(store, null, scheduled('one', 150))
    worker.gateway.onMessage(150)
    await clock.advance(1_000)
    assert.deepEqual(consumer.asked.map(({ atMs }) => atMs - startedAtMs), [150])
  })

  test('times that lie close together are each met within a fraction of a second', async (t) => {
    const store = shared()
    const { clock } = store
    const consumer = new Consumer(clock, () => says(204))
    startWorker(t, store, consumer, { routes: [SCHEDULED] })
    await clock.advance(10_300)
    const startedAtMs = clock.monotonicMs()
    const delays = [1_500, 1_510, 1_700, 2_050, 2_900]
    for (const delayMs of delays) await accept(store, null, scheduled(`in ${delayMs}`, delayMs))
    await clock.advance(5_000)
    assert.deepEqual(await states(store), { delivered: delays.length })
    for (const [index, { atMs }] of consumer.asked.entries()) {
      const lateMs = atMs - startedAtMs - (delays[index] ?? NaN)
      assert.ok(lateMs >= 0 && lateMs <= 120, `${lateMs} ms late`)
    }
  })

  test('a scheduled message keeps the whole of its maxAge for its retries', async (t) => {
    const store = shared()
    const { clock } = store
    const consumer = new Consumer(clock, ({ attempt }) => says(attempt < 3 ? 503 : 204))
    startWorker(t, store, consumer, { routes: [inboxRoute({ ...BY_HEADER, ageMaxMs: 60_000 })] })
    await accept(store, null, scheduled('one', 3_600_000))
    await clock.advance(3_600_000 + 30_000)
    assert.deepEqual(await states(store), { delivered: 1 })
    assert.equal((await detail(store, 'one')).tries, 3)
  })
})
