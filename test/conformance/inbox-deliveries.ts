/** What each delivery of a message came to, for as long as the message is there. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { DELIVERIES_MAX, REPLY_BYTES_MAX } from '../../src/core/inbox/message.ts'
import type { Fate, NewMessage, PastDelivery, Reply } from '../../src/core/inbox/message.ts'
import type { InboxStore } from '../../src/ports/inbox.ts'
import {
  acceptInTurn,
  againOf,
  AUDIT,
  DEAD,
  DELIVERED,
  detailOf,
  HELD,
  LONG_MS,
  messageOf,
  SHORT_MS,
  stateOf,
  takeFrom,
  untilAfter,
  workerOf
} from './inbox-world.ts'
import type { InboxWorld, OpenInbox } from './inbox-world.ts'

const PAGE = Buffer.from('<h1>no\0 good \xff</h1>', 'latin1')
const BUSY: Reply = { ms: 12, status: 503, contentType: 'text/html', body: PAGE, isCut: true }
const AGAIN: Extract<Fate, { kind: 'again' }> = { kind: 'again', inMs: 0, status: 503, error: 'HTTP_503', reply: BUSY }
/** As a worker that was told to end says it. */
const UNSENT: Fate = { kind: 'again', inMs: 0, status: null, error: 'DRAIN', counts: false }
const TAKEN: Reply = { ms: 7, status: 202, contentType: 'text/plain', body: Buffer.from('taken'), isCut: false }
const DONE: Extract<Fate, { kind: 'delivered' }> = { ...DELIVERED, reply: TAKEN }
const NOTHING: Omit<PastDelivery, 'attempt' | 'error'> = {
  atMs: 0, ms: null, status: null, contentType: null, body: Buffer.alloc(0), isCut: false
}

/** Without their times. */
async function listed (store: InboxStore, { id }: NewMessage): Promise<PastDelivery[]> {
  return (await store.deliveries(id)).map((delivery) => ({ ...delivery, body: Buffer.from(delivery.body), atMs: 0 }))
}

/** Delivers the one message that may be taken, once for each fate. */
async function deliver (world: InboxWorld, owner: Buffer, ...fates: readonly Fate[]): Promise<void> {
  for (const fate of fates) {
    const taken = await takeFrom(world.store, owner)
    const isTaken = async (): Promise<boolean> => taken.length > 0 || taken.push(...await takeFrom(world.store, owner)) > 0
    await untilAfter(world, 0, isTaken, 'the message to be due')
    assert.ok(await world.store.settle(taken[0]?.token ?? assert.fail('it is taken'), fate))
  }
}

function past (attempt: number, error: string | null, reply: Reply | typeof NOTHING): PastDelivery {
  return { ...reply, atMs: 0, attempt, error }
}

export function inboxDeliveries (open: OpenInbox): void {
  kept(open)
  byHand(open)
  ended(open)
}

