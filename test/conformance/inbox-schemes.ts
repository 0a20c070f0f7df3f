/** Messages while one scheme of ids follows another: one request is never accepted beside itself, nor executed beside its message. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import type { NewMessage } from '../../src/core/inbox/message.ts'
import { FIRST_SCHEME } from '../../src/core/record/schemes.ts'
import { againOf, DEAD, DELIVERED, messageOf, SHORT_MS, stateOf, takeOne, untilAfter, workerOf } from './inbox-world.ts'
import type { InboxWorld, OpenInbox } from './inbox-world.ts'
import { nextOf as nextClaimOf } from './record-schemes.ts'
import { claimOf, seenOf, settlementOf, tokenOf } from './record-world.ts'

const NEXT_SCHEME = FIRST_SCHEME + 1
const MOVED = { kind: 'moved' } as const

/** The same request, by the scheme that comes next. */
function nextOf ({ id }: Pick<NewMessage, 'id'>, over: Partial<NewMessage> = {}): NewMessage {
  return { ...messageOf(), scheme: NEXT_SCHEME, earlierId: id, ...over }
}

/** Accepted and delivered, and kept no longer. */
async function bringPast (world: InboxWorld, over: Parameters<typeof messageOf>[0] = {}): Promise<NewMessage> {
  const { store } = world
  const message = messageOf({ keepMs: SHORT_MS, ...over })
  await store.accept(message)
  await store.settle((await takeOne(store, await workerOf(store))).token, DELIVERED)
  await untilAfter(world, SHORT_MS, async () => await store.look(message.id) === null, 'the message to be past')
  return message
}

