/** A gateway sends nothing while the others may not know that it executes: they could accept the same key (ports.ts, Registry). */
import { readClocks } from '../../../src/gateway/shared/clock-reading.ts'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { aspectsOf } from '../../../src/core/protocol/aspects.ts'
import type { RouteMatch } from '../../../src/core/policy/policy.ts'
import { StoreUnavailable } from '../../../src/ports/errors.ts'
import { registrar } from '../../../src/background/registration.ts'
import type { DifferingRoute, Registering, Registry } from '../../../src/ports/registry.ts'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { NO_LOCKS } from '../../../src/store/shared/no-locks.ts'
import { eventually } from '../../harness/eventually.ts'
import { faulty, firstly, gate } from '../../harness/faulty-store.ts'
import { apiPolicy, recordingLog, startGuarded } from '../../harness/gateway.ts'
import type { Guarded } from '../../harness/gateway.ts'
import { ManualClock } from '../../harness/manual-clock.ts'
import { idOf, inboxPolicy } from '../inbox/inbox-world.ts'

const MINUTE_MS = 60_000

interface World extends Guarded {
  readonly clock: ManualClock
  readonly orders: Registering[]
  readonly registry: { register: Registry['register'], registered: boolean, differing: DifferingRoute[] }
  readonly records: ReturnType<typeof faulty>
  readonly log: ReturnType<typeof recordingLog>
}

async function start (t: TestContext, policy: Parameters<typeof apiPolicy>[0] = {}): Promise<World> {
  const clock = new ManualClock()
  const log = recordingLog()
  const records = faulty(new MemoryStore({ nowMs: clock.wallMs }))
  const orders: Registering[] = []
  const fake: World['registry'] = { register: async (order) => { orders.push(order) }, registered: true, differing: [] }
  const registry: Registry = {
    name: 'postgres',
    register: async (order) => fake.register(order),
    registered: async () => fake.registered,
    differing: async () => fake.differing,
    withdraw: async () => {}
  }
  const started = await startGuarded(t, {
    background: false,
    policy: { leaseMs: 60 * MINUTE_MS, retentionMs: 1_000 * MINUTE_MS, ...policy },
    world: { clock, log, records: records.store, locks: NO_LOCKS, registry }
  })
  return { ...started, clock, log, orders, registry: fake, records }
}

test('nothing is claimed before the registration of its route is acknowledged, and one registration does for all', async (t) => {
  const { ask, registry, orders, witness, records } = await start(t)
  const { promise, resolve } = Promise.withResolvers<void>()
  registry.register = async (order) => { orders.push(order); await promise }
  const asking = ['a', 'b'].map(async (key) => ask(key))
  await eventually(() => orders.length === 1, 'the registration')
  assert.equal(records.calls('insert') + witness.seen.length, 0)
  resolve()
  assert.deepEqual((await Promise.all(asking)).map(({ status }) => status), [201, 201])
  await ask('c')
  assert.deepEqual(
    orders.map(({ routes, barrierMs }) => [routes.map(({ route, executes }) => [route, executes]), barrierMs !== null]),
    [[[['things', true]], true]]
  )
})

test('a registration that cannot be made is a 503, and nothing is sent: not where stores that are down are passed by either', async (t) => {
  const { ask, registry, witness, clock } = await start(t, { onStoreDown: 'forward' })
  registry.register = async () => {
    throw new StoreUnavailable('postgres', 'register', false, new Error('canceling statement due to lock timeout'), true)
  }
  const asking = ask('k')
  let answered = false
  void asking.then(() => { answered = true })
  await eventually(async () => { await clock.advance(100); return answered }, 'the answer')
  assert.deepEqual([(await asking).status, (await asking).json.code, witness.seen.length], [503, 'store-unavailable', 0])
})

