/** The bound on records per caller, or per address, of a route. Its existing records are still replayed. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { SYSTEM_CLOCK } from '../../../src/process/clock.ts'
import { StoreUnavailable } from '../../../src/ports/errors.ts'
import type { KeyedRequest } from '../../../src/gateway/fingerprint/keyed-request.ts'
import type { RecordCounts } from '../../../src/ports/record-counts.ts'
import { MemoryCounts } from '../../../src/store/memory/counts.ts'
import { MemoryInbox } from '../../../src/store/memory/inbox.ts'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import type { Called } from '../../harness/call.ts'
import { eventually } from '../../harness/eventually.ts'
import { startDrop } from '../drop/drop-world.ts'
import { startInbox } from '../inbox/inbox-world.ts'
import { countingMeter, guardedRoute, startGuarded } from '../../harness/gateway.ts'
import type { GuardedOptions } from '../../harness/gateway.ts'
import { startWitness } from '../../harness/witness.ts'

const as = (who: string, address = '192.0.2.1') => ({ headers: { Authorization: `Bearer ${who}`, 'X-Forwarded-For': address } })
const TRUSTED = ['127.0.0.1']
/** By when a gateway has reported to the store and knows the others' records: some rounds of a second. */
const HEARD_WITHIN_MS = 10_000

const BOUND = { recordsPerCaller: 2 }
/** A replay comes from the store, after its caller's count was loaded. */
const NOTHING_RECENT = {
  share: 1,
  executions: 10,
  waiters: 10,
  inFlightPerScope: 0,
  bufferedBytes: 1024 * 1024,
  unsettledBytes: 1024 * 1024,
  recentBytes: 0
}

async function start (
  t: TestContext,
  { policy, counts = new MemoryCounts(Date.now), world = {}, ...more }: GuardedOptions & { readonly counts?: RecordCounts } = {}
) {
  return startGuarded(t, { policy: { ...BOUND, ...policy }, trustProxies: TRUSTED, world: { counts, ...world }, ...more })
}

async function statusOf (asked: Promise<Called>): Promise<string> {
  const { status, headers, text } = await asked
  return text.includes('"code":"too-many-records"') ? `${status} too-many-records ${headers['retry-after']}` : String(status)
}

const REFUSED = '429 too-many-records 60'

test('beyond the bound 429 and nothing is sent; what it has is replayed; others have their own', async (t) => {
  const meter = countingMeter()
  const { ask, witness } = await start(t, { world: { meter } })
  for (const key of ['one', 'two']) assert.equal(await statusOf(ask(key, as('alice'))), '201')
  assert.equal(await statusOf(ask('three', as('alice'))), REFUSED)
  assert.equal(meter.counts.get('shed'), 1)
  const replayed = await ask('one', as('alice'))
  assert.deepEqual([replayed.status, replayed.headers['idempotent-replayed']], [201, 'true'])
  assert.equal(await statusOf(ask('one', { ...as('alice'), body: 'another' })), '422')
  assert.equal(await statusOf(ask('one', as('bob'))), '201')
  // A replay at the bound is not counted as refused.
  assert.equal(meter.counts.get('shed'), 1)
  assert.equal(witness.seen.length, 3)
})

test('beyond the bound a record that this process remembers nothing of is replayed from the store', async (t) => {
  const meter = countingMeter()
  const { ask, witness } = await start(t, { world: { meter, limits: NOTHING_RECENT } })
  for (const key of ['one', 'two']) assert.equal(await statusOf(ask(key, as('alice'))), '201')
  assert.equal(await statusOf(ask('three', as('alice'))), REFUSED)
  const before = meter.counts.get('shed')
  assert.equal((await ask('two', as('alice'))).headers['idempotent-replayed'], 'true')
  assert.deepEqual([witness.seen.length, meter.counts.get('shed')], [2, before])
})

