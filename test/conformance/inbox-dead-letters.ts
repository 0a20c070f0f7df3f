/** The copy of a dead message that another consumer gets. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import type { DeadLetter, Delivery } from '../../src/core/inbox/message.ts'
import {
  acceptInTurn,
  AUDIT,
  DEAD,
  DELIVERED,
  detailOf,
  EVERYTHING,
  LONG_MS,
  messageOf,
  ROUTE,
  SHORT_MS,
  stateOf,
  takeFrom,
  takeOne,
  untilAfter,
  workerOf
} from './inbox-world.ts'
import type { OpenInbox } from './inbox-world.ts'

const LETTERS = `${ROUTE}::dead-letter`

function letterOf (over: Partial<DeadLetter> = {}): DeadLetter {
  const headers = ['Content-Type', 'application/json', 'X-Twice', 'caf\xe9', 'Onceway-Dead-Error', 'GONE']
  return { id: randomBytes(32), route: LETTERS, target: '/dead?by=\xe9', headers, bytes: 11, deadKeepMs: LONG_MS, ...over }
}

function onlyOne (taken: readonly Delivery[]): Delivery {
  assert.equal(taken.length, 1)
  return taken[0] as Delivery
}

export function inboxDeadLetters (open: OpenInbox): void {
  test('it is due at once in its own inbox, with the body and the sender of the dead message', async (t) => {
    const { store, second = store } = await open(t)
    const message = messageOf({ tenant: 'one', group: 'a', stops: true, holds: true, body: '{"event":"\\u00e9"}' })
    const letter = letterOf()
    await store.accept(message)
    const owner = await workerOf(store)
    const { token } = await takeOne(store, owner)
    assert.ok(await store.settle(token, { ...DEAD, letter }))
    assert.equal(await stateOf(store, message), 'dead')
    const { receivedAtMs, settledAtMs, about, ...detail } = await detailOf(second, letter)
    const { settledAtMs: diedAtMs, about: dead, ...rest } = await detailOf(store, message)
    assert.ok(receivedAtMs >= rest.receivedAtMs && diedAtMs !== null && settledAtMs === null)
    assert.deepEqual(about, { ...dead, route: LETTERS })
    assert.deepEqual(
      [detail.state, detail.ordered, detail.attempt, detail.tries, detail.dueAtMs, detail.error, detail.answer],
      ['waiting', false, 0, 0, receivedAtMs, null, null]
    )
    assert.deepEqual([detail.fingerprint, detail.scopeHash, detail.bytes], [rest.fingerprint, rest.scopeHash, rest.bytes])
    const delivery = onlyOne(await takeFrom(second, await workerOf(second), 100, LETTERS))
    const { method, target, headers, body } = delivery.request
    assert.deepEqual([method, target, headers, body.toString()], ['POST', letter.target, letter.headers, message.request.body.toString()])
    assert.deepEqual([delivery.token.id, delivery.tries, delivery.tenant, delivery.lastError], [letter.id, 1, null, null])
    assert.ok(delivery.ageMs < LONG_MS && await second.settle(delivery.token, DELIVERED))
    assert.deepEqual([await stateOf(store, letter), await stateOf(store, message)], ['delivered', 'dead'])
  })

  test('there is one for each death and none without one, also among others that end in the same moment', async (t) => {
    const { store } = await open(t)
    const messages = Array.from({ length: 4 }, () => messageOf())
    await acceptInTurn(store, messages)
    const taken = await takeFrom(store, await workerOf(store))
    const [late, died, bare, done] = taken
    assert.ok(late !== undefined && died !== undefined && bare !== undefined && done !== undefined)
    const [none, one] = [letterOf(), letterOf()]
    const settled = await Promise.all([
      store.settle({ ...late.token, attempt: late.token.attempt + 1 }, { ...DEAD, letter: none }),
      store.settle(died.token, { ...DEAD, letter: one }),
      store.settle(bare.token, DEAD),
      store.settle(done.token, DELIVERED)
    ])
    assert.deepEqual(settled, [false, true, true, true])
    assert.deepEqual([await store.look(none.id), (await store.look(one.id))?.state], [null, 'waiting'])
    assert.ok(!await store.settle(died.token, { ...DEAD, letter: none }), 'it has ended')
    assert.equal(await store.look(none.id), null)
    assert.deepEqual((await store.depths()).find(({ route }) => route === LETTERS)?.waiting, 1)
    assert.deepEqual((await store.deliveries(died.token.id)).map(({ error }) => error), ['GONE'])
  })

  test('a message that an operator retries may die again, with another letter; the letter goes its own way', async (t) => {
    const { store } = await open(t)
    const message = messageOf()
    await store.accept(message)
    const owner = await workerOf(store)
    const [first, second] = [letterOf(), letterOf()]
    assert.ok(await store.settle((await takeOne(store, owner)).token, { ...DEAD, letter: first }))
    assert.equal((await store.retry({ ...EVERYTHING, id: message.id }, AUDIT)).length, 1)
    assert.ok(await store.settle((await takeOne(store, owner)).token, { ...DEAD, letter: second }))
    assert.equal((await store.discard({ ...EVERYTHING, id: message.id }, AUDIT)).length, 1)
    const letters = await takeFrom(store, owner, 100, LETTERS)
    assert.deepEqual(letters.map(({ token }) => token.id), [first.id, second.id])
    for (const { token } of letters) assert.ok(await store.settle(token, DEAD), 'a letter may die too')
    assert.deepEqual([await stateOf(store, first), await stateOf(store, message)], ['dead', 'discarded'])
  })

  test('a key that is used again after the retention dies as another message, and has another copy', async (t) => {
    const world = await open(t)
    const { store } = world
    const message = messageOf({ deadKeepMs: SHORT_MS })
    const owner = await workerOf(store)
    const copies = [letterOf(), letterOf()]
    for (const letter of copies) {
      const isNew = async (): Promise<boolean> => (await store.accept(message)).kind === 'accepted'
      await untilAfter(world, SHORT_MS, isNew, 'what it was before is past')
      const { token } = await takeOne(store, owner)
      assert.equal(token.attempt, 1)
      assert.ok(await store.settle(token, { ...DEAD, letter }))
    }
    assert.deepEqual((await takeFrom(store, owner, 100, LETTERS)).map(({ token }) => token.id), copies.map(({ id }) => id))
  })

  test('it is no member of the group: the next message goes on, and no letter waits for another', async (t) => {
    const world = await open(t)
    const { store } = world
    const messages = [messageOf({ group: 'a' }), messageOf({ group: 'a' })]
    await acceptInTurn(store, messages)
    const owner = await workerOf(store)
    for (const { id } of messages) {
      const taken: Delivery[] = []
      await untilAfter(world, 0, async () => taken.push(...await takeFrom(store, owner)) > 0, 'the next one has its turn')
      const { token } = onlyOne(taken)
      assert.deepEqual(token.id, id)
      assert.ok(await store.settle(token, { ...DEAD, letter: letterOf() }))
    }
    assert.equal((await takeFrom(store, owner, 100, LETTERS)).length, 2)
  })

  test('it is kept for as long as the dead message would have been, if delivered; dead, as long as its own inbox says', async (t) => {
    const world = await open(t)
    const { store } = world
    const messages = [messageOf({ keepMs: SHORT_MS }), messageOf()]
    const [delivered, dead] = [letterOf(), letterOf({ deadKeepMs: SHORT_MS })]
    await acceptInTurn(store, messages)
    const owner = await workerOf(store)
    for (const { token } of await takeFrom(store, owner)) {
      const letter = token.id.equals(messages[0]?.id ?? token.owner) ? delivered : dead
      assert.ok(await store.settle(token, { ...DEAD, letter }))
    }
    for (const { token } of await takeFrom(store, owner, 100, LETTERS)) {
      assert.ok(await store.settle(token, token.id.equals(dead.id) ? DEAD : DELIVERED))
    }
    const isGone = async (): Promise<boolean> => await store.look(delivered.id) === null && await store.look(dead.id) === null
    await untilAfter(world, SHORT_MS, isGone, 'both letters are past')
    assert.equal(await stateOf(store, messages[1] ?? assert.fail('there are two')), 'dead')
  })
}