export function inboxSchemes (open: OpenInbox): void {
  test('a message by a scheme that does not claim yet, or no more, has moved, alone or among several', async (t) => {
    const { store, second = store, switchScheme } = await open(t)
    const early = nextOf(messageOf())
    assert.deepEqual(await store.accept(early), MOVED)
    await switchScheme('2')
    const [late, other] = [messageOf(), nextOf(messageOf())]
    for (const inbox of [store, second]) assert.deepEqual(await inbox.accept(late), MOVED)
    assert.deepEqual((await store.acceptAll([other, late])).map(({ kind }) => kind), ['accepted', 'moved'])
    for (const { id } of [early, late, other]) assert.equal(await store.look(id), null)
    assert.deepEqual((await store.acceptAll([early, other])).map(({ kind }) => kind), ['accepted', 'accepted'])
  })

  test('a message that stands under the earlier id moves it, whatever became of it, and so does a record', async (t) => {
    const { store, records, switchScheme } = await open(t)
    const owner = await workerOf(store)
    const [delivered, dead, waiting] = [messageOf(), messageOf(), messageOf()]
    for (const [message, fate] of [[delivered, DELIVERED], [dead, DEAD]] as const) {
      await store.accept(message)
      await store.settle((await takeOne(store, owner)).token, fate)
    }
    await store.accept(waiting)
    const [claimed, completed] = [claimOf(), claimOf()]
    for (const claim of [claimed, completed]) await records.insert(claim)
    await records.settle(settlementOf(tokenOf(completed), 'completed'))
    await switchScheme('2')
    for (const earlier of [delivered, dead, waiting, claimed, completed]) {
      const next = nextOf(earlier)
      assert.deepEqual(await store.accept(next), MOVED)
      assert.deepEqual((await store.acceptAll([next, nextOf(messageOf())])).map(({ kind }) => kind), ['moved', 'accepted'])
      assert.equal(await store.look(next.id), null)
    }
    assert.deepEqual(
      [await stateOf(store, delivered), await stateOf(store, dead), await stateOf(store, waiting)],
      ['delivered', 'dead', 'waiting']
    )
  })

  test('what is past there does not, and is gone with the acceptance: who has seen the record takes it no more', async (t) => {
    const world = await open(t)
    const { store, records, switchScheme } = world
    const [one, other] = [await bringPast(world), await bringPast(world, { group: 'a', stops: true })]
    const [claim, among] = [claimOf(), claimOf()]
    for (const each of [claim, among]) {
      await records.insert(each)
      await records.settle(settlementOf(tokenOf(each), 'completed', { keepMs: SHORT_MS }))
      await untilAfter(world, SHORT_MS, async () => (await records.look(each.id))?.past === true, 'the record to be past')
    }
    await switchScheme('2')
    assert.deepEqual(await store.accept(nextOf(one)), { kind: 'accepted' })
    assert.deepEqual(await store.accept(nextOf(claim)), { kind: 'accepted' })
    assert.deepEqual((await store.acceptAll([nextOf(other), nextOf(among)])).map(({ kind }) => kind), ['accepted', 'accepted'])
    assert.equal(await store.sweep(10), 0)
    for (const each of [claim, among]) {
      assert.equal(await records.look(each.id), null)
      assert.deepEqual(await records.take(seenOf(each), each, false), { kind: 'moved' })
    }
  })

  test('what stands under its own id goes first, whichever scheme claims', async (t) => {
    const { store, records, switchScheme } = await open(t)
    const [message, recorded] = [messageOf(), messageOf()]
    await store.accept(message)
    await records.insert(claimOf({ id: recorded.id }))
    await switchScheme('2')
    assert.equal((await store.accept(againOf(message))).kind, 'seen')
    assert.deepEqual(await store.accept(recorded), { kind: 'recorded' })
    assert.deepEqual((await store.acceptAll([againOf(message), recorded])).map(({ kind }) => kind), ['seen', 'recorded'])
    const next = nextOf(messageOf())
    await store.accept(next)
    assert.equal((await store.accept(againOf(next))).kind, 'seen')
  })

  test('under a claim of its own it is accepted, whichever scheme claims meanwhile: the claim has looked', async (t) => {
    const { store, records, switchScheme } = await open(t)
    const message = messageOf()
    const claim = claimOf({ id: message.id })
    await records.insert(claim)
    await switchScheme('2')
    assert.deepEqual(await store.accept({ ...message, underClaim: { owner: claim.owner, attempt: 1 } }), { kind: 'accepted' })
  })

  test('a message that stands under the earlier id of a claim moves it; one that is past does not, and is gone', async (t) => {
    const world = await open(t)
    const { store, records, switchScheme } = world
    const [past, there] = [await bringPast(world), messageOf()]
    await store.accept(there)
    await switchScheme('2')
    const claims = [past, there].map(({ id }) => nextClaimOf(claimOf({ id })))
    assert.deepEqual(await Promise.all(claims.map(async (claim) => (await records.insert(claim)).kind)), ['won', 'moved'])
    assert.deepEqual(await records.confirm(nextClaimOf(claimOf({ id: there.id }))), MOVED)
    assert.equal(await store.sweep(10), 0)
  })

  test('of a claim and an acceptance of one request that meet a switch exactly one is told that it may', async (t) => {
    const { store, records, switchScheme } = await open(t)
    const olds = Array.from({ length: 20 }, () => messageOf())
    const results = await Promise.all([
      ...olds.map(async (message, index) =>
        (await (index % 2 === 0 ? store.accept(message) : records.insert(claimOf({ id: message.id })))).kind),
      Promise.resolve(switchScheme('2')).then(() => 'switched')
    ])
    const later = await Promise.all(olds.map(async ({ id }, index) =>
      (await (index % 2 === 0 ? records.insert(nextClaimOf(claimOf({ id }))) : store.accept(nextOf({ id })))).kind))
    for (const index of olds.keys()) {
      assert.equal(
        [results[index], later[index]].filter((kind) => kind === 'won' || kind === 'accepted').length,
        1,
        `${results[index]}, ${later[index]}`
      )
    }
  })

  test('a message of the scheme before is counted, and keeps that from ending until it is swept', async (t) => {
    const world = await open(t)
    const { store, records, switchScheme } = world
    await bringPast(world)
    await store.accept(messageOf({ id: randomBytes(32) }))
    const result = await switchScheme('2')
    assert.deepEqual(result.kind === 'switched' && result.rows, { records: 0, messages: 1, marks: 0 })
    assert.deepEqual(await switchScheme('3').then((left) => left.kind === 'earlier-left' && left.rows), {
      records: 0,
      messages: 2,
      marks: 0
    })
    await records.endEarlierScheme()
    assert.notEqual((await records.schemes()).earlier, null)
  })
}
