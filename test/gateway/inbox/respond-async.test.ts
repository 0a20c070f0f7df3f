import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { headerValue } from '../../../src/core/headers/lines.ts'
import { MemoryInbox } from '../../../src/store/memory/inbox.ts'
import { NO_LOCKS } from '../../../src/store/shared/no-locks.ts'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import type { Called } from '../../harness/call.ts'
import { call } from '../../harness/call.ts'
import { eventually } from '../../harness/eventually.ts'
import { DOWN, fail, faulty, firstly, gate, LOST_REPLY, LOST_REQUEST } from '../../harness/faulty-store.ts'
import { apiPolicy, countingMeter } from '../../harness/gateway.ts'
import type { GuardedOptions } from '../../harness/gateway.ts'
import { ASYNC, idOf, startAsync } from './inbox-world.ts'
import type { InboxWorld } from './inbox-world.ts'

/** Two processes with one database and no Redis. */
async function startTwo (t: TestContext): Promise<[InboxWorld, InboxWorld, MemoryInbox]> {
  const records = new MemoryStore({ nowMs: Date.now })
  const shared = new MemoryInbox({ nowMs: Date.now })
  const [one, other] = [
    await startAsync(t, { shared, world: { records, locks: NO_LOCKS } }),
    await startAsync(t, { shared, world: { records, locks: NO_LOCKS } })
  ]
  return [one, other, shared]
}

test('without the preference a request is executed, with it accepted; a route without `async` does not look at it', async (t) => {
  const { ask, messages, witness } = await startAsync(t)
  assert.equal((await ask('now')).headers['idempotency-status'], 'executed')
  const later = await ask('later', { headers: ASYNC })
  assert.deepEqual(
    [later.status, later.headers['idempotency-status'], later.headers['preference-applied']],
    [202, 'accepted', 'respond-async']
  )
  assert.equal(later.headers.location, `/.well-known/onceway/messages/${idOf('later').toString('base64url')}`)
  assert.equal((await messages()).length, 1)
  assert.equal(witness.seen.length, 1)
  const plain = await startAsync(t, { policy: { inbox: null } })
  assert.equal((await plain.ask('k', { headers: ASYNC })).headers['idempotency-status'], 'executed')
  assert.equal(plain.witness.seen[0]?.headers.prefer, 'respond-async')
})

test('a key that was accepted is never executed: without the preference it gets the same 202', async (t) => {
  const { ask, messages, witness, gateway } = await startAsync(t)
  const first = await ask('k', { headers: ASYNC })
  for (const forget of [false, true]) {
    // From memory, then from the row.
    if (forget) gateway.replayCache.resize(1)
    const again = await ask('k')
    assert.deepEqual(
      [
        again.status,
        again.text,
        again.headers.location,
        again.headers['idempotency-status'],
        again.headers['preference-applied'],
        again.headers['idempotent-replayed']
      ],
      [202, first.text, first.headers.location, 'accepted', undefined, undefined]
    )
    assert.equal((await ask('k', { headers: ASYNC })).headers['preference-applied'], 'respond-async')
  }
  assert.equal((await ask('k', { body: 'other' })).status, 422)
  assert.equal((await messages()).length, 1)
  assert.equal(witness.seen.length, 0)
})

test('a key that was executed is never accepted: with the preference it gets the stored answer', async (t) => {
  const { ask, messages, witness } = await startAsync(t)
  const first = await ask('k')
  const again = await ask('k', { headers: ASYNC })
  assert.deepEqual(
    [again.status, again.text, again.headers['idempotent-replayed'], again.headers['preference-applied']],
    [first.status, first.text, 'true', undefined]
  )
  assert.equal((await messages()).length, 0)
  assert.equal(witness.seen.length, 1)
})

test('both at the same moment, through two processes: one of them happens', async (t) => {
  const [one, other, inbox] = await startTwo(t)
  const keys = Array.from({ length: 20 }, (_, index) => `k${index}`)
  await Promise.all(keys.flatMap((key, index) => {
    const ways = [async () => one.ask(key), async () => other.ask(key, { headers: ASYNC })]
    return (index % 2 === 0 ? ways : ways.reverse()).map(async (way) => way())
  }))
  const retried = await Promise.all(keys.map(async (key) => one.ask(key, { headers: ASYNC })))
  const executed = [...one.witness.seen, ...other.witness.seen].map(({ headers }) => headers['idempotency-key'])
  const accepted = (await inbox.list({ limit: 100 })).map(({ id }) => keys.find((key) => id.equals(idOf(key))))
  assert.deepEqual([...executed, ...accepted].sort(), [...keys].sort())
  assert.deepEqual(retried.map(({ status }) => status), keys.map((key) => accepted.includes(key) ? 202 : 201))
})