function kept (open: OpenInbox): void {
  test('each delivery: when it ended, how long it took, its status, its error and the first bytes of its answer', async (t) => {
    const world = await open(t)
    const { store, second = store } = world
    const message = messageOf()
    await store.accept(message)
    assert.deepEqual(await store.deliveries(message.id), [])
    const owner = await workerOf(store)
    await deliver(world, owner, AGAIN, UNSENT, DONE)
    assert.deepEqual(await listed(second, message), [past(1, 'HTTP_503', BUSY), past(2, 'DRAIN', NOTHING), past(3, null, TAKEN)])
    const { receivedAtMs, settledAtMs } = await detailOf(store, message)
    const times = (await store.deliveries(message.id)).map(({ atMs }) => atMs)
    assert.equal(times.at(-1), settledAtMs)
    assert.deepEqual(times, times.toSorted((one, other) => one - other))
    assert.ok(times.every((atMs) => atMs >= receivedAtMs))
  })

  test('a message that is delivered at once has one, with the beginning of its answer', async (t) => {
    const world = await open(t)
    const { store } = world
    const message = messageOf()
    await store.accept(message)
    const body = randomBytes(REPLY_BYTES_MAX + 1)
    const answer = { status: 200, headers: ['Content-Type', 'image/png', 'X-Other', 'one'], body }
    const reply = { ms: 3, status: 200, contentType: 'image/png', body: body.subarray(0, REPLY_BYTES_MAX), isCut: true }
    await deliver(world, await workerOf(store), { kind: 'delivered', status: 200, answer, reply })
    assert.deepEqual(await listed(store, message), [past(1, null, reply)])
  })

  test('an answer that just fits is whole, and one that is not kept has none', async (t) => {
    const world = await open(t)
    const { store } = world
    const [fits, bare] = [messageOf(), messageOf()]
    const body = randomBytes(REPLY_BYTES_MAX)
    const owner = await workerOf(store)
    await store.accept(fits)
    const replies = [{ ...TAKEN, body }, { ...TAKEN, contentType: null, body: NOTHING.body }] as const
    await deliver(world, owner, { ...DONE, answer: { status: 202, headers: [], body }, reply: replies[0] })
    await store.accept(bare)
    await deliver(world, owner, { ...DONE, answer: null, reply: replies[1] })
    assert.deepEqual(await listed(store, fits), [past(1, null, replies[0])])
    assert.deepEqual(await listed(store, bare), [past(1, null, replies[1])])
  })

  test('one that is held lists the status that left it in doubt, and a dead one its last answer', async (t) => {
    const world = await open(t)
    const { store } = world
    const [held, dead] = [messageOf(), messageOf()]
    const owner = await workerOf(store)
    await store.accept(held)
    await deliver(world, owner, { kind: 'held', error: 'HTTP_502', reply: { ...BUSY, status: 502 } })
    await store.accept(dead)
    await deliver(world, owner, { ...DEAD, reply: { ...TAKEN, status: 410 } })
    assert.deepEqual(await listed(store, held), [past(1, 'HTTP_502', { ...BUSY, status: 502 })])
    assert.deepEqual(await listed(store, dead), [past(1, 'GONE', { ...TAKEN, status: 410 })])
  })

  test('those of one batch are each listed with their own message', async (t) => {
    const { store } = await open(t)
    const messages = Array.from({ length: 6 }, () => messageOf())
    await acceptInTurn(store, messages)
    const taken = await takeFrom(store, await workerOf(store))
    const fates: readonly Fate[] = [DONE, AGAIN, { ...DEAD, reply: TAKEN }, UNSENT, HELD, DONE]
    const nameOf = (id: Buffer): string => id.toString('hex')
    const fateOf = new Map(messages.map(({ id }, index) => [nameOf(id), fates[index] ?? DONE]))
    await Promise.all(taken.map(({ token }) => store.settle(token, fateOf.get(nameOf(token.id)) ?? DONE)))
    const found = await Promise.all(messages.map(async (message) => (await listed(store, message)).map(({ error }) => error)))
    assert.deepEqual(found, [[null], ['HTTP_503'], ['GONE'], ['DRAIN'], ['ECONNRESET'], [null]])
  })

  test('a result that comes too late, or from another worker, is not listed', async (t) => {
    const world = await open(t)
    const { store } = world
    const message = messageOf()
    await store.accept(message)
    const owner = await workerOf(store)
    const [delivery] = await takeFrom(store, owner)
    const { token } = delivery ?? assert.fail('it is taken')
    for (const wrong of [{ ...token, owner: randomBytes(16) }, { ...token, attempt: token.attempt + 1 }]) {
      assert.equal(await store.settle(wrong, AGAIN), false)
      assert.equal(await store.settle(wrong, DONE), false)
    }
    assert.deepEqual(await store.deliveries(message.id), [])
    await store.settle(token, AGAIN)
    assert.equal(await store.settle(token, { ...AGAIN, error: 'HTTP_500' }), false)
    assert.deepEqual(await listed(store, message), [past(1, 'HTTP_503', BUSY)])
  })

  test('of more deliveries than are kept, the first stays, and the last ones', async (t) => {
    const world = await open(t)
    const { store } = world
    const message = messageOf()
    await store.accept(message)
    const owner = await workerOf(store)
    const more = 3
    await deliver(world, owner, ...Array.from({ length: DELIVERIES_MAX + more }, () => AGAIN))
    const attempts = (await store.deliveries(message.id)).map(({ attempt }) => attempt)
    const last = Array.from({ length: DELIVERIES_MAX - 1 }, (_, index) => more + 2 + index)
    assert.deepEqual(attempts, [1, ...last])
    await deliver(world, owner, DONE)
    const after = (await store.deliveries(message.id)).map(({ attempt }) => attempt)
    assert.deepEqual([after.length, after[0], after.at(-1)], [DELIVERIES_MAX, 1, DELIVERIES_MAX + more + 1])
  })
}