test('what was freed, or is of unknown outcome where that is sent again, is sent again: it is no further record', async (t) => {
  let tries = 0
  const { ask, witness } = await start(t, {
    policy: { unknown: 'retry' },
    answer: (_seen, response, socket) => {
      if (tries++ === 0) socket.destroy()
      else if (tries === 2) response.writeHead(401).end()
      else response.writeHead(201).end()
    }
  })
  assert.equal(await statusOf(ask('one', as('alice'))), '502')
  assert.equal(await statusOf(ask('two', as('alice'))), '401')
  assert.equal(await statusOf(ask('three', as('alice'))), REFUSED)
  for (const key of ['one', 'two']) assert.equal(await statusOf(ask(key, as('alice'))), '201')
  assert.equal(witness.seen.length, 4)
})

test('what was freed, or is of unknown outcome, leaves the room that there is when it is sent again', async (t) => {
  let tries = 0
  const { ask, witness } = await start(t, {
    policy: { unknown: 'retry', recordsPerCaller: 3 },
    answer: (_seen, response, socket) => {
      if (tries++ === 0) socket.destroy()
      else if (tries === 2) response.writeHead(401).end()
      else response.writeHead(201).end()
    }
  })
  assert.equal(await statusOf(ask('unknown', as('alice'))), '502')
  assert.equal(await statusOf(ask('freed', as('alice'))), '401')
  for (const key of ['unknown', 'freed']) assert.equal(await statusOf(ask(key, as('alice'))), '201')
  // Two of three.
  assert.equal(await statusOf(ask('third', as('alice'))), '201')
  assert.equal(await statusOf(ask('fourth', as('alice'))), REFUSED)
  assert.equal(witness.seen.length, 5)
})

test('what is past counts no more; under its key another record begins, which does', async (t) => {
  let laterMs = 0
  const now = (): number => Date.now() + laterMs
  const { ask, witness, gateway } = await start(t, {
    policy: { recordsPerCaller: 1, retentionMs: 3_600_000 },
    counts: new MemoryCounts(now),
    background: false,
    world: { clock: { ...SYSTEM_CLOCK, wallMs: now }, limits: NOTHING_RECENT }
  })
  assert.equal(await statusOf(ask('one', as('alice'))), '201')
  await gateway.recordCounts.report()
  laterMs = 2 * 3_600_000
  assert.equal(await statusOf(ask('two', as('alice'))), REFUSED, 'the store has not been asked since')
  await gateway.recordCounts.report()
  assert.equal(await statusOf(ask('one', as('alice'))), '201')
  assert.equal(await statusOf(ask('two', as('alice'))), REFUSED)
  assert.equal(witness.seen.length, 2)
})

test('what was never sent is not counted, until it is', async (t) => {
  const { ask, witness } = await start(t, { upstream: { connectTimeoutMs: 200 } })
  await witness.close()
  for (const key of ['one', 'two', 'three']) assert.equal(await statusOf(ask(key, as('alice'))), '502')
  const again = await startWitness(undefined, Number(new URL(witness.url).port))
  t.after(() => again.close())
  for (const key of ['one', 'two']) assert.equal(await statusOf(ask(key, as('alice'))), '201')
  assert.equal(await statusOf(ask('four', as('alice'))), REFUSED)
})

test('an event of mode drop that did not go through is not counted, and its retry goes through', async (t) => {
  const { ask } = await startDrop(t, {
    policy: { recordsPerCaller: 1 },
    trustProxies: TRUSTED,
    answer: (_seen, response, _socket, count) => { response.writeHead(count === 1 ? 500 : 200).end() }
  })
  assert.notEqual(await statusOf(ask('one', as('alice'))), '200')
  assert.equal(await statusOf(ask('one', as('alice'))), '200')
  assert.equal(await statusOf(ask('two', as('alice'))), '503 too-many-records 60')
})