test('while one way is under way in one process, the other is in flight in another', async (t) => {
  const [one, other, inbox] = await startTwo(t)
  const accepting = gate()
  one.faults.set('accept', accepting.fault)
  const first = one.ask('a', { headers: ASYNC })
  await accepting.reached
  assert.equal((await other.ask('a')).json.code, 'in-flight')
  accepting.open()
  assert.equal((await first).status, 202)
  assert.equal((await other.ask('a')).status, 202)
  const executing = Promise.withResolvers<void>()
  const reached = Promise.withResolvers<void>()
  one.witness.answer = async (_seen, response) => {
    reached.resolve()
    await executing.promise
    response.writeHead(200).end('done')
  }
  const sent = one.ask('b')
  await reached.promise
  assert.equal((await other.ask('b', { headers: ASYNC })).json.code, 'in-flight')
  executing.resolve()
  assert.equal((await sent).text, 'done')
  assert.equal((await other.ask('b', { headers: ASYNC })).text, 'done')
  assert.equal((await inbox.list({ limit: 9 })).length, 1)
})

test('a request without a key that asks for it is a message of its own, every time; without the preference it passes', async (t) => {
  const meter = countingMeter()
  const { url, messages, witness } = await startAsync(t, { world: { meter } })
  const answers = [
    await call(url, '/things', { headers: ASYNC, body: 'same' }),
    await call(url, '/things', { headers: ASYNC, body: 'same' })
  ]
  assert.deepEqual(answers.map(({ status, headers }) => [status, headers['idempotency-status'], headers['preference-applied']]), [
    [202, 'accepted', 'respond-async'],
    [202, 'accepted', 'respond-async']
  ])
  assert.equal(new Set(answers.map(({ headers }) => headers.location)).size, 2)
  assert.equal((await messages()).length, 2)
  assert.equal(meter.counts.get('keyless'), 2)
  const passed = await call(url, '/things', { headers: { Prefer: 'wait=3' }, body: 'same' })
  assert.deepEqual([passed.status, passed.headers['idempotency-status'], witness.seen.length], [201, undefined, 1])
  const refusing = await startAsync(t, { policy: { key: { ...apiPolicy().key, required: true } } })
  assert.equal((await call(refusing.url, '/things', { headers: ASYNC, body: 'same' })).json.code, 'key-missing')
})

test('a preference that is applied is taken out, and one that is not goes on as it came', async (t) => {
  const { ask, messages, inbox, witness } = await startAsync(t)
  await ask('now', { headers: { Prefer: 'wait=3, handling=lenient' } })
  assert.equal(witness.seen[0]?.headers.prefer, 'wait=3, handling=lenient')
  await ask('later', { headers: { Prefer: 'respond-async, wait=3, handling=lenient' } })
  assert.equal((await messages()).length, 1)
  const owner = Buffer.alloc(16, 1)
  await inbox.alive(owner, 60_000)
  const [delivery] = await inbox.take({ routes: [{ route: 'things', places: 1 }], owner })
  assert.equal(headerValue(delivery?.request.headers ?? [], 'prefer'), 'handling=lenient')
})

// ---------------------------------------------------------------- what a crash leaves behind

/** The state after a process died between the message and the settle of its record. */
async function leftBehind (t: TestContext, policy: Pick<GuardedOptions, 'policy'> = {}): Promise<InboxWorld> {
  const inbox = new MemoryInbox({ nowMs: Date.now })
  const records = faulty(new MemoryStore({ nowMs: Date.now }))
  const settling = gate()
  t.after(settling.open)
  const dying = await startAsync(t, { shared: inbox, world: { records: records.store, locks: NO_LOCKS }, ...policy })
  records.faults.set('settle', settling.fault)
  records.faults.set('renew', DOWN)
  void dying.ask('k', { headers: ASYNC })
  await settling.reached
  const living = await startAsync(t, { shared: inbox, world: { records: records.store, locks: NO_LOCKS }, ...policy })
  records.faults.set('settle', async (proceed) => proceed())
  return living
}