function byHand (open: OpenInbox): void {
  test('a replay keeps what the deliveries before it came to', async (t) => {
    const world = await open(t)
    const { store } = world
    const message = messageOf()
    await store.accept(message)
    const owner = await workerOf(store)
    const body = randomBytes(REPLY_BYTES_MAX + 1)
    const answer = { status: 200, headers: ['X-Other', 'one'], body }
    const first: Reply = { ms: 3, status: 200, contentType: 'image/png', body: body.subarray(0, REPLY_BYTES_MAX), isCut: true }
    await deliver(world, owner, { kind: 'delivered', status: 200, answer, reply: first, requestMs: LONG_MS })
    const [before] = await store.deliveries(message.id)
    assert.equal((await store.replay({ id: message.id, limit: 1 }, AUDIT)).length, 1)
    assert.deepEqual(await listed(store, message), [past(1, null, first)])
    assert.equal((await store.deliveries(message.id))[0]?.atMs, before?.atMs)
    await deliver(world, owner, AGAIN, { ...DELIVERED, requestMs: LONG_MS, reply: TAKEN })
    await store.replay({ id: message.id, limit: 1 }, AUDIT)
    await deliver(world, owner, { ...DEAD, reply: { ...TAKEN, status: 410 } })
    assert.deepEqual(await listed(store, message), [
      past(1, null, first), past(2, 'HTTP_503', BUSY), past(3, null, TAKEN), past(4, 'GONE', { ...TAKEN, status: 410 })
    ])
  })

  test('a retry or a discard of a dead or held message adds nothing', async (t) => {
    const world = await open(t)
    const { store } = world
    const message = messageOf()
    await store.accept(message)
    const owner = await workerOf(store)
    const ends: PastDelivery[] = []
    for (const [error, fate] of [['GONE', { ...DEAD, reply: { ...TAKEN, status: 410 } }], ['ECONNRESET', HELD]] as const) {
      await deliver(world, owner, fate)
      ends.push(past(ends.length + 1, error, error === 'GONE' ? { ...TAKEN, status: 410 } : NOTHING))
      assert.equal((await store.retry({ id: message.id, limit: 1 }, AUDIT)).length, 1)
      assert.deepEqual(await listed(store, message), ends)
    }
    await store.discard({ id: message.id, limit: 1 }, AUDIT)
    assert.deepEqual([await stateOf(store, message), await listed(store, message)], ['discarded', ends])
  })
}

function ended (open: OpenInbox): void {
  test('what a worker had that died is listed, of a message that waits again and of one that is held', async (t) => {
    const world = await open(t)
    const { store } = world
    const [again, held] = [messageOf(), messageOf({ holds: true })]
    await acceptInTurn(store, [again, held])
    const owner = await workerOf(store, SHORT_MS)
    assert.equal((await takeFrom(store, owner)).length, 2)
    let count = 0
    await untilAfter(world, 2 * SHORT_MS, async () => (count += (await store.recover(10)).count) === 2, 'the worker to be dead')
    for (const message of [again, held]) assert.deepEqual(await listed(store, message), [past(1, 'WORKER_LOST', NOTHING)])
  })

  test('they go with their message: swept, or in the way of a new one', async (t) => {
    const world = await open(t)
    const { store } = world
    const [swept, replaced] = [messageOf({ keepMs: SHORT_MS }), messageOf({ keepMs: SHORT_MS })]
    const owner = await workerOf(store)
    for (const message of [swept, replaced]) {
      await store.accept(message)
      await deliver(world, owner, AGAIN, DONE)
    }
    await untilAfter(world, 2 * SHORT_MS, async () => await store.look(replaced.id) === null, 'the messages to be past')
    assert.deepEqual(await store.accept(againOf(replaced, { keepMs: LONG_MS })), { kind: 'accepted' })
    assert.deepEqual(await store.deliveries(replaced.id), [])
    await untilAfter(world, 0, async () => await store.sweep(10) > 0, 'the sweep')
    assert.deepEqual(await store.deliveries(swept.id), [])
  })
}