// It let a second's worth through whenever it had no total: after a start, and after ten thousand other callers.
test('a process that has not heard of a caller asks the store before it lets anything through', async (t) => {
  const counts = new MemoryCounts(Date.now)
  const first = await start(t, { counts })
  for (const key of ['one', 'two']) assert.equal(await statusOf(first.ask(key, as('alice'))), '201')
  // The counts are reported to the store.
  await eventually(
    async () => (await start(t, { counts })).ask('three', as('alice')).then(({ status }) => status === 429),
    'a process that has just started knows of both',
    HEARD_WITHIN_MS
  )
  const asked: number[] = []
  const add = counts.add.bind(counts)
  counts.add = async (told) => {
    asked.push(told.length)
    return add(told)
  }
  const { ask, witness, gateway } = await start(t, { counts })
  const answers = await Promise.all(
    Array.from({ length: 30 }, async (_, number) => statusOf(ask(`more-${number}`, as(number % 2 === 0 ? 'alice' : `invented-${number}`))))
  )
  assert.deepEqual([answers.filter((status) => status === REFUSED).length, answers.filter((status) => status === '201').length], [15, 15])
  assert.equal(witness.seen.length, 15)
  // The loads of one turn went in one statement.
  assert.ok(asked.length < 30, String(asked.length))
  assert.ok(gateway.limits.executing.held === 0)
})

test('a store that does not say how many there are refuses nobody for that', async (t) => {
  const counts: RecordCounts = { add: async () => { throw new StoreUnavailable('memory', 'counts', false) }, sweep: async () => 0 }
  const { ask } = await start(t, { counts })
  assert.equal(await statusOf(ask('one', as('alice'))), '201')
})

test('two gateways with one store come to one bound', async (t) => {
  const counts = new MemoryCounts(Date.now)
  const [one, two] = [await start(t, { counts, background: false }), await start(t, { counts, background: false })]
  for (const key of ['one', 'two']) assert.equal(await statusOf(one.ask(key, as('alice'))), '201')
  await one.gateway.recordCounts.report()
  // None of them came to this gateway: only the store can know.
  assert.equal(await statusOf(two.ask('three', as('alice'))), REFUSED)
  assert.equal(await statusOf(two.ask('three', as('bob'))), '201')
  assert.equal(two.witness.seen.length, 1)
})

test('what a caller comes to at one gateway the other one, which knows of fewer, hears while it has to do with her', async (t) => {
  const counts = new MemoryCounts(Date.now)
  let heard = 0
  const listening: RecordCounts = {
    add: async (told) => {
      const totals = await counts.add(told)
      heard = Math.max(heard, ...totals)
      return totals
    },
    sweep: async (limit) => counts.sweep(limit)
  }
  const policy = { recordsPerCaller: 3 }
  const [one, two] = [
    await start(t, { counts, policy, background: false }),
    await start(t, { counts: listening, policy, world: { limits: NOTHING_RECENT } })
  ]
  assert.equal(await statusOf(two.ask('here', as('alice'))), '201')
  for (const key of ['there', 'there-too']) assert.equal(await statusOf(one.ask(key, as('alice'))), '201')
  await one.gateway.recordCounts.report()
  await eventually(
    async () => await statusOf(two.ask('here', as('alice'))) === '201' && heard === 3,
    () => `it has heard of ${heard}`,
    HEARD_WITHIN_MS
  )
  assert.equal(await statusOf(two.ask('one-more', as('alice'))), REFUSED)
  assert.equal(two.witness.seen.length, 1)
})

/** A keyed request, as far as the counts read it. */
function visitOf (caller: string): KeyedRequest {
  return {
    route: guardedRoute('http://127.0.0.1', BOUND),
    retentionMs: 3_600_000,
    reservation: { holder: { caller, peer: null } }
  } as unknown as KeyedRequest
}

