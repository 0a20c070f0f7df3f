/** Requests of delivered messages that are kept, and their replays. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Fate, NewMessage } from '../../src/core/inbox/message.ts'
import type { InboxStore } from '../../src/ports/inbox.ts'
import {
  acceptInTurn,
  AUDIT,
  DELIVERED,
  detailOf,
  EVERYTHING,
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
import type { InboxWorld, OpenInbox } from './inbox-world.ts'

const KEPT: Fate = { ...DELIVERED, requestMs: LONG_MS / 2 }
const BRIEFLY: Fate = { ...DELIVERED, requestMs: SHORT_MS }

/** Accepts each message and delivers it before the next one. */
async function deliverInTurn (store: InboxStore, owner: Buffer, messages: readonly NewMessage[], fate = KEPT): Promise<void> {
  for (const message of messages) {
    await acceptInTurn(store, [message])
    const [delivery] = await takeFrom(store, owner, 1, message.about.route)
    assert.ok(delivery)
    await store.settle(delivery.token, fate)
  }
}

/** The end of the time of a request, and not of anything else. */
async function untilOver (world: InboxWorld, { id }: NewMessage): Promise<void> {
  const before = Date.now()
  const isOver = (): boolean => world.advance !== undefined || Date.now() - before > 2 * SHORT_MS
  await untilAfter(world, 2 * SHORT_MS, () => Promise.resolve(isOver()), 'it to be over')
  assert.ok(await world.store.look(id))
}

