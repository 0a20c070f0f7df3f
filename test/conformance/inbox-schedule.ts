/** Messages whose first delivery is due later than their acceptance. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import type { Delivery, NewMessage } from '../../src/core/inbox/message.ts'
import type { InboxStore } from '../../src/ports/inbox.ts'
import {
  acceptInTurn,
  againIn,
  againOf,
  AUDIT,
  DELIVERED,
  detailOf,
  digestOf,
  HELD,
  idsOf,
  LONG_MS,
  messageOf,
  namesOf,
  ROUTE,
  SHORT_MS,
  takeFrom,
  takeOne,
  untilAfter,
  workerOf
} from './inbox-world.ts'
import type { InboxWorld, OpenInbox } from './inbox-world.ts'

/** Long enough for what a test does before. */
const DELAY_MS = 10 * SHORT_MS
/** Two readings of a clock in one statement. */
const APART_MS_MAX = 20

/** A store serves several tests, and its pauses stay. */
const named = (name: string): string => `${name} ${randomBytes(8).toString('hex')}`

export function inboxSchedule (open: OpenInbox): void {
  times(open)
  groups(open)
  operators(open)
  pauses(open)
}

async function waitOf (store: InboxStore, message: NewMessage): Promise<number | null> {
  const { dueAtMs, receivedAtMs } = await detailOf(store, message)
  return dueAtMs === null ? null : dueAtMs - receivedAtMs
}

async function assertWaits (store: InboxStore, message: NewMessage, ms: number): Promise<void> {
  const wait = await waitOf(store, message)
  assert.ok(wait !== null && Math.abs(wait - ms) < APART_MS_MAX, `it waits for ${wait} ms, not for ${ms}`)
}

/** What can be taken once so much time has passed, and no earlier. */
async function takenAfter (world: InboxWorld, owner: Buffer, ms: number): Promise<Delivery[]> {
  const taken: Delivery[] = []
  await untilAfter(world, ms, async () => taken.push(...await takeFrom(world.store, owner)) > 0, 'its time to come')
  return taken
}

// ---------------------------------------------------------------- times

