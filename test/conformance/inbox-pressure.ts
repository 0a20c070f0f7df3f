/** Fair shares, pauses of one tenant, and a bound for all processes together. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import type { BoundQuestion } from '../../src/core/inbox/bound.ts'
import type { NewMessage } from '../../src/core/inbox/message.ts'
import type { InboxStore } from '../../src/ports/inbox.ts'
import {
  acceptInTurn,
  againIn,
  AUDIT,
  DELIVERED,
  detailOf,
  digestOf,
  idsOf,
  LONG_MS,
  messageOf,
  namesOf,
  SHORT_MS,
  takeFrom,
  takeOne,
  untilAfter,
  workerOf
} from './inbox-world.ts'
import type { OpenInbox } from './inbox-world.ts'

/** A store serves several tests, and its pauses and bounds stay. */
const named = (name: string): string => `${name} ${randomBytes(8).toString('hex')}`

function tenantOf (name: string): Buffer {
  return digestOf(name) ?? assert.fail('a name has a digest')
}

export function inboxPressure (open: OpenInbox): void {
  shares(open)
  pauses(open)
  bounds(open)
}

// ---------------------------------------------------------------- shares

async function inTurn (store: InboxStore, owner: Buffer, count: number, kindOf: (message: string) => string): Promise<string> {
  let kinds = ''
  for (let taken = 0; taken < count; taken++) {
    const { token } = (await takeFrom(store, owner, 1))[0] ?? assert.fail('one is taken')
    kinds += kindOf(token.id.toString('hex'))
    await store.settle(token, DELIVERED)
  }
  return kinds
}

function shares (open: OpenInbox): void {
  test('single messages and groups have half of the places each, and the rest of the others; the oldest of each go first', async (t) => {
    const { store } = await open(t)
    const groups = Array.from({ length: 6 }, (_, index) => messageOf({ group: `g${index}` }))
    const singles = Array.from({ length: 3 }, () => messageOf())
    await acceptInTurn(store, [...groups, ...singles])
    const owner = await workerOf(store)
    assert.deepEqual(namesOf(await takeFrom(store, owner, 4)).sort(), idsOf(...groups.slice(0, 2), ...singles.slice(0, 2)).sort())
    assert.deepEqual(namesOf(await takeFrom(store, owner, 5)).sort(), idsOf(...groups.slice(2), ...singles.slice(2)).sort())
  })

  test('one place at a time goes to either kind in turn', async (t) => {
    const { store } = await open(t)
    const groups = Array.from({ length: 4 }, (_, index) => messageOf({ group: `g${index}` }))
    const singles = Array.from({ length: 4 }, () => messageOf())
    await acceptInTurn(store, [...singles, ...groups])
    const ofGroups = new Set(idsOf(...groups))
    const kinds = await inTurn(store, await workerOf(store), 8, (id) => ofGroups.has(id) ? 'g' : 's')
    assert.match(kinds, /^(gs){4}$|^(sg){4}$/)
  })

  test('a group goes on before what was accepted after it, however much that is', async (t) => {
    const { store } = await open(t)
    const group = Array.from({ length: 4 }, () => messageOf({ group: 'early' }))
    const others = Array.from({ length: 40 }, (_, index) => messageOf({ group: `late ${index}` }))
    await acceptInTurn(store, group)
    await store.acceptAll(others)
    const early = new Set(idsOf(...group))
    assert.equal(await inTurn(store, await workerOf(store), 6, (id) => early.has(id) ? 'e' : 'l'), 'eeeell')
  })

  test('a group that was held up and goes on is found again, though what is later has been handed out meanwhile', async (t) => {
    const world = await open(t)
    const { store } = world
    const stopped = [messageOf({ group: 'stopped', stops: true }), messageOf({ group: 'stopped' })] as const
    await acceptInTurn(store, stopped)
    const owner = await workerOf(store)
    await store.settle((await takeOne(store, owner)).token, { kind: 'dead', status: 400, error: 'HTTP_400', answer: null })
    const later = Array.from({ length: 20 }, (_, index) => messageOf({ group: `later ${index}` }))
    await store.acceptAll(later)
    await inTurn(store, owner, 10, () => '')
    await store.discard({ id: stopped[0].id, limit: 1 }, AUDIT)
    assert.deepEqual(namesOf(await takeFrom(store, owner, 1)), idsOf(stopped[1]))
  })
}

// ---------------------------------------------------------------- pauses