export function inboxReplays (open: OpenInbox): void {
  test('a replayed message is delivered once more, byte for byte, under its next number, and says that it is a replay', async (t) => {
    const { store, second = store, audits } = await open(t)
    const owner = await workerOf(store)
    const message = messageOf()
    await deliverInTurn(store, owner, [message])
    const kept = await detailOf(store, message)
    assert.equal(Math.round((kept.requestUntilMs ?? 0) - (kept.settledAtMs ?? 0)), LONG_MS / 2)
    assert.deepEqual([kept.state, kept.replayedAtMs], ['delivered', null])

    const [replayed, ...others] = await second.replay({ id: message.id, limit: 1 }, AUDIT)
    assert.deepEqual([replayed, others], [await detailOf(store, message), []])
    const { state, attempt, tries, status, answer, requestUntilMs, replayedAtMs, settledAtMs, expiresAtMs } = replayed ?? kept
    assert.deepEqual({ state, attempt, tries, status, answer, requestUntilMs, settledAtMs, expiresAtMs }, {
      state: 'waiting',
      attempt: 1,
      tries: 0,
      status: kept.status,
      answer: kept.answer,
      requestUntilMs: null,
      settledAtMs: null,
      expiresAtMs: null
    })
    assert.ok(replayedAtMs !== null)
    assert.deepEqual((await store.accept(message)).kind, 'seen', 'a duplicate is one, as before')

    const delivery = await takeOne(store, owner)
    assert.deepEqual(
      [delivery.token.attempt, delivery.tries, delivery.isReplay, delivery.request],
      [2, 1, true, message.request]
    )
    assert.deepEqual(await store.replay({ id: message.id, limit: 1 }, AUDIT), [], 'it is being delivered')
    assert.equal(await store.settle(delivery.token, KEPT), true)
    assert.equal((await store.replay({ id: message.id, limit: 1 }, AUDIT)).length, 1, 'its request is kept again')
    assert.deepEqual(await audits(), Array.from({ length: 2 }, () => ({ action: 'replay', ...AUDIT })))
  })

  test('of two that replay one message at the same moment, one does', async (t) => {
    const { store, second = store, audits } = await open(t)
    const owner = await workerOf(store)
    const message = messageOf()
    await deliverInTurn(store, owner, [message])
    const filter = { id: message.id, limit: 1 }
    const changed = await Promise.all([store, second, store, second].map((each) => each.replay(filter, AUDIT)))
    assert.equal(changed.flat().length, 1)
    assert.equal((await audits()).length, 1)
    assert.equal((await takeFrom(store, owner)).length, 1)
  })

  test('only what was delivered, and is kept, is replayed: a request that was not kept, or whose time is over, is gone', async (t) => {
    const world = await open(t)
    const { store, requestBytes } = world
    const owner = await workerOf(store)
    const [unkept, brief, kept] = [messageOf(), messageOf(), messageOf()]
    await deliverInTurn(store, owner, [unkept], DELIVERED)
    await deliverInTurn(store, owner, [brief], BRIEFLY)
    await deliverInTurn(store, owner, [kept])
    await untilOver(world, brief)
    const waiting = messageOf()
    await store.accept(waiting)
    assert.deepEqual((await store.replay(EVERYTHING, AUDIT)).map(({ id }) => id), [kept.id])
    assert.deepEqual([await stateOf(store, brief), await stateOf(store, unkept)], ['delivered', 'delivered'])
    assert.ok(await requestBytes(brief.id) > 0, 'nobody has deleted it yet')
    assert.deepEqual(await store.dropRequests([], 10), { expired: 1, beyond: [] })
    assert.deepEqual([await requestBytes(brief.id), (await detailOf(store, brief)).requestUntilMs], [0, null])
  })

  test('many that are replayed are taken in the order of their acceptance', async (t) => {
    const { store } = await open(t)
    const owner = await workerOf(store)
    const messages = Array.from({ length: 20 }, () => messageOf())
    await deliverInTurn(store, owner, messages)
    assert.equal((await store.replay({ ...EVERYTHING, state: 'delivered', route: ROUTE }, AUDIT)).length, messages.length)
    assert.deepEqual(namesOf(await takeFrom(store, owner)), idsOf(...messages))
  })

  test('in a group they are delivered one after another, before what waits, whatever the order of the replays', async (t) => {
    const { store } = await open(t)
    const owner = await workerOf(store)
    const [first, second, third] = [messageOf({ group: 'a' }), messageOf({ group: 'a' }), messageOf({ group: 'a' })]
    await deliverInTurn(store, owner, [first, second])
    await store.accept(third)
    for (const { id } of [second, first]) assert.equal((await store.replay({ id, limit: 1 }, AUDIT)).length, 1)
    for (const expected of [first, second, third]) {
      const { token, isReplay } = await takeOne(store, owner)
      assert.deepEqual([token.id, isReplay], [expected.id, expected !== third])
      await store.settle(token, DELIVERED)
    }
  })

  test('a late report of the delivery before changes nothing of a replay', async (t) => {
    const { store } = await open(t)
    const owner = await workerOf(store)
    const message = messageOf()
    await acceptInTurn(store, [message])
    const { token } = await takeOne(store, owner)
    await store.settle(token, KEPT)
    await store.replay({ id: message.id, limit: 1 }, AUDIT)
    assert.equal(await store.settle(token, DELIVERED), false)
    assert.equal(await stateOf(store, message), 'waiting')
    await takeOne(store, owner)
    assert.equal(await store.settle(token, DELIVERED), false)
    assert.equal(await stateOf(store, message), 'delivering')
  })

  test('a route that keeps more than it may is told which of its oldest requests are beyond, and they are deleted some at a time', async (t) => {
    const world = await open(t)
    const { store, requestBytes } = world
    const owner = await workerOf(store)
    const sized = Array.from({ length: 6 }, () => messageOf({ body: '0123456789' }))
    for (const message of sized) {
      await deliverInTurn(store, owner, [message])
      // The next one is kept longer, by the clock of every driver.
      await untilAfter(world, 5, () => keepsLongerNow(store, message), 'the next to be kept longer')
    }
    const elsewhere = messageOf({ route: 'other' })
    await deliverInTurn(store, owner, [elsewhere])
    const keptBy = async (messages: number, bytes: number) => {
      const [kept] = await store.kept([{ route: ROUTE, messages, bytes }])
      assert.deepEqual([kept?.route, kept?.messages, kept?.bytes], [ROUTE, 6, 60])
      return kept?.beyondMs ?? null
    }
    assert.equal(await keptBy(6, 60), null)
    assert.deepEqual(await store.kept([]), [])
    for (const beyond of [await keptBy(2, 60), await keptBy(6, 29)]) {
      const { requestUntilMs } = await detailOf(store, sized[3] as NewMessage)
      assert.ok(beyond !== null && beyond >= (requestUntilMs ?? 0) && beyond < (requestUntilMs ?? 0) + 2, 'the fourth goes last')
    }
    const untilMs = await keptBy(2, 60) ?? 0
    assert.deepEqual(await store.dropRequests([{ route: ROUTE, untilMs }], 3), { expired: 0, beyond: [{ route: ROUTE, count: 3 }] })
    assert.deepEqual(await store.dropRequests([{ route: ROUTE, untilMs }], 3), { expired: 0, beyond: [{ route: ROUTE, count: 1 }] })
    assert.deepEqual(await store.dropRequests([{ route: ROUTE, untilMs }], 3), { expired: 0, beyond: [{ route: ROUTE, count: 0 }] })
    const left = await Promise.all(sized.map(async ({ id }) => await requestBytes(id) > 0))
    assert.deepEqual(left, [false, false, false, false, true, true])
    const replayed = await store.replay({ ...EVERYTHING, route: ROUTE }, AUDIT)
    assert.deepEqual(replayed.map(({ id }) => id), sized.slice(4).map(({ id }) => id))
    assert.ok(await requestBytes(elsewhere.id) > 0)
  })
}

/** Whether the store's clock has gone on by some milliseconds since this message was delivered. */
async function keepsLongerNow (store: InboxStore, message: NewMessage): Promise<boolean> {
  const { settledAtMs } = await detailOf(store, message)
  const probe = messageOf({ route: 'clock' })
  await store.accept(probe)
  return (await detailOf(store, probe)).receivedAtMs >= (settledAtMs ?? 0) + 3
}