function times (open: OpenInbox): void {
  test('it is due after its delay and not before, whoever takes it; a duplicate changes nothing of it', async (t) => {
    const world = await open(t)
    const { store, second = store } = world
    const [scheduled, plain] = [messageOf({ delayMs: DELAY_MS }), messageOf()]
    await acceptInTurn(store, [scheduled, plain])
    await assertWaits(store, scheduled, DELAY_MS)
    await assertWaits(store, plain, 0)
    const before = await detailOf(store, scheduled)
    assert.deepEqual(await second.accept(againOf(scheduled, { delayMs: 0 })), { kind: 'seen', message: before })
    const owner = await workerOf(second)
    assert.deepEqual(namesOf(await takeFrom(second, owner)), idsOf(plain))
    const inMs = await second.dueInMs([ROUTE])
    assert.ok(inMs !== null && inMs > 0 && inMs <= DELAY_MS, `in ${inMs} ms`)
    assert.deepEqual(namesOf(await takenAfter(world, owner, DELAY_MS)), idsOf(scheduled))
  })

  test('it ages from its time on, and its retries have theirs', async (t) => {
    const world = await open(t)
    const { store } = world
    const [scheduled, plain] = [messageOf({ delayMs: DELAY_MS }), messageOf()]
    // In one transaction, at one time.
    await store.acceptAll([scheduled, plain])
    const owner = await workerOf(store)
    await untilAfter(world, DELAY_MS, async () => isDue(store, scheduled), 'its time to come')
    const ages = new Map((await takeFrom(store, owner)).map(({ token, ageMs }) => [token.id.toString('hex'), ageMs]))
    const [own = NaN, other = NaN] = idsOf(scheduled, plain).map((id) => ages.get(id))
    assert.ok(own >= 0 && Math.abs(other - own - DELAY_MS) < APART_MS_MAX, `${own} and ${other} ms`)
    assert.equal(await store.settle({ id: scheduled.id, owner, attempt: 1 }, againIn(0)), true)
    const [again] = await takenAfter(world, owner, 1)
    assert.ok(again?.tries === 2 && again.ageMs >= own && again.ageMs < own + DELAY_MS * 10)
  })

  test('each message of a batch has its own time', async (t) => {
    const { store } = await open(t)
    const delays = [0, DELAY_MS, LONG_MS, 0]
    const messages = delays.map((delayMs) => messageOf({ delayMs }))
    assert.deepEqual(await store.acceptAll(messages), messages.map(() => ({ kind: 'accepted' })))
    for (const [index, delayMs] of delays.entries()) await assertWaits(store, messages[index] as NewMessage, delayMs)
    assert.deepEqual(
      namesOf(await takeFrom(store, await workerOf(store))).sort(),
      idsOf(...messages.filter(({ delayMs }) => delayMs === 0)).sort()
    )
  })

  test('what is due at one time goes by its time, and not by its acceptance', async (t) => {
    const world = await open(t)
    const { store } = world
    const messages = [3, 2, 1].map((place) => messageOf({ delayMs: DELAY_MS + place * APART_MS_MAX }))
    await store.acceptAll(messages)
    const owner = await workerOf(store)
    await untilAfter(world, 2 * DELAY_MS, async () => isDue(store, messages[0] as NewMessage), 'the last time to come')
    assert.deepEqual(namesOf(await takeFrom(store, owner)), idsOf(...messages.toReversed()))
  })

  test('it counts as waiting, and not as late before its time', async (t) => {
    const world = await open(t)
    const { store } = world
    const depthOf = async () => (await store.depths()).find(({ route }) => route === ROUTE) ?? assert.fail('it has messages')
    const early = messageOf({ delayMs: 2 * DELAY_MS })
    await store.accept(early)
    const { waiting, oldestMs } = await depthOf()
    assert.deepEqual([waiting, oldestMs], [1, 0])
    await untilAfter(world, DELAY_MS, async () => await nowOf(store) >= (await detailOf(store, early)).receivedAtMs + DELAY_MS, 'some time')
    assert.equal((await depthOf()).oldestMs, 0)
    // One that was accepted later, and is due: it is the oldest.
    await store.accept(messageOf())
    await untilAfter(world, SHORT_MS, async () => ((await depthOf()).oldestMs ?? 0) >= SHORT_MS, 'it to be older')
    assert.ok(((await depthOf()).oldestMs ?? 0) < DELAY_MS)
    const owner = await workerOf(store)
    for (const { token } of await takeFrom(store, owner)) await store.settle(token, DELIVERED)
    const [late] = await takenAfter(world, owner, 2 * DELAY_MS)
    assert.ok(((await depthOf()).oldestMs ?? Infinity) < 20 * DELAY_MS, 'in delivery too')
    await store.settle(late?.token ?? assert.fail('it is taken'), HELD)
    const held = await depthOf()
    assert.ok(held.held === 1 && held.oldestMs !== null)
  })
}

async function isDue (store: InboxStore, message: NewMessage): Promise<boolean> {
  return ((await detailOf(store, message)).dueAtMs ?? Infinity) <= await nowOf(store)
}

/** By the store's clock: when a message is received that is accepted now. */
async function nowOf (store: InboxStore): Promise<number> {
  const probe = messageOf({ route: 'clock' })
  await store.accept(probe)
  return (await detailOf(store, probe)).receivedAtMs
}

// ---------------------------------------------------------------- groups

function groups (open: OpenInbox): void {
  test('it holds its group: what was accepted later waits for it, however long', async (t) => {
    const world = await open(t)
    const { store } = world
    const [first, behind, other] = [messageOf({ group: 'a', delayMs: DELAY_MS }), messageOf({ group: 'a' }), messageOf({ group: 'b' })]
    await acceptInTurn(store, [first, behind, other])
    const owner = await workerOf(store)
    assert.deepEqual(namesOf(await takeFrom(store, owner)), idsOf(other))
    assert.equal(await waitOf(store, behind), null)
    const [taken] = await takenAfter(world, owner, DELAY_MS)
    assert.deepEqual(taken === undefined ? [] : namesOf([taken]), idsOf(first))
    await store.settle(taken?.token ?? assert.fail('it is taken'), DELIVERED)
    await takeOne(store, owner)
  })

  test('one that has its turn before its time still waits for it; one that has it after its time does not', async (t) => {
    const world = await open(t)
    const { store } = world
    const messages = [messageOf({ group: 'a' }), messageOf({ group: 'a', delayMs: DELAY_MS }), messageOf({ group: 'a', delayMs: 1 })]
    await store.acceptAll(messages)
    const [, later, last] = messages as [NewMessage, NewMessage, NewMessage]
    const owner = await workerOf(store)
    assert.equal(await waitOf(store, later), null)
    await store.settle((await takeOne(store, owner)).token, DELIVERED)
    await assertWaits(store, later, DELAY_MS)
    assert.ok((await store.dueInMs([ROUTE]) ?? Infinity) <= DELAY_MS)
    const [taken] = await takenAfter(world, owner, DELAY_MS)
    await store.settle(taken?.token ?? assert.fail('it is taken'), DELIVERED)
    assert.ok(((await detailOf(store, last)).dueAtMs ?? Infinity) <= (await detailOf(store, later)).receivedAtMs + DELAY_MS)
    assert.deepEqual(namesOf([await takeOne(store, owner)]), idsOf(last))
  })
}

