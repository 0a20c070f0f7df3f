/** The order of a group: one at a time, and the next one waits behind a retry, whatever ends in between. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { NewMessage } from '../../src/core/inbox/message.ts'
import type { InboxStore } from '../../src/ports/inbox.ts'
import {
  acceptInTurn,
  againIn,
  againOf,
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

/** One delivery after another, until none may be taken. */
async function drain (store: InboxStore, owner: Buffer): Promise<string[]> {
  const order: string[] = []
  for (let taken = await takeFrom(store, owner); taken.length > 0; taken = await takeFrom(store, owner)) {
    for (const { token } of taken) {
      order.push(token.id.toString('hex'))
      assert.equal(await store.settle(token, DELIVERED), true)
    }
  }
  return order
}

function three (over: Parameters<typeof messageOf>[0] = {}): [NewMessage, NewMessage, NewMessage] {
  return [messageOf({ group: 'a', ...over }), messageOf({ group: 'a', ...over }), messageOf({ group: 'a', ...over })]
}

export function inboxGroups (open: OpenInbox): void {
  test('one at a time, in the order in which they were accepted, whichever process accepted them', async (t) => {
    const { store, second = store } = await open(t)
    const messages = Array.from({ length: 6 }, () => messageOf({ group: 'a' }))
    for (const [index, message] of messages.entries()) await (index % 2 === 0 ? store : second).accept(message)
    const owner = await workerOf(second)
    for (const [index, message] of messages.entries()) {
      const { token } = await takeOne(second, owner)
      assert.deepEqual(token.id, message.id)
      assert.equal(await store.dueInMs([ROUTE]), null, 'while it is delivered none of its group is due')
      assert.equal(await second.settle(token, DELIVERED), true)
      assert.equal(await store.dueInMs([ROUTE]), index === messages.length - 1 ? null : 0)
    }
  })

  test('the next waits behind a retry', async (t) => {
    const world = await open(t)
    const { store } = world
    const [first, next] = three()
    await acceptInTurn(store, [first, next])
    const owner = await workerOf(store)
    await store.settle((await takeOne(store, owner)).token, againIn(SHORT_MS))
    let order: string[] = []
    await untilAfter(
      world,
      SHORT_MS,
      async () => { order = [...order, ...await drain(store, owner)]; return order.length > 1 },
      'both to be delivered'
    )
    assert.deepEqual(order, idsOf(first, next))
  })

  test('groups wait for none but their own, and what is in none for nobody', async (t) => {
    const { store } = await open(t)
    const [slow, behind, other, alone] = [messageOf({ group: 'a' }), messageOf({ group: 'a' }), messageOf({ group: 'b' }), messageOf()]
    await acceptInTurn(store, [slow, behind, other, alone])
    const owner = await workerOf(store)
    const taken = await takeFrom(store, owner)
    assert.deepEqual(namesOf(taken).sort(), idsOf(slow, other, alone).sort())
    for (const { token } of taken) await store.settle(token, againIn(LONG_MS))
    assert.deepEqual(await takeFrom(store, owner), [])
  })

  test('a dead or held one lets its group go on', async (t) => {
    const { store } = await open(t)
    const messages = three()
    await acceptInTurn(store, messages)
    const owner = await workerOf(store)
    await store.settle((await takeOne(store, owner)).token, DEAD)
    await store.settle((await takeOne(store, owner)).token, HELD)
    assert.deepEqual(await drain(store, owner), idsOf(messages[2]))
  })

  for (const fate of [DEAD, HELD]) {
    test(`one that stops its group stops it while it is ${fate.kind}: retried it is the first again, discarded it lets the next go`, async (t) => {
      const { store } = await open(t)
      const messages = three({ stops: true })
      await acceptInTurn(store, messages)
      const owner = await workerOf(store)
      await store.settle((await takeOne(store, owner)).token, fate)
      assert.deepEqual(await takeFrom(store, owner), [])
      assert.equal(await store.dueInMs([ROUTE]), null)
      await store.retry({ id: messages[0].id, limit: 1 }, AUDIT)
      await store.settle((await takeOne(store, owner)).token, fate)
      const late = messageOf({ group: 'a' })
      await store.accept(late)
      assert.deepEqual(await takeFrom(store, owner), [], 'nor does what comes later pass')
      await store.discard({ id: messages[0].id, limit: 1 }, AUDIT)
      assert.deepEqual(await drain(store, owner), idsOf(messages[1], messages[2], late))
    })
  }

  for (const [state, fate] of [['dead', DEAD], ['held', HELD]] as const) {
    test(`one that stops its group while it is ${state} stops it until an operator says so, however long it was to be kept`, async (t) => {
      const world = await open(t)
      const { store } = world
      const [first, next, past] = [
        ...three({ stops: true, deadKeepMs: SHORT_MS }).slice(0, 2),
        messageOf({ stops: true, deadKeepMs: SHORT_MS })
      ] as [NewMessage, NewMessage, NewMessage]
      await acceptInTurn(store, [first, next, past])
      const owner = await workerOf(store)
      for (const { token } of await takeFrom(store, owner)) await store.settle(token, fate)
      await untilAfter(world, SHORT_MS, async () => await store.look(past.id) === null, 'one without a group to be past')
      for (let time = 0; time < 2; time++) {
        assert.equal(await store.sweep(10), 1 - time, 'but for the one without a group')
        assert.deepEqual([(await detailOf(store, first)).state, (await detailOf(store, first)).expiresAtMs], [state, null])
        assert.equal((await store.accept(againOf(first))).kind, 'seen')
        assert.deepEqual((await store.list({ state, limit: 9 })).map(({ id }) => id), [first.id])
        assert.deepEqual(await takeFrom(store, owner), [])
      }
      assert.equal((await store.discard({ state, limit: 9 }, AUDIT)).length, 1)
      assert.deepEqual(await drain(store, owner), idsOf(next))
      await untilAfter(world, SHORT_MS, async () => await store.look(first.id) === null, 'what was discarded to be past')
    })
  }

  test('a discarded one in the midst is passed over, the first one discarded lets the next go', async (t) => {
    const { store } = await open(t)
    const messages = Array.from({ length: 4 }, () => messageOf({ group: 'a' }))
    await acceptInTurn(store, messages)
    const [first, second, third, fourth] = messages as [NewMessage, NewMessage, NewMessage, NewMessage]
    for (const { id } of [third, first]) await store.discard({ id, limit: 1 }, AUDIT)
    assert.deepEqual(await drain(store, await workerOf(store)), idsOf(second, fourth))
  })

  test('a dead one that is asked for again goes before those that wait, and they after it', async (t) => {
    const { store } = await open(t)
    const messages = three()
    await acceptInTurn(store, messages)
    const owner = await workerOf(store)
    await store.settle((await takeOne(store, owner)).token, DEAD)
    await store.retry({ id: messages[0].id, limit: 1 }, AUDIT)
    const { token } = await takeOne(store, owner)
    assert.deepEqual(token.id, messages[0].id)
    await store.settle(token, againIn(LONG_MS))
    const inMs = await store.dueInMs([ROUTE])
    assert.ok(inMs !== null && inMs > LONG_MS / 2, 'none that waits behind it is said to be due')
    await store.retry({ id: messages[0].id, limit: 1 }, AUDIT)
    assert.deepEqual(await drain(store, owner), idsOf(...messages))
  })

  test('one that is asked for again while a later one is delivered waits for that one', async (t) => {
    const { store } = await open(t)
    const messages = three()
    await acceptInTurn(store, messages)
    const owner = await workerOf(store)
    await store.settle((await takeOne(store, owner)).token, DEAD)
    const { token } = await takeOne(store, owner)
    await store.retry({ id: messages[0].id, limit: 1 }, AUDIT)
    assert.deepEqual(await takeFrom(store, owner), [])
    await store.settle(token, DELIVERED)
    assert.deepEqual(await drain(store, owner), idsOf(messages[0], messages[2]))
  })

  test('what a dead worker had goes first again, and what it had that holds lets the next go', async (t) => {
    const { store } = await open(t)
    const [first, next] = three()
    const [held, after] = [messageOf({ group: 'b', holds: true }), messageOf({ group: 'b', holds: true })]
    await acceptInTurn(store, [first, next, held, after])
    const lost = await workerOf(store)
    assert.equal((await takeFrom(store, lost)).length, 2)
    await store.gone(lost)
    assert.equal((await store.recover(10)).count, 2)
    const order = await drain(store, await workerOf(store))
    assert.deepEqual(order.filter((id) => idsOf(first, next).includes(id)), idsOf(first, next))
    assert.deepEqual(order.filter((id) => idsOf(held, after).includes(id)), idsOf(after))
    assert.equal(await stateOf(store, held), 'held')
  })
}