test('died behind the message and before its record: whoever comes finds the message, though the record is claimed', async (t) => {
  const { ask, messages, witness } = await leftBehind(t)
  for (const headers of [{}, ASYNC]) assert.equal((await ask('k', { headers })).status, 202)
  assert.equal((await ask('k', { body: 'other' })).status, 422)
  assert.equal((await messages()).length, 1)
  assert.equal(witness.seen.length, 0)
})

for (const unknown of ['hold', 'retry'] as const) {
  test(`and when its lease is over (unknown: ${unknown})`, async (t) => {
    const { ask, messages, witness, world } = await leftBehind(t, { policy: { unknown, leaseMs: 50 } })
    await eventually(async () => {
      await world.records.lapse({ ids: null, running: [], limit: 1, still: () => true })
      return (await world.records.look(idOf('k')))?.state === 'indeterminate'
    }, 'the lease is over')
    for (const headers of [{}, ASYNC]) assert.equal((await ask('k', { headers })).status, 202)
    assert.equal((await messages()).length, 1)
    assert.equal(witness.seen.length, 0)
  })
}

test('a message that has outlived its record is found before anything is sent', async (t) => {
  const { ask, messages, witness, inbox, world } = await startAsync(t)
  await ask('k', { headers: ASYNC })
  // Another life of the record: nothing is kept of the earlier one.
  const [given] = await messages()
  const fresh = await startAsync(t, { shared: inbox })
  assert.ok(await world.records.look(idOf('k')))
  assert.equal(await fresh.world.records.look(idOf('k')), null)
  const other = await fresh.ask('k', { body: 'other' })
  assert.deepEqual([other.status, other.json.code], [422, 'key-reused'])
  assert.equal((await fresh.ask('k')).status, 202)
  assert.equal((await fresh.ask('k', { headers: ASYNC })).status, 202)
  assert.deepEqual((await messages()).map(({ id }) => id), [given?.id])
  assert.equal(witness.seen.length + fresh.witness.seen.length, 0)
})

// ---------------------------------------------------------------- stores that fail

test('the inbox is down: nothing is sent, whichever way was asked for, and the key is free', async (t) => {
  const { ask, faults, messages, witness } = await startAsync(t)
  for (const operation of ['accept', 'look']) faults.set(operation, DOWN)
  for (const headers of [{}, ASYNC]) {
    const answer = await ask('k', { headers })
    assert.deepEqual([answer.status, answer.json.code], [503, 'store-unavailable'])
    assert.match(answer.json.detail, /Nothing was sent/)
  }
  assert.equal(witness.seen.length, 0)
  faults.clear()
  assert.equal((await ask('k', { headers: ASYNC })).status, 202)
  assert.equal((await messages()).length, 1)
})

test('an acceptance in doubt is made again until the store says what there is; nobody sends meanwhile', async (t) => {
  for (const fault of [LOST_REPLY, LOST_REQUEST]) {
    const { ask, faults, messages, witness, gateway } = await startAsync(t)
    faults.set('accept', firstly(2, fault))
    const answer = await ask('k', { headers: ASYNC })
    assert.deepEqual([answer.status, answer.json.code], [503, 'store-unavailable'])
    assert.match(answer.json.detail, /taken once/)
    const meanwhile: Called = await ask('k')
    assert.ok(meanwhile.status === 503 || meanwhile.status === 202, String(meanwhile.status))
    await eventually(() => gateway.executions.size === 0, 'the acceptance is decided')
    assert.equal((await ask('k')).status, 202)
    assert.equal((await messages()).length, 1)
    assert.equal(witness.seen.length, 0)
  }
})