// ---------------------------------------------------------------- operators

function operators (open: OpenInbox): void {
  test('an operator\'s retry delivers it at once, and it ages from then', async (t) => {
    const { store } = await open(t)
    const messages = [messageOf({ delayMs: LONG_MS }), messageOf({ group: 'a', delayMs: LONG_MS })]
    await acceptInTurn(store, messages)
    const owner = await workerOf(store)
    assert.equal((await takeFrom(store, owner)).length, 0)
    assert.equal((await store.retry({ route: ROUTE, limit: 10 }, AUDIT)).length, 2)
    const taken = await takeFrom(store, owner)
    assert.deepEqual(namesOf(taken).sort(), idsOf(...messages).sort())
    for (const { ageMs } of taken) assert.ok(ageMs >= 0 && ageMs < LONG_MS / 2)
  })

  test('a retry of one that waits for its turn takes its time away: it is delivered when its turn comes', async (t) => {
    const { store } = await open(t)
    const [first, second] = [messageOf({ group: 'a', delayMs: LONG_MS }), messageOf({ group: 'a', delayMs: LONG_MS })]
    await acceptInTurn(store, [first, second])
    await store.retry({ id: second.id, limit: 1 }, AUDIT)
    const owner = await workerOf(store)
    assert.equal((await takeFrom(store, owner)).length, 0)
    await store.discard({ id: first.id, limit: 1 }, AUDIT)
    assert.deepEqual(namesOf([await takeOne(store, owner)]), idsOf(second))
  })

  test('a discarded one is never delivered, and its group goes on', async (t) => {
    const { store } = await open(t)
    const [first, second] = [messageOf({ group: 'a', delayMs: LONG_MS }), messageOf({ group: 'a' })]
    await acceptInTurn(store, [first, second])
    await store.discard({ id: first.id, limit: 1 }, AUDIT)
    assert.deepEqual(namesOf([await takeOne(store, await workerOf(store))]), idsOf(second))
  })
}

// ---------------------------------------------------------------- pauses

function pauses (open: OpenInbox): void {
  test('beside a pause of its tenant the later of the two times counts', async (t) => {
    const { store } = await open(t)
    const tenant = named('poor')
    const [near, far] = [messageOf({ tenant, delayMs: DELAY_MS }), messageOf({ tenant, delayMs: 2 * LONG_MS })]
    await acceptInTurn(store, [near, far])
    assert.equal(await store.postpone(digestOf(tenant) ?? assert.fail('a name has a digest'), LONG_MS, 10), 1)
    const late = [messageOf({ tenant, delayMs: DELAY_MS }), messageOf({ tenant, delayMs: 2 * LONG_MS })] as const
    await acceptInTurn(store, late)
    for (const message of [near, late[0]]) {
      const wait = await waitOf(store, message) ?? 0
      assert.ok(wait > LONG_MS / 2 && wait < LONG_MS * 3 / 2, `${wait} ms`)
    }
    for (const message of [far, late[1]]) await assertWaits(store, message, 2 * LONG_MS)
  })

  test('so it does for one whose turn comes', async (t) => {
    const { store } = await open(t)
    const tenant = named('poor')
    const group = named('group')
    const messages = [messageOf({ group }), messageOf({ group, tenant, delayMs: 2 * LONG_MS }), messageOf({ group, tenant, delayMs: 1 })]
    await acceptInTurn(store, messages)
    await store.postpone(digestOf(tenant) ?? assert.fail('a name has a digest'), LONG_MS, 10)
    await store.settle((await takeOne(store, await workerOf(store))).token, DELIVERED)
    const [, scheduled, last] = messages as [NewMessage, NewMessage, NewMessage]
    await assertWaits(store, scheduled, 2 * LONG_MS)
    await store.discard({ id: scheduled.id, limit: 1 }, AUDIT)
    const wait = await waitOf(store, last) ?? 0
    assert.ok(wait > LONG_MS / 2 && wait < LONG_MS * 3 / 2, `${wait} ms`)
  })
}
