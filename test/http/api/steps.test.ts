/** Changes of many and of one when something fails between: what is done is told as done, and nothing is done twice. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Claim } from '../../../src/core/record/record.ts'
import { StoreUnavailable } from '../../../src/ports/errors.ts'
import { DEAD, messageOf, takeFrom, workerOf } from '../../conformance/inbox-world.ts'
import { claimOf, settlementOf, tokenOf } from '../../conformance/record-world.ts'
import { World } from './world.ts'

const REASON = 'found in the ledger'
const LONG_LEASE_MS = 86_400_000

async function unknown (world: World, over: Partial<Claim> = {}): Promise<string> {
  const claim = claimOf(over)
  await world.store.insert(claim)
  await world.store.settle(settlementOf(tokenOf(claim), 'indeterminate'))
  world.clock.nowMs++
  return claim.id.toString('base64url')
}

async function dead (world: World): Promise<string> {
  const { inbox } = world.store
  const message = messageOf({ route: 'hooks' })
  await inbox.accept(message)
  for (const { token } of await takeFrom(inbox, await workerOf(inbox), 10, 'hooks')) await inbox.settle(token, DEAD)
  world.clock.nowMs++
  return message.id.toString('base64url')
}

async function stateOf (world: World, id: string): Promise<unknown> {
  return (await world.get(`/records/${id}`)).body.state
}

const lost = (): StoreUnavailable => new StoreUnavailable('postgres', 'resolve', true, new Error('connection lost'))

test('a change that is a mistake for one record is refused for it, and the others are changed', async (t) => {
  const world = await World.open(t)
  const [one, slow, two] = [await unknown(world), await unknown(world, { leaseMs: LONG_LEASE_MS }), await unknown(world)]
  const { body: { token } } = await world.post('/records/selections', { state: 'indeterminate' })
  const { status, body } = await world.post('/records/changes', {
    token, action: 'resolve', status: 201, statusOnly: true, retention: '2h', reason: REASON
  })
  assert.deepEqual([status, body.changed, body.next], [200, 2, null])
  const [refused] = body.refused as Array<{ id: string, detail: string }>
  assert.equal(refused?.id, slow)
  assert.match(refused.detail, /at least two leases/)
  assert.deepEqual(await Promise.all([one, slow, two].map((id) => stateOf(world, id))), ['consumed', 'indeterminate', 'consumed'])
})

test('a change that is a mistake for all is a mistake of whoever asks, and nothing is changed', async (t) => {
  const world = await World.open(t)
  const ids = [await unknown(world), await unknown(world)]
  const { body: { token } } = await world.post('/records/selections', { state: 'indeterminate' })
  const order = { token, action: 'resolve', status: 201, reason: REASON }
  const { status, body } = await world.post('/records/changes', { ...order, headers: [['Connection', 'close']] })
  assert.deepEqual([status, body.code], [400, 'bad-request'])
  assert.deepEqual(await Promise.all(ids.map((id) => stateOf(world, id))), ['indeterminate', 'indeterminate'])
})

test('a step that a store breaks off says how many are changed, and the same step goes on', async (t) => {
  const world = await World.open(t)
  const ids = [await unknown(world), await unknown(world), await unknown(world)]
  const { body: { token } } = await world.post('/records/selections', { state: 'indeterminate' })
  const resolve = world.store.resolve.bind(world.store)
  let calls = 0
  // The second change is committed, and its reply is lost.
  world.store.resolve = async (resolution) => {
    const result = await resolve(resolution)
    if (++calls === 2) throw lost()
    return result
  }
  const step = async () => world.post('/records/changes', { token, action: 'resolve', status: 201, statusOnly: true, reason: REASON })
  const broken = await step()
  assert.deepEqual([broken.status, broken.body.code, broken.body.changed], [503, 'store-unavailable', 1])
  assert.match(String(broken.body.detail), /broken off after 1 change \(.*One more may have been changed.* Take the same step again/)
  const { body } = await step()
  assert.deepEqual([body.changed, body.refused, body.next], [1, [], null])
  assert.deepEqual(await Promise.all(ids.map((id) => stateOf(world, id))), ['consumed', 'consumed', 'consumed'])
  const { entries } = (await world.get('/audit?action=resolve')).body as { entries: unknown[] }
  assert.equal(entries.length, 3, 'each of them once')
})

test('a record that somebody else holds locked is refused, and those behind it are changed', async (t) => {
  const world = await World.open(t)
  const [one, locked, two] = [await unknown(world), await unknown(world), await unknown(world)]
  const resolve = world.store.resolve.bind(world.store)
  let isHeld = (id: string): boolean => id === locked
  world.store.resolve = async (resolution) => {
    if (!isHeld(resolution.token.id.toString('base64url'))) return resolve(resolution)
    throw new StoreUnavailable('postgres', 'resolve', false, new Error('canceling statement due to lock timeout'), true)
  }
  const { body: { token } } = await world.post('/records/selections', { state: 'indeterminate' })
  const step = async () => world.post('/records/changes', { token, action: 'resolve', status: 201, statusOnly: true, reason: REASON })
  const { status, body } = await step()
  assert.deepEqual([status, body.changed, body.next], [200, 2, null])
  assert.deepEqual(body.refused, [{
    id: locked, detail: 'The store could not change it now, and nothing of it was changed: canceling statement due to lock timeout.'
  }])
  assert.deepEqual(await Promise.all([one, locked, two].map((id) => stateOf(world, id))), ['consumed', 'indeterminate', 'consumed'])
  isHeld = () => true
  const all = await step()
  assert.deepEqual([all.status, all.body.code, all.body.changed], [503, 'store-unavailable', 0])
  isHeld = () => false
  assert.equal((await step()).body.changed, 1)
})

test('a change that is committed is told as done, even if the record cannot be read again', async (t) => {
  const world = await World.open(t)
  const id = await unknown(world)
  const { owner, attempt } = (await world.get(`/records/${id}`)).body as { owner: string, attempt: number }
  const list = world.store.list.bind(world.store)
  let looks = 0
  world.store.list = async (filter) => {
    if (++looks === 2) throw lost()
    return list(filter)
  }
  const { status, body } = await world.post(`/records/${id}/resolve`, { owner, attempt, status: 201, reason: REASON })
  assert.deepEqual([status, body.record], [200, null])
  assert.match(String(body.done), /^Resolved/)
  assert.equal(await stateOf(world, id), 'completed')
})

test('a route whose messages go to targets is not paused: each target is, and what waited before it had any', async (t) => {
  const targets = '{ a: { upstream: payments }, b: { upstream: payments } }'
  const world = await World.open(t, { inbox: `{ deadLetter: { upstream: payments }, targets: ${targets} }` })
  const { inbox, operator } = world.store
  const refused = await world.post('/inbox/routes/events/pause', { reason: REASON })
  assert.equal(refused.status, 409)
  assert.equal(refused.body.detail, 'The messages of this route go to its targets. Pause events::a, events::b.')
  assert.deepEqual(await operator.paused(), [])
  for (const name of ['events::b', 'events::a::dead-letter']) {
    assert.equal((await world.post(`/inbox/routes/${encodeURIComponent(name)}/pause`, { reason: REASON })).status, 200)
  }
  await inbox.accept(messageOf({ route: 'events' }))
  assert.equal((await world.post('/inbox/routes/events/pause', { reason: REASON })).status, 200)
  assert.deepEqual((await operator.paused()).map(({ route }) => route).sort(), ['events', 'events::a::dead-letter', 'events::b'])
})

test('a route is paused and resumed even if its inbox cannot be read again, or is in no configuration any more', async (t) => {
  const world = await World.open(t)
  await dead(world)
  const { inbox, operator } = world.store
  await operator.pause('retired', { who: 'ops', why: 'before it was taken out' })
  const resumed = await world.post('/inbox/routes/retired/resume', { reason: REASON })
  const { route, configured, paused, dead: letters } = resumed.body.route as Record<string, unknown>
  assert.deepEqual([resumed.status, route, configured, paused, letters], [200, 'retired', false, null, 0])
  const depths = inbox.depths.bind(inbox)
  let looks = 0
  inbox.depths = async () => {
    if (++looks === 2) throw lost()
    return depths()
  }
  const { status, body } = await world.post('/inbox/routes/hooks/pause', { reason: REASON })
  assert.deepEqual([status, body.route], [200, null])
  assert.equal((await operator.paused()).length, 1)
})

test('a mistake for the first records of many is no end: those behind them are reached', async (t) => {
  const world = await World.open(t)
  for (let at = 0; at < 26; at++) await unknown(world, { about: { ...claimOf().about, route: 'charges' } })
  const other = await unknown(world, { about: { ...claimOf().about, route: 'gone' } })
  const { body: { token } } = await world.post('/records/selections', { state: 'indeterminate' })
  // The route takes it for "not done". The other one is in no configuration any more, so nothing is compared.
  const order = { token, action: 'resolve', status: 429, reason: REASON }
  const first = await world.post('/records/changes', order)
  assert.deepEqual([first.status, first.body.changed, (first.body.refused as unknown[]).length], [200, 0, 25])
  const second = await world.post('/records/changes', { ...order, cursor: first.body.next })
  assert.deepEqual([second.body.changed, (second.body.refused as unknown[]).length, second.body.next], [1, 1, null])
  assert.equal(await stateOf(world, other), 'completed')
  const wrong = await world.post('/records/changes', { ...order, headers: [['Connection', 'close']] })
  assert.deepEqual([wrong.status, wrong.body.code], [400, 'bad-request'])
})

test('what counts or explains cannot have changed anything when a store is away', async (t) => {
  const world = await World.open(t)
  const id = await unknown(world)
  const { owner, attempt } = (await world.get(`/records/${id}`)).body as { owner: string, attempt: number }
  Object.assign(world.store.operator, { searchRecords: async () => { throw lost() } })
  Object.assign(world.store, { list: async () => { throw lost() }, resolve: async () => { throw lost() } })
  const { status, body } = await world.post('/records/selections', { state: 'indeterminate' })
  assert.deepEqual([status, body.detail], [503, 'The store cannot be used now (connection lost).'])
  const change = await world.post(`/records/${id}/resolve`, { owner, attempt, status: 201, reason: REASON })
  assert.match(String(change.body.detail), /may have been done/)
})

test('only a release can be too early: an unknown outcome is resolved or released before it is deleted', async (t) => {
  const world = await World.open(t)
  const id = await unknown(world)
  const { owner, attempt } = (await world.get(`/records/${id}`)).body as { owner: string, attempt: number }
  const expire = world.store.expire.bind(world.store)
  // Postgres says of any refused change how long the quarantine lasts.
  world.store.expire = async (...given) => {
    const result = await expire(...given)
    return result.kind === 'refused' ? { ...result, quarantineLeftMs: 5_000 } : result
  }
  const { status, body } = await world.post(`/records/${id}/delete`, { owner, attempt, reason: REASON })
  assert.deepEqual([status, body.code], [409, 'refused'])
  assert.match(String(body.detail), /resolve or release it first/)
})