function pauses (open: OpenInbox): void {
  test('a pause of a tenant holds back what waits and what comes, of this tenant and of no other, until it is over', async (t) => {
    const world = await open(t)
    const { store, second = store } = world
    const tenant = named('poor')
    const [poor, rich, none] = [messageOf({ tenant }), messageOf({ tenant: 'rich' }), messageOf()]
    await acceptInTurn(store, [poor, rich, none])
    assert.equal(await store.postpone(tenantOf(tenant), LONG_MS / 2, 10), 1)
    const late = messageOf({ tenant })
    await store.accept(late)
    const owner = await workerOf(second, 2 * LONG_MS)
    assert.deepEqual(namesOf(await takeFrom(second, owner)).sort(), idsOf(rich, none).sort())
    const { dueAtMs, receivedAtMs } = await detailOf(store, poor)
    assert.ok(dueAtMs !== null && dueAtMs - receivedAtMs > LONG_MS / 4)
    assert.ok(((await detailOf(store, late)).dueAtMs ?? 0) - receivedAtMs > LONG_MS / 4, 'what comes later is not due before')
    assert.equal(await store.postpone(tenantOf(tenant), 0, 10), 0, 'nothing is put off twice')
  })

  test('a short pause puts off nothing, and holds back all the same', async (t) => {
    const world = await open(t)
    const { store } = world
    const tenant = named('poor')
    const message = messageOf({ tenant })
    await store.accept(message)
    const owner = await workerOf(store)
    const beganAt = performance.now()
    assert.equal(await store.postpone(tenantOf(tenant), 3 * SHORT_MS, 10), 0)
    const taken = await takeFrom(store, owner)
    // A machine that stands still for so long proves nothing.
    if (taken.length > 0) assert.ok(performance.now() - beganAt > 3 * SHORT_MS, 'it is held back')
    await untilAfter(world, 4 * SHORT_MS, async () => taken.push(...await takeFrom(store, owner)) > 0, 'the pause to be over')
    assert.deepEqual(namesOf(taken), idsOf(message))
  })

  test('a message of a group that is put off holds its group, and no other', async (t) => {
    const { store } = await open(t)
    const tenant = named('poor')
    const [first, behind, other] = [messageOf({ tenant, group: 'a' }), messageOf({ group: 'a' }), messageOf({ group: 'b' })]
    await acceptInTurn(store, [first, behind, other])
    await store.postpone(tenantOf(tenant), LONG_MS, 10)
    assert.deepEqual(namesOf(await takeFrom(store, await workerOf(store))), idsOf(other))
  })

  test('so many at once: the oldest first, and the rest with the next call', async (t) => {
    const { store } = await open(t)
    const tenant = named('poor')
    const messages: NewMessage[] = Array.from({ length: 5 }, () => messageOf({ tenant }))
    await acceptInTurn(store, messages)
    const owner = await workerOf(store)
    // A later due time stays.
    await store.settle((await takeFrom(store, owner, 1))[0]?.token ?? assert.fail('one is taken'), againIn(2 * LONG_MS))
    const counts: number[] = []
    for (const forMs of [LONG_MS, 0, 0]) counts.push(await store.postpone(tenantOf(tenant), forMs, 3))
    assert.deepEqual(counts, [3, 1, 0])
    assert.deepEqual(await takeFrom(store, owner), [])
  })
}

// ---------------------------------------------------------------- bounds

function question (over: Partial<BoundQuestion> & Pick<BoundQuestion, 'route'>): BoundQuestion {
  return {
    bound: { concurrency: 10, ratePerSecond: null },
    holder: 'one',
    underWay: 0,
    places: 100,
    unused: 0,
    leaseMs: LONG_MS,
    ...over
  }
}

function bounds (open: OpenInbox): void {
  test('deliveries in flight: all processes share them, and what one gives back another gets', async (t) => {
    const { store, second = store } = await open(t)
    const route = named('bounded')
    const placesOf = async (from: InboxStore, over: Partial<BoundQuestion>) => (await from.allow(question({ route, ...over }))).places
    assert.equal(await placesOf(store, { places: 7 }), 7)
    assert.equal(await placesOf(second, { holder: 'two' }), 3)
    assert.equal(await placesOf(second, { holder: 'two', underWay: 3 }), 0)
    assert.equal(await placesOf(store, { underWay: 5, places: 0 }), 0)
    assert.equal(await placesOf(second, { holder: 'two', underWay: 3 }), 2)
    assert.equal(await placesOf(second, { route: named('other'), holder: 'two' }), 10, 'another route has a bound of its own')
  })

  test('what a process that died had in flight counts until its lease is over', async (t) => {
    const world = await open(t)
    const { store } = world
    const route = named('bounded')
    assert.equal((await store.allow(question({ route, leaseMs: SHORT_MS }))).places, 10)
    let places = 0
    await untilAfter(world, 2 * SHORT_MS, async () => {
      places = (await store.allow(question({ route, holder: 'two', leaseMs: SHORT_MS }))).places
      return places > 0
    }, 'the lease to be over')
    assert.equal(places, 10)
  })

  test('many at once get no more than there is', async (t) => {
    const { store, second = store } = await open(t)
    const route = named('bounded')
    const asked = Array.from({ length: 20 }, (_, index) =>
      (index % 2 === 0 ? store : second).allow(question({ route, holder: `h${index}`, places: 1 })))
    const granted = (await Promise.all(asked)).reduce((sum, { places }) => sum + places, 0)
    assert.ok(granted > 0 && granted <= 10, `${granted} of 10`)
  })

  test('the rate: a tenth of a second at once, and a time for the next', async (t) => {
    const { store } = await open(t)
    const route = named('bounded')
    const bound = { concurrency: null, ratePerSecond: 100 }
    const first = await store.allow(question({ route, bound }))
    assert.equal(first.places, 10)
    assert.ok(first.inMs !== null && first.inMs > 0 && first.inMs <= 1_000 / bound.ratePerSecond)
    const given = await store.allow(question({ route, bound, unused: 4, places: 4 }))
    assert.equal(given.places, 4, 'what was not begun is there for others')
  })
}