test('of ten thousand callers the counts are remembered; of the one that was not heard of for the longest time the store is asked anew', async (t) => {
  const counts = new MemoryCounts(Date.now)
  const asked: string[] = []
  const { ask, witness, gateway } = await start(t, {
    background: false,
    counts: {
      add: async (told) => {
        asked.push(...told.map(({ who }) => who.toString('hex')))
        return counts.add(told)
      },
      sweep: async (limit) => counts.sweep(limit)
    }
  })
  for (const who of ['alice', 'bob']) {
    for (const key of ['one', 'two']) assert.equal(await statusOf(ask(key, as(who))), '201')
  }
  await gateway.recordCounts.report()
  const bob = asked.at(-1)
  // Her requests came before and after his.
  assert.equal(await statusOf(ask('three', as('alice'))), REFUSED)
  const others = Array.from({ length: 9_999 }, (_, number) => visitOf(`invented ${number}`))
  await Promise.all(others.map(async (visit) => gateway.recordCounts.load(visit)))
  assert.equal(new Set(asked).size, 10_001)
  const askedSoFar = asked.length
  assert.deepEqual(others.filter((visit) => gateway.recordCounts.check(visit) !== null), [], 'they are known')
  assert.equal(await statusOf(ask('three', as('alice'))), REFUSED)
  assert.deepEqual(asked.slice(askedSoFar), [], 'so is she')
  assert.equal(await statusOf(ask('three', as('bob'))), REFUSED)
  assert.deepEqual(asked.slice(askedSoFar), [bob], 'he had made room for them')
  assert.equal(witness.seen.length, 4)
})

test('one address has a bound whatever it calls itself; where callers share a scope, the address is the caller', async (t) => {
  const perPeer = await start(t, { policy: { recordsPerCaller: null, recordsPerPeer: 2 } })
  for (const [index, who] of ['alice', 'bob'].entries()) assert.equal(await statusOf(perPeer.ask(`key-${index}`, as(who))), '201')
  assert.equal(await statusOf(perPeer.ask('more', as('carol'))), REFUSED)
  assert.equal(await statusOf(perPeer.ask('more', as('carol', '192.0.2.2'))), '201')

  const shared = await start(t, { policy: { scope: { kind: 'parts', parts: [{ kind: 'const', value: 'all' }] } } })
  for (const key of ['one', 'two']) assert.equal(await statusOf(shared.ask(key, as('alice'))), '201')
  assert.equal(await statusOf(shared.ask('three', as('bob'))), REFUSED)
  assert.equal(await statusOf(shared.ask('three', as('bob', '192.0.2.2'))), '201')
})

test('an inbox takes no further message of that caller, and says of those it has that it has them', async (t) => {
  const meter = countingMeter()
  const { ask } = await startInbox(t, { policy: BOUND, trustProxies: TRUSTED, world: { meter } })
  for (const key of ['one', 'two']) assert.equal(await statusOf(ask(key, as('alice'))), '202')
  assert.equal(await statusOf(ask('three', as('alice'))), REFUSED)
  assert.equal(await statusOf(ask('two', as('alice'))), '202')
  assert.equal(meter.counts.get('shed'), 1)
})

test('an inbox that has not heard of a caller asks the store before it takes a message', async (t) => {
  const [counts, shared] = [new MemoryCounts(Date.now), new MemoryInbox({ nowMs: Date.now })]
  const options = { policy: BOUND, trustProxies: TRUSTED, shared, world: { counts } }
  const first = await startInbox(t, options)
  for (const key of ['one', 'two']) assert.equal(await statusOf(first.ask(key, as('alice'))), '202')
  await first.gateway.recordCounts.report()
  const { ask, messages } = await startInbox(t, options)
  assert.equal(await statusOf(ask('three', as('alice'))), REFUSED)
  assert.equal(await statusOf(ask('two', as('alice'))), '202')
  assert.equal((await messages()).length, 2)
  assert.equal(await statusOf(ask('three', as('bob'))), '202')
})

