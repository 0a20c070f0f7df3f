/** A switch of the scheme of ids: existing records keep their ids and are found by them. Nothing is executed under two ids. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { schemeName } from '../../../src/core/record/schemes.ts'
import type { IdempotencyPolicy } from '../../../src/core/policy/policy.ts'
import { MemoryInbox } from '../../../src/store/memory/inbox.ts'
import { MemoryMarks } from '../../../src/store/memory/marks.ts'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { NO_LOCKS } from '../../../src/store/shared/no-locks.ts'
import { call } from '../../harness/call.ts'
import type { Called, CallOptions } from '../../harness/call.ts'
import { guardedRoute, startGateway } from '../../harness/gateway.ts'
import type { TestGateway } from '../../harness/gateway.ts'
import { eventually } from '../../harness/eventually.ts'
import { startWitness } from '../../harness/witness.ts'
import type { Witness } from '../../harness/witness.ts'
import { DROP, faultyMarks } from '../drop/drop-world.ts'
import { inboxPolicy } from '../inbox/inbox-world.ts'

const SECRET = Buffer.from('a secret that nobody can guess')
const OTHER = Buffer.from('another secret, as good as that')
const KEYED = schemeName(2, SECRET)

interface Database { readonly records: MemoryStore, readonly inbox: MemoryInbox }

function database (scheme = '1', nowMs = Date.now): Database {
  const records = new MemoryStore({ nowMs, scheme })
  return { records, inbox: new MemoryInbox({ nowMs, records }) }
}

interface Seat extends TestGateway { readonly ask: (key: string, options?: CallOptions) => Promise<Called> }

async function startSeat (
  t: TestContext,
  witness: Witness,
  { records, inbox }: Database,
  { policy = {}, secrets = [SECRET], ...world }: {
    readonly policy?: Partial<IdempotencyPolicy>
    readonly secrets?: readonly Buffer[]
    readonly marks?: ReturnType<typeof faultyMarks>
  } = {}
): Promise<Seat> {
  const gateway = await startGateway(t, {
    routes: [guardedRoute(witness.url, policy)],
    world: { records, inbox, locks: NO_LOCKS, secrets, ...world },
    background: false
  })
  return {
    ...gateway,
    ask: async (key, { headers = {}, ...more } = {}) => call(gateway.url, '/things', {
      body: 'same',
      ...more,
      headers: { 'Idempotency-Key': key, ...headers }
    })
  }
}

async function startWorld (t: TestContext): Promise<Witness> {
  const witness = await startWitness()
  t.after(async () => { await witness.close() })
  return witness
}

const recordOf = (witness: Witness, index: number): unknown => witness.seen[index]?.headers['onceway-key']

test('what was executed before the switch is replayed behind it, by whoever has heard of it or not', async (t) => {
  const witness = await startWorld(t)
  const store = database()
  const [one, other] = [await startSeat(t, witness, store), await startSeat(t, witness, store)]
  const first = await one.ask('k')
  store.records.switchScheme(KEYED)
  await other.gateway.ids.refresh()
  for (const seat of [other, one, other]) {
    const again = await seat.ask('k')
    assert.deepEqual([again.status, again.text, again.headers['idempotent-replayed']], [first.status, first.text, 'true'])
  }
  assert.equal((await other.ask('k', { body: 'otherwise' })).status, 422)
  assert.equal(witness.seen.length, 1)
})

test('behind the switch a new key has an id of the new scheme, which a gateway that had not heard of it makes as well', async (t) => {
  const witness = await startWorld(t)
  const store = database()
  const [one, other] = [await startSeat(t, witness, store), await startSeat(t, witness, store)]
  store.records.switchScheme(KEYED)
  await other.gateway.ids.refresh()
  assert.equal(one.gateway.ids.rules, 1)
  const answers = await Promise.all([one, other, one, other].map(async (seat) => seat.ask('k')))
  assert.equal(witness.seen.length, 1)
  assert.ok(
    answers.every(({ status }) => status === 201 || status === 409),
    answers.map(({ status, text }) => `${status} ${text}`).join('\n')
  )
  assert.equal(one.gateway.ids.rules, 2)
  const rows = await store.records.list({ limit: 10 })
  assert.deepEqual(rows.map(({ id }) => id.toString('base64url')), [recordOf(witness, 0)])
  assert.equal((await other.ask('k')).headers['idempotent-replayed'], 'true')
})

test('what runs while the scheme is switched is in flight to both, and its answer is everybody\'s', async (t) => {
  const witness = await startWorld(t)
  const store = database()
  const [one, other] = [await startSeat(t, witness, store), await startSeat(t, witness, store)]
  const held = Promise.withResolvers<void>()
  witness.answer = (_seen, response) => { void held.promise.then(() => { response.writeHead(201).end('done') }) }
  const running = one.ask('k')
  await eventually(() => witness.seen.length === 1, () => 'it should be sent')
  store.records.switchScheme(KEYED)
  for (const seat of [other, one]) {
    await seat.gateway.ids.refresh()
    assert.equal((await seat.ask('k', { body: 'otherwise' })).status, 422)
  }
  assert.equal((await other.ask('k')).status, 409)
  held.resolve()
  assert.equal((await running).status, 201)
  assert.equal((await other.ask('k')).text, 'done')
  assert.equal((await one.ask('k')).text, 'done')
  assert.equal(witness.seen.length, 1)
})

test('what was released before the switch is executed once more under the id that it has', async (t) => {
  const witness = await startWorld(t)
  const store = database()
  const seat = await startSeat(t, witness, store)
  witness.answer = (_seen, response) => { response.writeHead(429).end() }
  assert.equal((await seat.ask('k')).status, 429)
  store.records.switchScheme(KEYED)
  witness.answer = (_seen, response) => { response.writeHead(201).end() }
  assert.equal((await seat.ask('k')).status, 201)
  assert.deepEqual([recordOf(witness, 0), witness.seen[1]?.headers['idempotency-attempt']], [recordOf(witness, 1), '2'])
})

test('what is past is no more in the way: the key has an id of the new scheme from then on', async (t) => {
  const witness = await startWorld(t)
  let aheadMs = 0
  const store = database('1', () => Date.now() + aheadMs)
  const seat = await startSeat(t, witness, store, { policy: { retentionMs: 60_000 } })
  await seat.ask('k')
  store.records.switchScheme(KEYED)
  aheadMs = 120_000
  // A gateway with nothing in memory.
  const later = await startSeat(t, witness, store)
  const again = await later.ask('k')
  assert.deepEqual([again.headers['idempotent-replayed'], witness.seen.length], [undefined, 2])
  assert.notEqual(recordOf(witness, 0), recordOf(witness, 1))
  assert.deepEqual((await store.records.list({ limit: 10 })).map(({ id }) => id.toString('base64url')), [recordOf(witness, 1)])
  await store.records.endEarlierScheme()
  assert.equal((await store.records.schemes()).earlier?.isOver, true)
})

test('what is past begins no new life by the scheme before, at a gateway that has not heard of the switch either', async (t) => {
  const witness = await startWorld(t)
  let aheadMs = 0
  const store = database('1', () => Date.now() + aheadMs)
  const [one, other] = [await startSeat(t, witness, store, { policy: { retentionMs: 60_000 } }), await startSeat(t, witness, store)]
  await one.ask('k', { headers: { authorization: 'Bearer a' } })
  store.records.switchScheme(KEYED)
  aheadMs = 120_000
  assert.equal((await other.ask('k', { headers: { authorization: 'Bearer a' } })).status, 201)
  assert.notEqual(recordOf(witness, 0), recordOf(witness, 1))
  const somebodyElse = await other.ask('k', { headers: { authorization: 'Bearer a', 'x-tenant': 'b' } })
  assert.deepEqual([somebodyElse.headers['idempotent-replayed'], witness.seen.length], [undefined, 3])
})

test('a message keeps its id, its place and its owner\'s view of it', async (t) => {
  const witness = await startWorld(t)
  const store = database()
  const policy: Partial<IdempotencyPolicy> = { inbox: inboxPolicy(), inboxFor: 'all' }
  const seat = await startSeat(t, witness, store, { policy })
  const first = await seat.ask('k')
  assert.equal(first.status, 202)
  store.records.switchScheme(KEYED)
  const again = await seat.ask('k')
  assert.deepEqual([again.status, again.text], [202, first.text])
  const location = String(first.headers.location)
  assert.equal((await call(seat.url, location, { method: 'GET' })).status, 200)
  const fresh = await seat.ask('fresh')
  assert.equal((await call(seat.url, String(fresh.headers.location), { method: 'GET' })).status, 200)
  assert.equal((await store.inbox.list({ limit: 10 })).length, 2)
})

test('behind the switch a message is told to its own sender, and to nobody whom the rules before took for him', async (t) => {
  const witness = await startWorld(t)
  const store = database()
  const seat = await startSeat(t, witness, store, { policy: { inbox: inboxPolicy(), inboxFor: 'all' } })
  store.records.switchScheme(KEYED)
  await seat.gateway.ids.refresh()
  const sender = { authorization: 'Bearer a', 'x-tenant': 'a' }
  const { headers: { location } } = await seat.ask('k', { headers: sender })
  const told = async (headers: Record<string, string>): Promise<number> =>
    (await call(seat.url, String(location), { method: 'GET', headers })).status
  assert.deepEqual(
    [await told(sender), await told({ ...sender, 'x-tenant': 'b' }), await told({ authorization: 'Bearer a' })],
    [200, 404, 404]
  )
})

test('an event that went through before the switch is a duplicate behind it', async (t) => {
  const witness = await startWorld(t)
  const store = database()
  const marks = faultyMarks(new MemoryMarks({ capacity: 100, nowMs: () => performance.now() }))
  const policy: Partial<IdempotencyPolicy> = { profile: 'relay', drop: DROP }
  const seat = await startSeat(t, witness, store, { policy, marks })
  await seat.ask('k')
  store.records.switchScheme(KEYED)
  await seat.gateway.ids.refresh()
  const again = await seat.ask('k')
  assert.deepEqual([again.headers['idempotency-status'], witness.seen.length], ['duplicate', 1])
  await seat.ask('fresh')
  assert.equal((await seat.ask('fresh')).headers['idempotency-status'], 'duplicate')
  assert.equal(witness.seen.length, 2)
})

test('a gateway without the secret that the scheme names serves nothing, and says why', async (t) => {
  const witness = await startWorld(t)
  const store = database()
  const seat = await startSeat(t, witness, store, { secrets: [OTHER] })
  await seat.ask('before')
  store.records.switchScheme(KEYED)
  assert.equal((await seat.ask('k')).status, 503)
  assert.match(seat.gateway.ids.blocked ?? '', /the secret \S{11}, which this gateway does not have: set secret, or previousSecret/)
  assert.equal((await seat.ask('before')).status, 503)
  assert.equal(witness.seen.length, 1)
  seat.gateway.reconfigure({
    limits: seat.world.limits,
    longestLeaseMs: 15_000,
    probed: new Map(),
    inboxes: new Map(),
    secrets: [SECRET, OTHER]
  })
  assert.equal(seat.gateway.ids.blocked, null)
  assert.equal((await seat.ask('before')).headers['idempotent-replayed'], 'true')
  assert.equal((await seat.ask('k')).status, 201)
})

test('which scheme claims is waited for no longer than a claim: 503, and nothing was sent', async (t) => {
  const witness = await startWorld(t)
  const { records, inbox } = database()
  const deaf = new Proxy(records, {
    get: (store, name) => {
      if (name === 'schemes' && store.scheme > 1) return async () => new Promise(() => {})
      const member: unknown = Reflect.get(store, name, store)
      return typeof member === 'function' ? member.bind(store) as unknown : member
    }
  })
  const gateway = await startGateway(t, {
    routes: [guardedRoute(witness.url)],
    world: { records: deaf, inbox, locks: NO_LOCKS, claimWithinMs: 100 },
    background: false
  })
  records.switchScheme('2')
  const startedAt = performance.now()
  const { status } = await call(gateway.url, '/things', { headers: { 'Idempotency-Key': 'k' } })
  assert.deepEqual([status, witness.seen.length], [503, 0])
  assert.ok(performance.now() - startedAt < 1_500)
})

test('a secret is changed for another in the same way, and the one before is needed until nothing of it is left', async (t) => {
  const witness = await startWorld(t)
  const store = database(KEYED)
  const seat = await startSeat(t, witness, store, { secrets: [OTHER, SECRET] })
  const first = await seat.ask('k')
  assert.equal(store.records.switchScheme(schemeName(2, OTHER)).kind, 'switched')
  assert.equal((await seat.ask('k')).text, first.text)
  assert.equal(store.records.switchScheme(schemeName(2, null)).kind, 'earlier-left', 'a third scheme would be one too many')
  const without = await startSeat(t, witness, store, { secrets: [OTHER] })
  assert.match(without.gateway.ids.blocked ?? '', /does not have/)
  assert.equal(witness.seen.length, 1)
})

test('where the secret is lost nothing that may have been executed is executed in silence', async (t) => {
  const witness = await startWorld(t)
  const store = database(KEYED)
  const before = await startSeat(t, witness, store)
  await before.ask('k')
  await before.close()
  store.records.switchScheme(schemeName(2, OTHER), { isLost: true })
  const seat = await startSeat(t, witness, store, { secrets: [OTHER] })
  const again = await seat.ask('k')
  assert.deepEqual([again.status, JSON.parse(again.text).code], [502, 'outcome-unknown'])
  assert.equal((await seat.ask('another-key')).status, 502)
  const otherwise = await seat.ask('another', { body: 'otherwise' })
  assert.deepEqual([otherwise.status, otherwise.headers['idempotent-replayed']], [201, undefined])
  assert.equal((await seat.ask('another', { body: 'otherwise' })).headers['idempotent-replayed'], 'true')
  assert.equal(witness.seen.length, 2)
})

test('what is lost is asked for anew where a failover has undone the switch that lost it', async (t) => {
  const witness = await startWorld(t)
  let now = database(KEYED)
  const standing = <Store extends object>(of: () => Store): Store => new Proxy(of(), {
    get: (_, name) => {
      const member: unknown = Reflect.get(of(), name)
      return typeof member === 'function' ? member.bind(of()) as unknown : member
    }
  })
  const seat = await startSeat(
    t,
    witness,
    { records: standing(() => now.records), inbox: standing(() => now.inbox) },
    { secrets: [OTHER, SECRET] }
  )
  const lose = async (): Promise<void> => {
    now.records.switchScheme(schemeName(2, OTHER), { isLost: true })
    await seat.gateway.ids.refresh()
  }
  await lose()
  assert.equal((await seat.ask('before')).status, 201)
  now = database(KEYED)
  await seat.gateway.ids.refresh()
  assert.equal((await seat.ask('k')).status, 201)
  await lose()
  assert.deepEqual([(await seat.ask('k')).status, witness.seen.length], [502, 2])
})

test('where the secret is lost a key that is kept as text says which request it was', async (t) => {
  const witness = await startWorld(t)
  const store = database(KEYED)
  const policy: Partial<IdempotencyPolicy> = { fingerprint: { of: [], body: 'none' } }
  const key = { ...guardedRoute(witness.url).idempotency.key, store: 'text' as const }
  const before = await startSeat(t, witness, store, { policy: { ...policy, key } })
  await before.ask('k')
  await before.close()
  store.records.switchScheme(schemeName(2, OTHER), { isLost: true })
  const seat = await startSeat(t, witness, store, { secrets: [OTHER], policy: { ...policy, key } })
  assert.equal((await seat.ask('k')).status, 502)
  assert.equal((await seat.ask('another')).status, 201)
})
