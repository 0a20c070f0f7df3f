/** What operators do with an inbox, and what the sweeper and the bounds of a route do. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Fate, NewMessage } from '../../src/core/inbox/message.ts'
import type { InboxStore } from '../../src/ports/inbox.ts'
import {
  acceptInTurn,
  againIn,
  AUDIT,
  DEAD,
  DELIVERED,
  detailOf,
  EVERYTHING,
  HELD,
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

/** Longer than any clock is coarse. */
const AGED_MS = 200

/** Accepted, taken, and settled so; null: left with its worker. */
async function bring (
  store: InboxStore,
  owner: Buffer,
  fate: Fate | null,
  over: Parameters<typeof messageOf>[0] = {}
): Promise<NewMessage> {
  const message = messageOf(over)
  await store.accept(message)
  const [delivery] = await takeFrom(store, owner, 1, over.route ?? ROUTE)
  assert.ok(delivery)
  if (fate !== null) await store.settle(delivery.token, fate)
  return message
}

export function inboxOperators (open: OpenInbox): void {
  test('a list is what matches, oldest first, up to its limit', async (t) => {
    const world = await open(t)
    const { store } = world
    const owner = await workerOf(store)
    const dead = await bring(store, owner, DEAD)
    const delivered = await bring(store, owner, DELIVERED)
    const elsewhere = await bring(store, owner, DEAD, { route: 'other' })
    const waiting = messageOf()
    await store.accept(waiting)
    const listed = async (filter: object) => (await store.list({ ...EVERYTHING, ...filter })).map(({ id }) => id)
    assert.deepEqual(await listed({}), [dead.id, delivered.id, elsewhere.id, waiting.id])
    assert.deepEqual(await listed({ limit: 2 }), [dead.id, delivered.id])
    assert.deepEqual(await listed({ state: 'dead' }), [dead.id, elsewhere.id])
    assert.deepEqual(await listed({ state: 'dead', route: ROUTE }), [dead.id])
    assert.deepEqual(await listed({ id: waiting.id }), [waiting.id])
    assert.deepEqual(await listed({ keyHashes: [delivered.about.keyHash] }), [delivered.id])
    assert.deepEqual(
      await listed({ keyHashes: [waiting, dead, messageOf()].map(({ about: { keyHash } }) => keyHash) }),
      [dead.id, waiting.id]
    )
    assert.deepEqual(await listed({ state: 'dead', keyHashes: [waiting, dead].map(({ about: { keyHash } }) => keyHash) }), [dead.id])
    assert.deepEqual(await listed({ keyHashes: [] }), [])
    assert.deepEqual(await listed({ olderMs: LONG_MS }), [])
    assert.deepEqual(await store.list({ id: dead.id, limit: 1 }), [await detailOf(store, dead)])
    await untilAfter(world, SHORT_MS, async () => (await listed({ olderMs: SHORT_MS })).length === 4, 'all to be old enough')
  })

  test('what is asked for again is as young as one that has just been accepted: it has its whole age before it', async (t) => {
    const world = await open(t)
    const { store } = world
    const owner = await workerOf(store)
    await bring(store, owner, DEAD)
    await untilAfter(world, AGED_MS, async () => (await store.list({ ...EVERYTHING, olderMs: AGED_MS })).length === 1, 'it to be old')
    const beganAtMs = performance.now()
    assert.equal((await store.retry(EVERYTHING, AUDIT)).length, 1)
    const { ageMs } = await takeOne(store, owner)
    assert.ok(ageMs < performance.now() - beganAtMs + AGED_MS / 2, `${ageMs} ms`)
    const [{ receivedAtMs, settledAtMs } = assert.fail('it is gone')] = await store.list(EVERYTHING)
    assert.ok(receivedAtMs > 0 && settledAtMs === null, 'though it was received when it was')
  })

  test('a retry delivers again what is dead, held or pausing, with its tries begun anew; what is delivered or under way stays as it is', async (t) => {
    const { store, audits } = await open(t)
    const owner = await workerOf(store)
    const [dead, held, pausing] = [
      await bring(store, owner, DEAD),
      await bring(store, owner, HELD),
      await bring(store, owner, againIn(LONG_MS))
    ]
    const [delivered, underWay] = [await bring(store, owner, DELIVERED), await bring(store, owner, null)]
    const changed = await store.retry(EVERYTHING, AUDIT)
    assert.deepEqual(
      changed.map(({ id, state, tries, attempt, expiresAtMs }) => ({ id, state, tries, attempt, expiresAtMs })),
      [dead, held, pausing].map(({ id }) => ({ id, state: 'waiting', tries: 0, attempt: 1, expiresAtMs: null }))
    )
    const taken = await takeFrom(store, owner)
    assert.deepEqual(
      taken.map(({ token, tries, request }) => ({ attempt: token.attempt, tries, request })),
      [dead, held, pausing].map(({ request }) => ({ attempt: 2, tries: 1, request }))
    )
    assert.deepEqual([await stateOf(store, delivered), await stateOf(store, underWay)], ['delivered', 'delivering'])
    assert.deepEqual(await audits(), Array.from({ length: 3 }, () => ({ action: 'retry', ...AUDIT })))
  })

  test('a change of what an operator has seen leaves alone what has gone on since', async (t) => {
    const { store, audits } = await open(t)
    const owner = await workerOf(store)
    const { id } = await bring(store, owner, DEAD)
    const seen = { id, state: 'dead', attempt: 1, limit: 1 } as const
    assert.equal((await store.retry(seen, AUDIT)).length, 1)
    for (const { token } of await takeFrom(store, owner)) await store.settle(token, DEAD)
    // It is dead once more, after another delivery.
    assert.deepEqual([await store.retry(seen, AUDIT), await store.discard(seen, AUDIT), await store.list(seen)], [[], [], []])
    assert.equal((await audits()).length, 1)
    assert.equal((await store.list({ ...seen, attempt: 2 })).length, 1)
    assert.equal((await store.discard({ ...seen, attempt: 2 }, AUDIT)).length, 1)
  })

  test('what was given up and is retried says no more that it was: its last error alone stays', async (t) => {
    const { store } = await open(t)
    const owner = await workerOf(store)
    const dead = (error: string): Fate => ({ kind: 'dead', status: null, error, answer: null })
    for (const error of ['ATTEMPTS_SPENT HTTP_500', 'TOO_OLD ECONNREFUSED', 'HTTP_422', 'GONE']) await bring(store, owner, dead(error))
    await bring(store, owner, HELD)
    const lasting = ['HTTP_500', 'ECONNREFUSED', 'HTTP_422', 'GONE', HELD.kind === 'held' ? HELD.error : null]
    assert.deepEqual((await store.retry(EVERYTHING, AUDIT)).map(({ error }) => error), lasting)
    assert.deepEqual((await store.list(EVERYTHING)).map(({ error }) => error), lasting)
    await store.accept(messageOf({ route: 'other' }))
    assert.deepEqual((await store.retry({ ...EVERYTHING, route: 'other' }, AUDIT)).map(({ error }) => error), [null])
  })

  // In Postgres the statement returned it before its group was called: `onceway inbox retry` said that it was not due.
  test('a retry returns the first of a group as due, and what is behind it as not', async (t) => {
    const { store } = await open(t)
    const owner = await workerOf(store)
    const dead = await bring(store, owner, DEAD, { group: 'a' })
    const behind = messageOf({ group: 'a' })
    await store.accept(behind)
    const changed = await store.retry(EVERYTHING, AUDIT)
    assert.deepEqual(changed.map(({ id, dueAtMs }) => [id, dueAtMs !== null]), [[dead.id, true], [behind.id, false]])
    assert.deepEqual(changed, await store.list(EVERYTHING))
  })

  // The inbox in memory listed it where the earlier one had stood.
  test('what is accepted anew, behind what is past, is the youngest', async (t) => {
    const world = await open(t)
    const { store } = world
    const past = await bring(store, await workerOf(store), DELIVERED, { keepMs: SHORT_MS })
    const other = messageOf()
    await store.accept(other)
    await untilAfter(world, SHORT_MS, async () => await store.look(past.id) === null, 'it to be past')
    assert.deepEqual(await store.accept(past), { kind: 'accepted' })
    assert.deepEqual((await store.list(EVERYTHING)).map(({ id }) => id), [other.id, past.id])
    assert.deepEqual((await store.discard({ limit: 1 }, AUDIT)).map(({ id }) => id), [other.id])
  })

  test('a discard gives up what waits, is dead or held, for good', async (t) => {
    const { store, audits } = await open(t)
    const owner = await workerOf(store)
    const [dead, held] = [await bring(store, owner, DEAD), await bring(store, owner, HELD)]
    const [delivered, underWay] = [await bring(store, owner, DELIVERED), await bring(store, owner, null)]
    const waiting = messageOf()
    await store.accept(waiting)
    const changed = await store.discard(EVERYTHING, AUDIT)
    assert.deepEqual(changed.map(({ id, state }) => ({ id, state })), [dead, held, waiting].map(({ id }) => ({ id, state: 'discarded' })))
    assert.ok(changed.every(({ expiresAtMs, settledAtMs }) => expiresAtMs !== null && settledAtMs !== null))
    assert.deepEqual(await store.retry(EVERYTHING, AUDIT), [])
    assert.deepEqual(await takeFrom(store, owner), [])
    assert.deepEqual([await stateOf(store, delivered), await stateOf(store, underWay)], ['delivered', 'delivering'])
    assert.deepEqual(await audits(), Array.from({ length: 3 }, () => ({ action: 'discard', ...AUDIT })))
  })

  test('a change by hand is bounded by its filter', async (t) => {
    const { store } = await open(t)
    const owner = await workerOf(store)
    const [first, second] = [await bring(store, owner, DEAD), await bring(store, owner, DEAD)]
    const elsewhere = await bring(store, owner, DEAD, { route: 'other' })
    assert.deepEqual((await store.discard({ state: 'dead', route: ROUTE, limit: 1 }, AUDIT)).map(({ id }) => id), [first.id])
    assert.deepEqual((await store.retry({ state: 'dead', route: 'other', limit: 10 }, AUDIT)).map(({ id }) => id), [elsewhere.id])
    assert.deepEqual(await store.retry({ state: 'delivered', limit: 10 }, AUDIT), [])
    assert.equal(await stateOf(store, second), 'dead')
  })

  test('how much is in a route, what its requests weigh, and how old the oldest is', async (t) => {
    const world = await open(t)
    const { store } = world
    const owner = await workerOf(store)
    await bring(store, owner, DEAD, { body: 'dead' })
    await bring(store, owner, DELIVERED, { body: 'delivered' })
    await bring(store, owner, HELD, { body: '12' })
    await bring(store, owner, null, { body: '345' })
    await acceptInTurn(store, [messageOf({ body: '6789' }), messageOf({ body: '0' }), messageOf({ route: 'other', body: '' })])
    const depths = new Map((await store.depths()).map((depth) => [depth.route, depth]))
    const { oldestMs, ...depth } = depths.get(ROUTE) ?? { oldestMs: null }
    assert.deepEqual(depth, { route: ROUTE, waiting: 2, delivering: 1, held: 1, dead: 1, bytes: 14, deadBytes: 4 })
    assert.ok(oldestMs !== null && oldestMs >= 0)
    assert.equal(depths.get('other')?.waiting, 1)
    await untilAfter(
      world,
      SHORT_MS,
      async () => (await store.depths()).every(({ oldestMs }) => (oldestMs ?? 0) >= SHORT_MS),
      'all to be older'
    )
    await store.discard(EVERYTHING, AUDIT)
    assert.equal((await store.depths()).find(({ route }) => route === 'other')?.waiting ?? 0, 0)
  })

  test('what is past is swept, some at a time, and nothing else', async (t) => {
    const world = await open(t)
    const { store } = world
    const owner = await workerOf(store)
    const short = { keepMs: SHORT_MS, deadKeepMs: SHORT_MS }
    const past = [
      await bring(store, owner, DELIVERED, short),
      await bring(store, owner, DEAD, short),
      await bring(store, owner, HELD, short)
    ]
    const kept = [
      await bring(store, owner, DELIVERED),
      await bring(store, owner, DEAD),
      await bring(store, owner, againIn(LONG_MS), short),
      await bring(store, owner, null, short)
    ]
    await untilAfter(
      world,
      SHORT_MS,
      async () => (await Promise.all(past.map(({ id }) => store.look(id)))).every((found) => found === null),
      'three to be past'
    )
    const swept = [await store.sweep(2), await store.sweep(2), await store.sweep(2)]
    assert.deepEqual(swept, [2, 1, 0])
    for (const message of kept) assert.ok(await detailOf(store, message))
    assert.equal((await store.list(EVERYTHING)).length, kept.length)
    assert.equal((await takeFrom(store, owner)).length, 0)
    await store.accept(past[0] as NewMessage)
    await takeOne(store, owner)
  })
}
