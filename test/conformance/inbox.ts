/** The one suite that every InboxStore driver passes. A driver's test gives `open`, whose world is empty and its own. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Fate, NewMessage } from '../../src/core/inbox/message.ts'
import { inboxCells } from './inbox-cells.ts'
import { inboxDeadLetters } from './inbox-dead-letters.ts'
import { inboxDeliveries } from './inbox-deliveries.ts'
import { inboxGroups } from './inbox-groups.ts'
import { inboxHealth } from './inbox-health.ts'
import { inboxOperators } from './inbox-operators.ts'
import { inboxRecords } from './inbox-records.ts'
import { inboxPressure } from './inbox-pressure.ts'
import { inboxReplays } from './inbox-replays.ts'
import { inboxSchedule } from './inbox-schedule.ts'
import { inboxSchemes } from './inbox-schemes.ts'
import {
  acceptInTurn,
  againIn,
  againOf,
  ANSWER,
  AUDIT,
  DEAD,
  DELIVERED,
  detailOf,
  HELD,
  idsOf,
  LONG_MS,
  messageOf,
  namesOf,
  ROUTE,
  SHORT_MS,
  stateOf,
  takeFrom,
  takeOne,
  untilAfter,
  workerOf
} from './inbox-world.ts'
import type { OpenInbox } from './inbox-world.ts'

const OTHER_FINGERPRINT = { alg: 3, value: Buffer.alloc(32, 8) }
const RIVALS = 50

export function inboxConformance (name: string, open: OpenInbox): void {
  describe(`${name}: every event in every state of a message`, () => { inboxCells(open) })
  describe(`${name}: messages are accepted`, () => { accepting(open) })
  describe(`${name}: messages are delivered`, () => { delivering(open) })
  describe(`${name}: the deliveries of a message`, () => { inboxDeliveries(open) })
  describe(`${name}: dead letters`, () => { inboxDeadLetters(open) })
  describe(`${name}: workers that die`, () => { dying(open) })
  describe(`${name}: schemes of messages`, () => { inboxSchemes(open) })
  describe(`${name}: groups`, () => { inboxGroups(open) })
  describe(`${name}: what is scheduled`, () => { inboxSchedule(open) })
  describe(`${name}: what is under pressure`, () => { inboxPressure(open) })
  describe(`${name}: the health of consumers`, () => { inboxHealth(open) })
  describe(`${name}: operators of the inbox`, () => { inboxOperators(open) })
  describe(`${name}: replays of delivered messages`, () => { inboxReplays(open) })
}

function accepting (open: OpenInbox): void {
  inboxRecords(open)

  test('what was accepted stands there for everybody, as it came', async (t) => {
    const { store, second = store } = await open(t)
    const message = messageOf()
    assert.deepEqual(await store.accept(message), { kind: 'accepted' })
    const { receivedAtMs, dueAtMs, ...detail } = await detailOf(second, message)
    assert.ok(receivedAtMs > 0 && dueAtMs !== null && dueAtMs >= receivedAtMs)
    const { id, fingerprint, scopeHash, about, request } = message
    assert.deepEqual(detail, {
      id,
      fingerprint,
      scopeHash,
      about,
      state: 'waiting',
      ordered: false,
      attempt: 0,
      tries: 0,
      bytes: request.body.length,
      settledAtMs: null,
      expiresAtMs: null,
      requestUntilMs: null,
      replayedAtMs: null,
      status: null,
      error: null,
      answer: null
    })
    assert.equal(await store.look(randomBytes(32)), null)
  })

  test('of fifty who accept one message at the same moment exactly one has', async (t) => {
    const { store, second = store } = await open(t)
    const message = messageOf()
    const results = await Promise.all(
      Array.from({ length: RIVALS }, (_, index) => (index % 2 === 0 ? store : second).accept(againOf(message)))
    )
    assert.deepEqual(results.map(({ kind }) => kind).sort(), ['accepted', ...Array.from({ length: RIVALS - 1 }, () => 'seen')])
  })

  test('a duplicate sees the message as it stands, and changes nothing', async (t) => {
    const { store } = await open(t)
    const message = messageOf()
    await store.accept(message)
    await store.settle((await takeOne(store, await workerOf(store))).token, DELIVERED)
    const before = await detailOf(store, message)
    assert.deepEqual(await store.accept(againOf(message, { fingerprint: OTHER_FINGERPRINT })), { kind: 'seen', message: before })
    assert.deepEqual(await detailOf(store, message), before)
  })

  test('a batch is accepted in one, in its order, and again is seen', async (t) => {
    const { store } = await open(t)
    const [there, ...others] = ['0', '1', '2', '3'].map((body) => messageOf({ body, group: 'one' }))
    assert.ok(there)
    await store.accept(there)
    const results = await store.acceptAll([...others, there])
    assert.deepEqual(results.map(({ kind }) => kind), ['accepted', 'accepted', 'accepted', 'seen'])
    const owner = await workerOf(store)
    for (const { request } of [there, ...others]) {
      const delivery = await takeOne(store, owner)
      assert.deepEqual(delivery.request.body, request.body)
      await store.settle(delivery.token, DELIVERED)
    }
    assert.deepEqual((await store.acceptAll(others)).map(({ kind }) => kind), ['seen', 'seen', 'seen'])
    assert.deepEqual(await store.acceptAll([]), [])
  })

  test('a batch with a message that stands there as another request is not accepted at all', async (t) => {
    const { store } = await open(t)
    const [there, free] = [messageOf(), messageOf()]
    await store.accept(there)
    const [ofFree, ofThere] = await store.acceptAll([free, againOf(there, { fingerprint: OTHER_FINGERPRINT })])
    assert.equal(ofFree?.kind, 'accepted', 'said as if it were free, because it is')
    assert.deepEqual(ofThere, { kind: 'seen', message: await detailOf(store, there) })
    assert.equal(await store.look(free.id), null)
  })

  test('a message alongside another is accepted with it, and not after it: the other one decides for both', async (t) => {
    const { store } = await open(t)
    const first = messageOf()
    const beside = (route: string): NewMessage => messageOf({ route, alongside: first.id, fingerprint: first.fingerprint })
    const [second, third] = [beside('second'), beside('third')]
    assert.deepEqual((await store.acceptAll([first, second])).map(({ kind }) => kind), ['accepted', 'accepted'])
    const again = await store.acceptAll([againOf(first), againOf(second), third])
    assert.deepEqual(again.map((result) => result.kind === 'seen' && result.message.id), [first.id, first.id, first.id])
    assert.equal(await store.look(third.id), null, 'a target that came later gets nothing of a duplicate')
    const foreign = beside('fourth')
    const refused = await store.acceptAll([againOf(first, { fingerprint: OTHER_FINGERPRINT }), foreign])
    assert.deepEqual(refused.map(({ kind }) => kind), ['seen', 'seen'])
    assert.equal(await store.look(foreign.id), null)
  })

  test('a message alongside another that is gone stays accepted once', async (t) => {
    const { store } = await open(t)
    const [first, gone] = [messageOf(), messageOf()]
    const waits = messageOf({ alongside: gone.id })
    await store.acceptAll([first, waits])
    const results = await store.acceptAll([gone, againOf(waits)])
    assert.deepEqual(results.map(({ kind }) => kind), ['accepted', 'seen'], 'its first message was forgotten, and it was not')
  })

  test('many calls at once are each accepted as a whole, those that share a message by one', async (t) => {
    const { store } = await open(t)
    const calls = Array.from({ length: 12 }, () => {
      const first = messageOf()
      return [first, messageOf({ alongside: first.id, fingerprint: first.fingerprint })]
    })
    const there = calls[3]?.[0] ?? assert.fail('there is a fourth')
    await store.accept(there)
    const results = await Promise.all([...calls, calls[5] ?? []].map(async (call) => store.acceptAll(call)))
    const kinds = results.map((each) => each.map(({ kind }) => kind).join(' '))
    const alone = kinds.filter((_, index) => ![3, 5, 12].includes(index))
    assert.deepEqual(alone, Array.from({ length: 10 }, () => 'accepted accepted'))
    assert.equal(kinds[3], 'seen seen')
    assert.deepEqual([kinds[5], kinds[12]].sort(), ['accepted accepted', 'seen seen'])
    assert.equal(await store.look(calls[3]?.[1]?.id ?? assert.fail('it has a second')), null)
  })

  test('calls at once have the turns of their group in the order in which they came, and not in that of their ids', async (t) => {
    const { store } = await open(t)
    const firsts = Array.from({ length: 8 }, () => messageOf({ group: 'turns' })).sort((one, other) => other.id.compare(one.id))
    await Promise.all(firsts.map(async (first) =>
      store.acceptAll([first, messageOf({ route: 'other', alongside: first.id, fingerprint: first.fingerprint })])))
    const owner = await workerOf(store)
    for (const { id } of firsts) {
      const { token } = await takeOne(store, owner)
      assert.deepEqual(token.id, id)
      await store.settle(token, DELIVERED)
    }
  })

  test('batches that share their messages are accepted by one each, and never in part', async (t) => {
    const { store, second = store } = await open(t)
    const shared = Array.from({ length: 5 }, () => messageOf())
    const results = await Promise.all(
      Array.from({ length: 8 }, (_, index) => (index % 2 === 0 ? store : second).acceptAll(index % 3 === 0 ? shared : shared.toReversed()))
    )
    const accepted = results.map((result) => result.filter(({ kind }) => kind === 'accepted').length)
    assert.deepEqual(accepted.sort(), [0, 0, 0, 0, 0, 0, 0, 5])
  })

  test('what is past makes room: it is not seen, and is accepted anew', async (t) => {
    const world = await open(t)
    const { store } = world
    const [single, ofBatch] = [messageOf({ keepMs: SHORT_MS }), messageOf({ keepMs: SHORT_MS })]
    await acceptInTurn(store, [single, ofBatch])
    for (const { token } of await takeFrom(store, await workerOf(store))) await store.settle(token, DELIVERED)
    await untilAfter(
      world,
      SHORT_MS,
      async () => await store.look(single.id) === null && await store.look(ofBatch.id) === null,
      'both to be past'
    )
    assert.deepEqual(await store.accept(againOf(single, { fingerprint: OTHER_FINGERPRINT })), { kind: 'accepted' })
    assert.deepEqual(await store.acceptAll([againOf(ofBatch), messageOf()]), [{ kind: 'accepted' }, { kind: 'accepted' }])
    assert.deepEqual((await detailOf(store, single)).fingerprint, OTHER_FINGERPRINT)
    assert.equal((await takeFrom(store, await workerOf(store))).length, 3)
  })
}

function delivering (open: OpenInbox): void {
  test('a delivery is the request byte for byte, with whose it is and how often', async (t) => {
    const { store, second = store } = await open(t)
    const message = messageOf({ body: '\0\xff not text' })
    await store.accept(message)
    const owner = await workerOf(second)
    const { ageMs, ...delivery } = await takeOne(second, owner)
    assert.ok(ageMs >= 0)
    assert.deepEqual(delivery, {
      token: { id: message.id, owner, attempt: 1 },
      route: ROUTE,
      tries: 1,
      lastError: null,
      isReplay: false,
      requestId: 'req-1',
      tenant: null,
      request: message.request
    })
    assert.equal(await stateOf(store, message), 'delivering')
    assert.deepEqual(await takeFrom(store, await workerOf(store)), [], 'nobody else gets it')
  })

  test('only a worker that is alive takes anything', async (t) => {
    const world = await open(t)
    const { store } = world
    await store.accept(messageOf())
    assert.deepEqual(await takeFrom(store, randomBytes(16)), [])
    const gone = await workerOf(store)
    await store.gone(gone)
    assert.deepEqual(await takeFrom(store, gone), [])
    const kept = await workerOf(store, SHORT_MS)
    await store.alive(kept, LONG_MS)
    world.advance?.(SHORT_MS)
    assert.equal((await takeFrom(store, kept)).length, 1)
  })

  test('as many as there are places, of each route that was asked for, longest due first', async (t) => {
    const { store } = await open(t)
    const messages = Array.from({ length: 4 }, () => messageOf())
    const [foreign, unasked] = [messageOf({ route: 'other' }), messageOf({ route: 'unasked' })]
    await acceptInTurn(store, [...messages, foreign, unasked])
    const owner = await workerOf(store)
    const taken = await store.take({ routes: [{ route: ROUTE, places: 3 }, { route: 'other', places: 2 }], owner })
    assert.deepEqual(namesOf(taken.filter(({ route }) => route === ROUTE)), idsOf(...messages.slice(0, 3)))
    assert.deepEqual(namesOf(taken.filter(({ route }) => route !== ROUTE)), idsOf(foreign))
    assert.deepEqual(namesOf(await takeFrom(store, owner)), idsOf(...messages.slice(3)))
    assert.deepEqual(await store.take({ routes: [{ route: 'unasked', places: 0 }], owner }), [])
  })

  test('as many bytes as there is room for, the longest due of all routes first; one too large is waited for, and goes alone', async (t) => {
    const { store } = await open(t)
    const sized = (bytes: number, route = ROUTE) => messageOf({ route, body: 'x'.repeat(bytes) })
    const [first, second, large, small] = [sized(40), sized(50, 'other'), sized(500, 'other'), sized(10)]
    await acceptInTurn(store, [first, second, large, small])
    const owner = await workerOf(store)
    const routes = [{ route: ROUTE, places: 9 }, { route: 'other', places: 9 }]
    const take = async (bytes: number, one = false) => namesOf(await store.take({ routes, owner, room: { bytes, one } }))
    assert.deepEqual(await take(39), [])
    assert.deepEqual((await take(100)).sort(), idsOf(first, second).sort())
    assert.deepEqual(await take(499), [], 'what is due later does not go before it')
    assert.deepEqual(await take(0, true), idsOf(large))
    assert.deepEqual(await take(10), idsOf(small))
  })

  test('takers at the same moment never get the same message', async (t) => {
    const { store, second = store } = await open(t)
    await Promise.all(Array.from({ length: RIVALS }, () => store.accept(messageOf())))
    const owners = [await workerOf(store), await workerOf(second)]
    const taken = (await Promise.all(
      Array.from({ length: 10 }, (_, index) => takeFrom(index % 2 === 0 ? store : second, owners[index % 2] as Buffer, 7))
    )).flat()
    assert.equal(new Set(namesOf(taken)).size, taken.length)
    const rest = await takeFrom(store, owners[0] as Buffer)
    assert.equal(taken.length + rest.length, RIVALS)
  })

  const ends: ReadonlyArray<[Fate, object]> = [
    [DELIVERED, { state: 'delivered', status: 202, error: null, answer: ANSWER }],
    [{ kind: 'delivered', answer: null, status: 204 }, { state: 'delivered', status: 204, error: null, answer: null }],
    [DEAD, { state: 'dead', status: 410, error: 'GONE', answer: { status: 410, headers: [], body: Buffer.from('gone') } }],
    [
      { kind: 'dead', answer: null, status: null, error: 'TOO_OLD ECONNREFUSED' },
      { state: 'dead', status: null, error: 'TOO_OLD ECONNREFUSED', answer: null }
    ],
    [HELD, { state: 'held', status: null, error: 'ECONNRESET', answer: null }]
  ]
  test('what became of it stands there, and it is not delivered again', async (t) => {
    const { store } = await open(t)
    const owner = await workerOf(store)
    for (const [fate, expected] of ends) {
      const message = messageOf({ keepMs: LONG_MS, deadKeepMs: 2 * LONG_MS })
      await store.accept(message)
      assert.equal(await store.settle((await takeOne(store, owner)).token, fate), true)
      const { state, status, error, answer, dueAtMs, settledAtMs, expiresAtMs } = await detailOf(store, message)
      assert.deepEqual({ state, status, error, answer }, expected)
      assert.equal(dueAtMs, null)
      assert.equal(Math.round((expiresAtMs ?? 0) - (settledAtMs ?? 0)), fate.kind === 'delivered' ? LONG_MS : 2 * LONG_MS)
      assert.deepEqual(await takeFrom(store, owner), [])
    }
  })

  test('what was delivered keeps no byte of its request, nor of its query; what was given up, is held or waits keeps all', async (t) => {
    const { store, requestBytes } = await open(t)
    const owner = await workerOf(store)
    for (const fate of [DELIVERED, DEAD, HELD, againIn(LONG_MS)]) {
      const message = messageOf()
      await store.accept(message)
      const whole = await requestBytes(message.id)
      const { target, body } = message.request
      assert.ok(whole > target.length + body.length, `${whole} bytes`)
      await store.settle((await takeOne(store, owner)).token, fate)
      assert.equal(await requestBytes(message.id), fate.kind === 'delivered' ? 0 : whole, fate.kind)
      assert.equal((await detailOf(store, message)).bytes, body.length, 'how large it was is known')
    }
  })

  test('a delivery that was none, because it was not sent, is no try; its number is gone all the same', async (t) => {
    const { store } = await open(t)
    const owner = await workerOf(store)
    await store.accept(messageOf())
    const first = await takeOne(store, owner)
    assert.equal(await store.settle(first.token, { kind: 'again', inMs: 0, status: null, error: 'LEASE', counts: false }), true)
    const second = await takeOne(store, owner)
    assert.deepEqual([first.tries, first.token.attempt, second.tries, second.token.attempt], [1, 1, 1, 2])
    assert.equal(await store.settle(second.token, againIn(0)), true)
    assert.equal((await takeOne(store, owner)).tries, 2)
  })

  test('one that is to be sent again is due when its pause is over', async (t) => {
    const world = await open(t)
    const { store } = world
    const message = messageOf()
    await store.accept(message)
    const owner = await workerOf(store)
    await store.settle((await takeOne(store, owner)).token, againIn(LONG_MS))
    assert.deepEqual(await takeFrom(store, owner), [])
    const { state, attempt, tries, status, error, dueAtMs, receivedAtMs } = await detailOf(store, message)
    assert.deepEqual({ state, attempt, tries, status, error }, { state: 'waiting', attempt: 1, tries: 1, status: 503, error: 'HTTP_503' })
    assert.ok((dueAtMs ?? 0) >= receivedAtMs + LONG_MS)
    const soon = messageOf()
    await store.accept(soon)
    await store.settle((await takeOne(store, owner)).token, againIn(SHORT_MS))
    let taken = await takeFrom(store, owner)
    await untilAfter(
      world,
      SHORT_MS,
      async () => { taken = [...taken, ...await takeFrom(store, owner)]; return taken.length > 0 },
      'the pause to be over'
    )
    assert.deepEqual(
      taken.map(({ token, tries }) => ({ id: token.id, attempt: token.attempt, tries })),
      [{ id: soon.id, attempt: 2, tries: 2 }]
    )
    assert.deepEqual(taken[0]?.request, soon.request)
  })

  test('who has another owner, another attempt, or has said it before, settles nothing', async (t) => {
    const { store } = await open(t)
    const message = messageOf()
    await store.accept(message)
    const { token } = await takeOne(store, await workerOf(store))
    const before = await detailOf(store, message)
    assert.equal(await store.settle({ ...token, owner: randomBytes(16) }, DELIVERED), false)
    assert.equal(await store.settle({ ...token, attempt: 2 }, DELIVERED), false)
    assert.equal(await store.settle({ ...token, id: randomBytes(32) }, DELIVERED), false)
    assert.deepEqual(await detailOf(store, message), before)
    assert.equal(await store.settle(token, DELIVERED), true)
    assert.equal(await store.settle(token, DEAD), false)
    assert.equal(await stateOf(store, message), 'delivered')
  })

  test('how long until the next one is due', async (t) => {
    const { store } = await open(t)
    assert.equal(await store.dueInMs([ROUTE]), null)
    await store.accept(messageOf())
    assert.equal(await store.dueInMs([ROUTE]), 0)
    assert.equal(await store.dueInMs(['other']), null)
    const owner = await workerOf(store)
    const { token } = await takeOne(store, owner)
    assert.equal(await store.dueInMs([ROUTE, 'other']), null)
    await store.settle(token, againIn(LONG_MS))
    const inMs = await store.dueInMs(['other', ROUTE])
    assert.ok(inMs !== null && inMs > LONG_MS / 2 && inMs <= LONG_MS, `${inMs} ms`)
  })
}

function dying (open: OpenInbox): void {
  test('what a dead worker had is delivered again under a higher attempt, and its own settle comes too late', async (t) => {
    const world = await open(t)
    const { store, second = store } = world
    const message = messageOf()
    await store.accept(message)
    const dead = await takeOne(store, await workerOf(store, 5 * SHORT_MS))
    assert.deepEqual(await second.recover(10), { count: 0, held: [] }, 'while it lives nobody takes it')
    let recovered = 0
    await untilAfter(
      world,
      5 * SHORT_MS,
      async () => { recovered += (await second.recover(10)).count; return recovered > 0 },
      'the worker to be dead'
    )
    assert.equal(recovered, 1)
    const { state, error, attempt } = await detailOf(store, message)
    assert.deepEqual({ state, error, attempt }, { state: 'waiting', error: 'WORKER_LOST', attempt: 1 })
    const owner = await workerOf(second)
    const delivery = await takeOne(second, owner)
    assert.deepEqual([delivery.token.attempt, delivery.tries, delivery.lastError], [2, 2, 'WORKER_LOST'])
    assert.equal(await store.settle(dead.token, DELIVERED), false)
    assert.equal(await second.settle(delivery.token, DELIVERED), true)
  })

  test('one that was given up before it was sent again has used no more tries for that', async (t) => {
    const { store } = await open(t)
    const message = messageOf()
    await store.accept(message)
    const { token } = await takeOne(store, await workerOf(store))
    await store.settle(token, { kind: 'dead', status: null, error: 'ATTEMPTS_SPENT WORKER_LOST', answer: null, counts: false })
    const { state, attempt, tries } = await detailOf(store, message)
    assert.deepEqual({ state, attempt, tries }, { state: 'dead', attempt: 1, tries: 0 })
  })

  test('one that holds is held instead, which is said once', async (t) => {
    const { store } = await open(t)
    const message = messageOf({ holds: true })
    await store.accept(message)
    const owner = await workerOf(store)
    await store.settle((await takeOne(store, owner)).token, againIn(0))
    const { token } = await takeOne(store, owner)
    await store.accept(messageOf())
    await takeOne(store, owner)
    await store.gone(owner)
    assert.deepEqual(await store.recover(10), {
      count: 2,
      held: [{ id: message.id, route: ROUTE, requestId: 'req-1', attempt: 2, tries: 2 }]
    })
    assert.deepEqual(await store.recover(10), { count: 0, held: [] })
    const { state, error, expiresAtMs } = await detailOf(store, message)
    assert.deepEqual({ state, error }, { state: 'held', error: 'WORKER_LOST' })
    assert.notEqual(expiresAtMs, null)
    assert.equal(await store.settle(token, DELIVERED), false)
  })

  // A lapse left the answer where it was, in SQLite and in Postgres: a held message showed the 410 of a delivery long before.
  test('one that is held because its worker died has no answer of an earlier life', async (t) => {
    const { store } = await open(t)
    const [message, again] = [messageOf({ holds: true }), messageOf()]
    await acceptInTurn(store, [message, again])
    const owner = await workerOf(store)
    for (const { token } of await takeFrom(store, owner)) await store.settle(token, DEAD)
    await store.retry({ state: 'dead', limit: 2 }, AUDIT)
    assert.equal((await takeFrom(store, owner)).length, 2)
    await store.gone(owner)
    assert.equal((await store.recover(10)).count, 2)
    const [held, waiting] = [await detailOf(store, message), await detailOf(store, again)]
    assert.deepEqual([held.state, held.status, held.error, held.answer], ['held', null, 'WORKER_LOST', null])
    assert.deepEqual([waiting.state, waiting.error, waiting.answer], ['waiting', 'WORKER_LOST', DEAD.answer], 'until the next end')
  })

  // The inbox in memory did: whoever said twice that it lives, lived for as long as it said last.
  test('no sign of life shortens one before it', async (t) => {
    const world = await open(t)
    const { store } = world
    const owner = await workerOf(store)
    await store.alive(owner, SHORT_MS)
    world.advance?.(2 * SHORT_MS)
    if (world.advance === undefined) await sleep(2 * SHORT_MS)
    await store.accept(messageOf())
    await takeOne(store, owner)
    assert.deepEqual(await store.recover(10), { count: 0, held: [] })
  })

  test('a worker that is gone gives up what it had at once, the others keep theirs, and no more than asked for is taken', async (t) => {
    const { store } = await open(t)
    await acceptInTurn(store, Array.from({ length: 5 }, () => messageOf()))
    const [leaving, staying] = [await workerOf(store), await workerOf(store)]
    assert.equal((await takeFrom(store, leaving, 3)).length, 3)
    const kept = await takeFrom(store, staying)
    await store.gone(leaving)
    for (const expected of [2, 1, 0]) assert.equal((await store.recover(2)).count, expected)
    for (const { token } of kept) assert.equal(await store.settle(token, DELIVERED), true)
    assert.equal((await takeFrom(store, staying)).length, 3)
  })
}