test('an acceptance whose reply comes to be lost when its lease is over: the record says in the end what the inbox says', async (t) => {
  for (const [fault, said] of [[LOST_REPLY, 'completed'], [LOST_REQUEST, 'released']] as const) {
    const records = new MemoryStore({ nowMs: Date.now })
    const shared = new MemoryInbox({ nowMs: Date.now, records })
    const { ask, faults, messages, gateway, witness } = await startAsync(t, { shared, world: { records }, policy: { leaseMs: 50 } })
    const lost = gate()
    faults.set(
      'accept',
      firstly(1, async (proceed, args) => fault(proceed, args).finally(async () => lost.fault(async () => undefined, [])))
    )
    const asked = ask('k', { headers: ASYNC })
    await lost.reached
    for (const execution of gateway.executions.all()) gateway.leases.drop(execution)
    await eventually(async () => {
      await records.lapse({ ids: null, running: [], limit: 1, still: () => true })
      return (await records.look(idOf('k')))?.state === 'indeterminate'
    }, 'the lease is over')
    lost.open()
    assert.equal((await asked).json.code, 'store-unavailable')
    await eventually(() => gateway.executions.size === 0, 'the acceptance is decided')
    assert.equal((await records.look(idOf('k')))?.state, said)
    assert.equal((await ask('k', { headers: ASYNC })).status, 202)
    assert.equal((await messages()).length, 1)
    assert.equal(witness.seen.length, 0)
  }
})

test('onStoreDown: forward does not forward what was to be accepted', async (t) => {
  const records = faulty(new MemoryStore({ nowMs: Date.now }))
  const { ask, witness } = await startAsync(t, { policy: { onStoreDown: 'forward' }, world: { records: records.store } })
  fail(records, DOWN)
  assert.equal((await ask('k', { headers: ASYNC })).json.code, 'store-unavailable')
  assert.equal(witness.seen.length, 0)
  assert.equal((await ask('k')).headers['idempotency-status'], 'unprotected')
})

test('a full inbox turns those away who ask for it, and nobody else', async (t) => {
  const { ask, witness } = await startAsync(t, { inbox: { depthMax: 1 } })
  assert.equal((await ask('a', { headers: ASYNC })).status, 202)
  assert.equal((await ask('b', { headers: ASYNC })).json.code, 'overloaded')
  assert.equal((await ask('a', { headers: ASYNC })).status, 202)
  assert.equal((await ask('b')).headers['idempotency-status'], 'executed')
  assert.equal(witness.seen.length, 1)
})

test('of those that ask at once for the last place one has it', async (t) => {
  const { ask, faults, messages } = await startAsync(t, { inbox: { depthMax: 1 } })
  const { promise: held, resolve: letGo } = Promise.withResolvers<void>()
  faults.set('accept', async (proceed) => { await held; return proceed() })
  const asked = ['a', 'b', 'c'].map(async (key) => ask(key, { headers: ASYNC }))
  const refused = await Promise.race(asked)
  assert.match(String(refused.json.detail), /^The inbox of this route is full/)
  letGo()
  assert.deepEqual((await Promise.all(asked)).map(({ status }) => status).sort(), [202, 503, 503])
  assert.equal((await messages()).length, 1)
  assert.equal((await ask('d')).headers['idempotency-status'], 'executed')
})

test('a full inbox answers for a message that has outlived its record', async (t) => {
  const before = await startAsync(t)
  const first = await before.ask('a', { headers: ASYNC })
  // The same inbox without any of its records.
  const { ask, gateway, inbox } = await startAsync(t, { shared: before.inbox, inbox: { depthMax: 1 } })
  gateway.depths.pollFinished(await inbox.depths())
  const again = await ask('a', { headers: ASYNC })
  assert.deepEqual([again.status, again.text, again.headers['preference-applied']], [202, first.text, 'respond-async'])
  assert.equal((await ask('a', { headers: ASYNC, body: 'other' })).json.code, 'overloaded')
  assert.equal((await ask('b', { headers: ASYNC })).json.code, 'overloaded')
})

test('an answer to keep or not makes no difference to a 202 of the gateway', async (t) => {
  const { ask, url } = await startAsync(t, {
    policy: {
      keep: {
        statuses: new Map([[202, 'release']]),
        body: false,
        requestBytesMax: 1_024,
        responseBytesMax: 1_024,
        dropHeaders: new Set(['location']),
        keepHeaders: new Set()
      }
    }
  })
  const first = await ask('k', { headers: ASYNC })
  const again = await call(url, '/things', { headers: { 'Idempotency-Key': 'k' }, body: 'same' })
  assert.deepEqual([again.status, again.headers.location, again.text], [202, first.headers.location, first.text])
})