test('a claim from before a silence after which others need not reckon with it is given back unsent', async (t) => {
  const { ask, records, clock, witness, orders, gateway } = await start(t)
  await ask('before')
  const claimed = gate()
  records.faults.set('insert', firstly(1, claimed.fault))
  const asking = ask('k')
  await claimed.reached
  clock.stall(31 * MINUTE_MS)
  // A heartbeat that is acknowledged now does not revive the registration.
  gateway.registration.heartbeatAcknowledged(readClocks(gateway.deps.clock))
  claimed.open()
  assert.equal((await asking).status, 503)
  assert.equal(witness.seen.length, 1)
  assert.equal((await records.store.look(idOf('k')))?.state, 'released')
  assert.equal((await ask('k')).status, 201)
  assert.deepEqual(
    orders.map(({ barrierMs }) => barrierMs !== null),
    [true, true],
    'it has registered anew, and waited for those under way'
  )
})

test('with signs of life it lasts; one that is gone from the store is made anew', async (t) => {
  const { ask, clock, orders, gateway, registry } = await start(t)
  for (let minute = 0; minute < 90; minute += 10) {
    await clock.advance(10 * MINUTE_MS)
    gateway.registration.heartbeatAcknowledged(readClocks(gateway.deps.clock))
    assert.equal((await ask(`k${minute}`)).status, 201)
    await gateway.registration.check()
  }
  assert.equal(orders.length, 1)
  registry.registered = false
  await gateway.registration.check()
  assert.equal(orders.length, 2)
})

test('a reload: what came before it may claim for two minutes more, and its route is registered so', async (t) => {
  const { ask, clock, orders, gateway, witness } = await start(t)
  const match: RouteMatch = { path: '/*', methods: [], host: null, exact: false }
  const upstream = {
    name: 'test',
    origin: witness.url,
    timeoutMs: 1,
    connectTimeoutMs: 1,
    keepAliveMs: 1,
    connectionsMax: 1,
    passThroughMax: 1,
    idleMs: 1,
    host: 'upstream' as const,
    requestHeaders: [],
    ca: null,
    hops: { none: false, header: null }
  }
  await ask('before')
  gateway.registration.reconfigure([{ name: 'things', match, upstream, idempotency: apiPolicy({ inbox: inboxPolicy(), inboxFor: 'all' }) }])
  await gateway.registration.check()
  assert.deepEqual(orders.at(-1)?.routes.map(({ executes, policy }) => [executes, policy.mode]), [[true, 'inbox']])
  // This listener still has the old route, like a request whose body comes late.
  assert.equal((await ask('late')).status, 201)
  await clock.advance(3 * MINUTE_MS)
  await gateway.registration.check()
  assert.deepEqual([orders.at(-1)?.routes[0]?.executes, orders.at(-1)?.barrierMs], [false, null])
  assert.equal((await ask('too-late')).status, 503)
  assert.equal(witness.seen.length, 2)
})

test('a difference is told once: as a warning where a key may be executed twice or sent again, and as it passes where not', async (t) => {
  const { gateway, registry, log, clock } = await start(t)
  const mine = aspectsOf(apiPolicy({ leaseMs: 60 * MINUTE_MS, retentionMs: 1_000 * MINUTE_MS }), 'upstream', 1)
  registry.differing = [
    { gateway: 'ff', instance: 'other-1', route: 'things', policy: { ...mine, scope: 'public', mode: 'inbox' } },
    { gateway: 'fe', instance: 'other-2', route: 'things', policy: { ...mine, lease: '1 ms' } },
    { gateway: 'fd', instance: 'other-3', route: 'things', policy: { ...mine, lease: '1 ms', unknown: 'retry' } },
    { gateway: 'fc', instance: 'other-4', route: 'renamed', policy: mine }
  ]
  const service = registrar(gateway).start()
  for (let round = 0; round < 3; round++) await clock.advance(15_000)
  await service.stop()
  assert.deepEqual(log.lines
    .filter(({ other }) => other !== undefined)
    .map(({ level, other, aspect, there }) => [level, other, aspect, there]), [
    ['info', 'other-1', 'mode', 'inbox'],
    ['warn', 'other-1', 'scope', 'public'],
    ['info', 'other-2', 'lease', '1 ms'],
    ['warn', 'other-3', 'unknown', 'retry'],
    ['warn', 'other-3', 'lease', '1 ms'],
    ['warn', 'other-4', 'route', 'guarded']
  ])
})
