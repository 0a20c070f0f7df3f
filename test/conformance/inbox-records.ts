/** A key is one operation: a message is accepted beside a record of the same key only under the record's claim. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { NewMessage } from '../../src/core/inbox/message.ts'
import type { Claim, SettledState } from '../../src/core/record/record.ts'
import { againOf, DELIVERED, messageOf, takeOne, untilAfter, workerOf } from './inbox-world.ts'
import type { InboxWorld, OpenInbox } from './inbox-world.ts'
import { claimOf, LONG_MS, rivalOf, seenOf, settlementOf, SHORT_MS, tokenOf } from './record-world.ts'

/** In the message's route, with its key. */
async function leaveRecord ({ records }: InboxWorld, { id }: NewMessage, outcome: SettledState | null, keepMs = LONG_MS): Promise<Claim> {
  const claim = claimOf({ id })
  await records.insert(claim)
  if (outcome !== null) await records.settle(settlementOf(tokenOf(claim), outcome, { keepMs }))
  return claim
}

function under (message: NewMessage, { owner }: Pick<Claim, 'owner'>, attempt = 1): NewMessage {
  return { ...message, underClaim: { owner, attempt } }
}

const ENDS_OF_A_CLAIM: Readonly<Record<string, (world: InboxWorld, claim: Claim) => Promise<unknown>>> = {
  'was released': async ({ records }, claim) => records.settle(settlementOf(tokenOf(claim), 'released')),
  'is unknown by now': async ({ records }, claim) => records.settle(settlementOf(tokenOf(claim), 'indeterminate')),
  'another has taken since': async ({ records }, claim) => {
    await records.settle(settlementOf(tokenOf(claim), 'released'))
    assert.equal((await records.take(seenOf(claim), rivalOf(claim), false)).kind, 'won')
  }
}