test('mode drop lets no further event of that caller through, and tells duplicates that they are', async (t) => {
  const { ask, witness } = await startDrop(t, { policy: BOUND, trustProxies: TRUSTED })
  for (const key of ['one', 'two']) assert.equal(await statusOf(ask(key, as('alice'))), '201')
  assert.equal(await statusOf(ask('three', as('alice'))), '503 too-many-records 60', 'as its senders have it')
  assert.equal(await statusOf(ask('two', as('alice'))), '200')
  assert.equal(witness.seen.length, 2)
})

test('while the store does not answer nothing that was counted is lost, and nobody waits for it', async (t) => {
  const world = { away: true }
  const inner = new MemoryCounts(Date.now)
  const told: number[] = []
  const counts: RecordCounts = {
    add: async (each) => {
      if (world.away) throw new StoreUnavailable('memory', 'counts', false)
      told.push(...each.map(({ records }) => records))
      return inner.add(each)
    },
    sweep: async (limit) => inner.sweep(limit)
  }
  const { ask } = await start(t, { counts })
  for (const key of ['one', 'two']) assert.equal(await statusOf(ask(key, as('alice'))), '201')
  assert.equal(await statusOf(ask('three', as('alice'))), REFUSED)
  world.away = false
  await eventually(() => told.reduce((sum, each) => sum + each, 0) === 2, 'they are told later', HEARD_WITHIN_MS)
})

/** Asynchronous like a database, so that other requests come meanwhile. */
function slowly (records: MemoryStore): MemoryStore {
  const look = records.look.bind(records)
  records.look = async (id) => {
    await new Promise((resolve) => setTimeout(resolve, 50))
    return look(id)
  }
  return records
}

test('retries of one record at the bound that come at once are one execution, which the drain sees', async (t) => {
  let tries = 0
  const gate = Promise.withResolvers<null>()
  const { ask, witness, gateway } = await start(t, {
    policy: { recordsPerCaller: 1 },
    world: { records: slowly(new MemoryStore({ nowMs: Date.now, scheme: '1' })) },
    answer: async (_seen, response) => {
      if (tries++ > 0) await gate.promise
      response.writeHead(tries === 1 ? 401 : 201).end()
    }
  })
  assert.equal(await statusOf(ask('one', as('alice'))), '401')
  const retries = [ask('one', as('alice')), ask('one', as('alice'))]
  await witness.reached(2)
  await new Promise((resolve) => setTimeout(resolve, 200))
  assert.deepEqual([gateway.executions.size, gateway.executionsInFlight, gateway.limits.executing.held], [1, 1, 1])
  gate.resolve(null)
  assert.ok((await Promise.all(retries)).every(({ status }) => status === 201 || status === 409))
  assert.equal(witness.seen.length, 2)
})

test('standing records that are sent again at once are no more than may be executed', async (t) => {
  let frees = true
  const gate = Promise.withResolvers<null>()
  const { ask, gateway } = await start(t, {
    policy: { recordsPerCaller: 20 },
    world: {
      records: slowly(new MemoryStore({ nowMs: Date.now, scheme: '1' })),
      limits: {
        share: 0.5,
        executions: 4,
        waiters: 100,
        inFlightPerScope: 0,
        bufferedBytes: 1024 * 1024,
        unsettledBytes: 1024 * 1024,
        recentBytes: 0
      }
    },
    answer: async (_seen, response) => {
      if (!frees) await gate.promise
      response.writeHead(frees ? 401 : 201).end()
    }
  })
  const keys = Array.from({ length: 20 }, (_, number) => `key-${number}`)
  for (const key of keys) assert.equal(await statusOf(ask(key, as('alice'))), '401')
  frees = false
  const retries = keys.map(async (key) => ask(key, as('alice')))
  await eventually(() => gateway.limits.executing.held > 0, 'some are under way')
  await new Promise((resolve) => setTimeout(resolve, 300))
  assert.equal(gateway.limits.executing.held, 2)
  gate.resolve(null)
  assert.deepEqual((await Promise.all(retries)).map(({ status }) => status).sort(), [201, 201, ...Array.from({ length: 18 }, () => 429)])
})