export function inboxRecords (open: OpenInbox): void {
  test('messages of several targets under one claim are accepted together while it stands, and none of them after it', async (t) => {
    const world = await open(t)
    for (const isOver of [false, true]) {
      const first = messageOf()
      const claim = await leaveRecord(world, first, null)
      if (isOver) await world.records.settle(settlementOf(tokenOf(claim), 'released'))
      const beside = messageOf({ route: 'other', alongside: first.id, fingerprint: first.fingerprint })
      const messages = [first, beside].map((message) => under(message, claim))
      const kind = isOver ? 'recorded' : 'accepted'
      assert.deepEqual((await world.store.acceptAll(messages)).map((result) => result.kind), [kind, kind])
      const states = await Promise.all(messages.map(async ({ id }) => (await world.store.look(id))?.state))
      assert.deepEqual(states, isOver ? [undefined, undefined] : ['waiting', 'waiting'])
      if (isOver) continue
      assert.deepEqual((await world.store.acceptAll(messages)).map((result) => result.kind), ['seen', 'seen'])
    }
  })

  for (const outcome of [null, 'completed', 'consumed', 'indeterminate', 'released'] as const) {
    test(`a message whose key has a record (${outcome ?? 'claimed'}) is not taken in`, async (t) => {
      const world = await open(t)
      const message = messageOf()
      await leaveRecord(world, message, outcome)
      assert.deepEqual(await world.store.accept(message), { kind: 'recorded' })
      assert.deepEqual(await world.store.accept(againOf(message)), { kind: 'recorded' })
      assert.equal(await world.store.look(message.id), null)
    })
  }

  test('under the claim of its record it is, and its deliveries are numbered from there on', async (t) => {
    const world = await open(t)
    const { store, records } = world
    const message = messageOf()
    const claim = await leaveRecord(world, message, 'released')
    const again = rivalOf(claim)
    assert.deepEqual(await records.take(seenOf(claim), again, false), { kind: 'won', attempt: 2 })
    assert.deepEqual(await store.accept(under(message, again, 2)), { kind: 'accepted' })
    const { token, tries } = await takeOne(store, await workerOf(store))
    assert.deepEqual([token.attempt, tries], [2, 1])
  })

  // Chaos with gateways that differ found it: an acceptance that a slow way held back came behind the end of its lease,
  // when another gateway had executed its key.
  for (const [end, bring] of Object.entries(ENDS_OF_A_CLAIM)) {
    test(`under a claim that ${end} it is not taken in, and a claim that stands lets others in beside it`, async (t) => {
      const world = await open(t)
      const { store } = world
      const [late, inTime] = [messageOf(), messageOf()]
      const [ended, stands] = [await leaveRecord(world, late, null), await leaveRecord(world, inTime, null)]
      await bring(world, ended)
      const results = await Promise.all([
        store.accept(under(late, ended)),
        store.accept(under(inTime, stands)),
        store.accept(under(messageOf(), ended))
      ])
      assert.deepEqual(results.map(({ kind }) => kind), ['recorded', 'accepted', 'recorded'])
      assert.equal(await store.look(late.id), null)
    })
  }

  test('a record that is past is none, and a message that stands there goes before a record', async (t) => {
    const world = await open(t)
    const { store } = world
    const [past, there] = [messageOf(), messageOf()]
    await leaveRecord(world, past, 'completed', SHORT_MS)
    await untilAfter(world, SHORT_MS, async () => (await store.accept(past)).kind === 'accepted', 'the record to be past')
    await store.accept(there)
    await leaveRecord(world, there, 'completed')
    assert.equal((await store.accept(againOf(there))).kind, 'seen')
  })

  test('with one that has a record among them, none of several is taken in', async (t) => {
    const world = await open(t)
    const { store } = world
    const [one, recorded, other, there] = [messageOf(), messageOf(), messageOf(), messageOf()]
    await store.accept(there)
    await leaveRecord(world, recorded, 'completed')
    const results = await store.acceptAll([one, recorded, other, there])
    assert.deepEqual(results.map(({ kind }) => kind), ['accepted', 'recorded', 'accepted', 'seen'])
    for (const message of [one, recorded, other]) assert.equal(await store.look(message.id), null)
  })

  test('a record beside a message that stands there holds up no others', async (t) => {
    const world = await open(t)
    const { store } = world
    const [there, other] = [messageOf(), messageOf()]
    const claim = await leaveRecord(world, there, null)
    await store.accept(under(there, claim))
    await world.records.settle(settlementOf(tokenOf(claim), 'completed'))
    assert.deepEqual((await store.acceptAll([againOf(there), other])).map(({ kind }) => kind), ['seen', 'accepted'])
    assert.notEqual(await store.look(other.id), null)
  })

  test('where a message stands nothing is claimed, and who asks for it is told of the message', async (t) => {
    const { store, records } = await open(t)
    const message = messageOf()
    await store.accept(message)
    const claim = claimOf({ id: message.id })
    for (const result of [await records.insert(claim), await records.confirm(claim)]) {
      assert.equal(result.kind === 'message' && result.message.state, 'waiting')
      assert.deepEqual(result.kind === 'message' && result.message.fingerprint, message.fingerprint)
    }
    assert.equal(await records.look(message.id), null)
  })

  for (const outcome of ['released', 'indeterminate', 'completed'] as const) {
    test(`nor is what was ${outcome} behind the message, though it is past or may be asked for again`, async (t) => {
      const world = await open(t)
      const { store, records } = world
      const message = messageOf()
      const claim = claimOf({ id: message.id })
      await records.insert(claim)
      await store.accept(under(message, claim))
      await records.settle(settlementOf(tokenOf(claim), outcome, { keepMs: SHORT_MS }))
      if (outcome !== 'completed') assert.equal((await records.take(seenOf(claim), rivalOf(claim), true)).kind, 'message')
      await untilAfter(world, SHORT_MS, async () => (await records.look(claim.id))?.past === true, 'the record to be past')
      assert.equal((await records.take(seenOf(claim), rivalOf(claim), true)).kind, 'message')
      assert.equal((await records.insert(rivalOf(claim))).kind, 'seen')
      assert.deepEqual((await records.look(claim.id))?.owner, claim.owner)
    })
  }

  test('a message that is past is none to a claim, and those beside one are claimed', async (t) => {
    const world = await open(t)
    const { store, records } = world
    const [past, there] = [messageOf({ keepMs: SHORT_MS }), messageOf({ route: 'others' })]
    for (const message of [past, there]) await store.accept(message)
    const { token } = await takeOne(store, await workerOf(store))
    await store.settle(token, DELIVERED)
    await untilAfter(world, SHORT_MS, async () => await store.look(past.id) === null, 'the message to be past')
    const claims = [past, there, messageOf()].map(({ id }) => claimOf({ id }))
    const results = await Promise.all(claims.map(async (claim) => records.insert(claim)))
    assert.deepEqual(results.map(({ kind }) => kind), ['won', 'message', 'won'])
  })
}
