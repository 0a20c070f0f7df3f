/** Claims and settles of the embedded store that call back: what reaches the worker, what shares a commit, and what fails alone. */
import assert from 'node:assert/strict'
import { createHook } from 'node:async_hooks'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, test, type TestContext } from 'node:test'
import type { Claim, Settlement } from '../../../src/core/record/record.ts'
import { StoreOverloaded, StoreRejected, StoreUnavailable } from '../../../src/ports/errors.ts'
import type { ClaimResult, RecordLanes, SettleResult } from '../../../src/ports/records.ts'
import { Database } from '../../../src/store/sqlite/database.ts'
import { Faulted } from '../../../src/store/sqlite/faults.ts'
import { BATCH_MAX, LaneReader, LaneWriter, newLaneMemory } from '../../../src/store/sqlite/lane-buffer.ts'
import { SqliteLanes } from '../../../src/store/sqlite/lanes.ts'
import { openSqlite, type SqliteStore } from '../../../src/store/sqlite/store.ts'
import { startWorker } from '../../../src/store/sqlite/worker-client.ts'
import { claimOf, rivalOf, rowAt, settlementOf, tokenOf } from '../../conformance/record-world.ts'
import { makeDirectory } from '../../harness/directory.ts'

const CLOCK = { nowMs: () => 0, believedMs: () => null }

function directoryFor (t: TestContext): string {
  const directory = makeDirectory('sqlite-lanes')
  t.after(() => { directory.remove() })
  return directory.path
}

interface Opened { readonly store: SqliteStore, readonly dataDir: string, readonly told: string[] }

async function open (t: TestContext): Promise<Opened> {
  const dataDir = directoryFor(t)
  const told: string[] = []
  const meter = { store: (_name: string, operation: string, ok: boolean) => { told.push(`${operation} ${ok}`) } }
  const store = await openSqlite({ dataDir, exclusive: true, nowMs: CLOCK.nowMs, meter })
  t.after(() => store.close())
  return { store, dataDir, told }
}

function inserted (lanes: RecordLanes, claim: Claim): Promise<ClaimResult> {
  return new Promise((resolve, reject) => { lanes.insert(claim, { claimed: resolve, claimFailed: reject }) })
}

function settled (lanes: RecordLanes, settlement: Settlement): Promise<SettleResult> {
  return new Promise((resolve, reject) => { lanes.settle(settlement, { settled: resolve, settleFailed: reject }) })
}

const asUnavailable = (inDoubt: boolean) => (error: unknown) => error instanceof StoreUnavailable && error.inDoubt === inDoubt

/** Greek takes two bytes a letter, and the face four for two UTF-16 units. */
const TEXTS = ['', 'charges', 'χρεώσεις', 'pay 😀', 'x'.repeat(400), 'é'.repeat(80)] as const

function claimWith (text: string, over: Partial<Claim> = {}): Claim {
  const claim = claimOf({ question: randomBytes(100), ...over })
  return { ...claim, about: { ...claim.about, route: text, method: text, path: text, requestId: text, instance: text, keyText: text } }
}

describe('sqlite: the memory between the threads', () => {
  test('what was written is read: every field, null and not, of one byte a letter or more', () => {
    const memory = newLaneMemory()
    const [writer, reader] = [new LaneWriter(memory), new LaneReader(memory)]
    const claims = [claimOf(), claimOf({ earlierId: randomBytes(32) }), ...TEXTS.map((text) => claimWith(text))]
    const settles = [
      settlementOf(tokenOf(claimOf(), 3), 'completed', { body: randomBytes(1000), sentMs: 0, answeredMs: 2 ** 31 - 1 }),
      settlementOf(tokenOf(claimOf()), 'completed', { body: Buffer.alloc(0), headers: null, sentMs: 2, answeredMs: 31 }),
      settlementOf(tokenOf(claimOf()), 'consumed', { sentMs: 2, answeredMs: null }),
      settlementOf(tokenOf(claimOf()), 'released', { sentMs: null, answeredMs: null })
    ]
    for (const round of [1, 2]) {
      writer.begin()
      for (const settlement of settles) writer.settle(settlement)
      for (const claim of claims) writer.claim(claim)
      writer.end(settles.length, claims.length, round, Infinity)
      assert.deepEqual(reader.read(), { settles, claims })
      assert.deepEqual([reader.nowMs, reader.believedMs], [round, Infinity])
    }
  })

  test('a batch never outgrows the memory: the longest texts and answers, as many as may go', () => {
    const memory = newLaneMemory()
    const [writer, reader] = [new LaneWriter(memory), new LaneReader(memory)]
    const settlement = settlementOf(tokenOf(claimOf()), 'completed', { body: randomBytes(65_000), sentMs: 1, answeredMs: 2 })
    const claim = claimWith('€'.repeat(512))
    writer.begin()
    let [settles, claims] = [0, 0]
    for (; settles < BATCH_MAX && !writer.full; settles++) writer.settle(settlement)
    for (; claims < BATCH_MAX && !writer.full; claims++) writer.claim(claim)
    writer.end(settles, claims, 0, 0)
    const read = reader.read()
    assert.deepEqual([read.settles.length, read.claims.length], [settles, claims])
    assert.deepEqual(read.settles.at(-1), settlement)
  })
})

describe('sqlite: lanes', () => {
  test('settles and claims of one turn share a commit', async (t) => {
    const { store: { lanes }, told } = await open(t)
    const first = Array.from({ length: 3 }, () => claimOf())
    await Promise.all(first.map((claim) => inserted(lanes, claim)))
    told.length = 0
    const results = await Promise.all([
      ...[claimOf(), claimOf()].map((claim) => inserted(lanes, claim)),
      ...first.map((claim) => settled(lanes, settlementOf(tokenOf(claim), 'completed', { keepMs: 5 })))
    ])
    assert.deepEqual(results, [
      ...[1, 2].map(() => ({ kind: 'won', attempt: 1 })),
      ...[1, 2, 3].map(() => ({ kind: 'settled', keepLeftMs: 5 }))
    ])
    assert.deepEqual(told, ['settle true', 'insert true'])
  })

  test('whoever lost, or came too late, is told so, and the others of its batch won', async (t) => {
    const { store } = await open(t)
    const { lanes } = store
    const claim = claimOf()
    await inserted(lanes, claim)
    const [lost, won, late, done] = await Promise.all([
      inserted(lanes, rivalOf(claim)),
      inserted(lanes, claimOf()),
      settled(lanes, settlementOf(tokenOf(rivalOf(claim)), 'completed')),
      settled(lanes, settlementOf(tokenOf(claim), 'completed'))
    ])
    assert.deepEqual([lost.kind, won.kind, late.kind, done.kind], ['seen', 'won', 'refused', 'settled'])
    assert.ok(lost.kind === 'seen' && lost.row.owner.equals(claim.owner) && lost.row.state === 'completed', 'settles go first')
    assert.ok(late.kind === 'refused' && late.row?.state === 'claimed')
  })

  test('one poisoned call fails alone', async (t) => {
    const { store, told } = await open(t)
    const { lanes } = store
    const [one, other] = [claimOf(), claimOf()]
    await Promise.all([one, other].map((claim) => inserted(lanes, claim)))
    told.length = 0
    const good = claimOf()
    const outcomes = await Promise.allSettled([
      settled(lanes, settlementOf(tokenOf(one), 'consumed', { status: null })),
      settled(lanes, settlementOf(tokenOf(other), 'completed')),
      inserted(lanes, claimOf({ leaseMs: 0 })),
      inserted(lanes, good)
    ])
    assert.deepEqual(outcomes.map(({ status }) => status), ['rejected', 'fulfilled', 'rejected', 'fulfilled'])
    for (const outcome of outcomes) assert.ok(outcome.status === 'fulfilled' || outcome.reason instanceof StoreRejected)
    assert.match(String((outcomes[2] as PromiseRejectedResult).reason), /insert .*lease_ms/)
    assert.equal((await rowAt(store, one.id)).state, 'claimed')
    assert.equal((await rowAt(store, good.id)).state, 'claimed')
    assert.deepEqual(told.slice(0, 2), ['settle false', 'insert false'])
  })

  test('what does not fit into the memory goes another way: long answers, long questions, unknown outcomes', async (t) => {
    const { store } = await open(t)
    const { lanes } = store
    const [long, asked, unknown] = [claimOf(), claimOf({ question: randomBytes(100_000) }), claimOf({ question: randomBytes(10) })]
    for (const claim of [long, asked, unknown]) assert.equal((await inserted(lanes, claim)).kind, 'won')
    const body = randomBytes(1_000_000)
    await settled(lanes, settlementOf(tokenOf(long), 'completed', { body }))
    await settled(lanes, settlementOf(tokenOf(unknown), 'indeterminate'))
    assert.deepEqual((await rowAt(store, long.id)).body, body)
    const [due] = await store.takeProbes({ routes: ['charges'], withinMs: 1, limit: 2 })
    assert.deepEqual(due?.question, unknown.question, 'an unknown outcome keeps the question of its claim')
  })

  test('every text arrives as it was', async (t) => {
    const { store, dataDir } = await open(t)
    const claims = TEXTS.map((text) => claimWith(text))
    await Promise.all(claims.map((claim) => inserted(store.lanes, claim)))
    const database = new DatabaseSync(join(dataDir, 'onceway.db'))
    t.after(() => { database.close() })
    const read = database.prepare('select route, method, path, request_id, instance, key_text from records where id = ?')
    for (const [index, { id }] of claims.entries()) {
      assert.deepEqual(Object.values(read.get(id) ?? {}), Array.from({ length: 6 }, () => TEXTS[index]))
    }
  })

  test('a reply may ask again, and never comes before the call has returned', async (t) => {
    const { store: { lanes } } = await open(t)
    const order: string[] = []
    await new Promise<void>((resolve, reject) => {
      const claim = claimOf()
      lanes.insert(claim, {
        claimed: () => {
          order.push('claimed')
          lanes.settle(settlementOf(tokenOf(claim), 'released'), {
            settled: () => { order.push('settled'); resolve() },
            settleFailed: reject
          })
          order.push('asked again')
        },
        claimFailed: reject
      })
      order.push('asked')
    })
    assert.deepEqual(order, ['asked', 'claimed', 'asked again', 'settled'])
  })

  test('more than a batch waits in order, and beyond the bound is refused', async (t) => {
    const { store: { lanes } } = await open(t)
    const outcomes = await Promise.allSettled(Array.from({ length: 20_001 }, () => inserted(lanes, claimOf())))
    const refused = outcomes.filter((outcome) => outcome.status === 'rejected')
    assert.equal(refused.length, 1)
    assert.ok(refused[0]?.reason instanceof StoreOverloaded)
    assert.ok(outcomes.every((outcome) => outcome.status === 'rejected' || outcome.value.kind === 'won'))
  })

  test('a call makes no promise', async (t) => {
    const { store: { lanes } } = await open(t)
    const claims = Array.from({ length: 500 }, () => claimOf())
    let promises = 0
    const hook = createHook({ init: (_id, type) => { if (type === 'PROMISE') promises++ } })
    await new Promise<void>((resolve, reject) => {
      let left = claims.length
      hook.enable()
      for (const claim of claims) {
        lanes.insert(claim, {
          claimed: () => {
            lanes.settle(settlementOf(tokenOf(claim), 'completed'), {
              settled: () => { if (--left === 0) resolve() },
              settleFailed: reject
            })
          },
          claimFailed: reject
        })
      }
    })
    hook.disable()
    assert.ok(promises < claims.length / 10, `${promises} promises for ${claims.length} claims and settles`)
  })
})

describe('sqlite: lanes under faults', () => {
  test('a worker that dies leaves the batch under way in doubt, and refuses what waits without doubt', async (t) => {
    const { client } = await startWorker({ file: join(directoryFor(t), 'onceway.db'), nowMs: 0, exclusive: true })
    const lanes = new SqliteLanes({ client, clock: CLOCK, meter: undefined, alone: { insert: assert.fail, settle: assert.fail } })
    // Keeps the worker busy, so that the batch is under way when it is killed.
    const busy = assert.rejects(client.send(Array.from({ length: 10_000 }, () => ({ op: 'insert', claim: claimOf() }) as const), 0))
    const sent = [inserted(lanes, claimOf()), settled(lanes, settlementOf(tokenOf(claimOf()), 'completed'))]
    const checks = sent.map((reply) => assert.rejects(reply, asUnavailable(true)))
    await new Promise(setImmediate)
    const waiting = assert.rejects(inserted(lanes, claimOf()), asUnavailable(false))
    await client.kill()
    await Promise.all([busy, waiting, ...checks])
    await assert.rejects(settled(lanes, settlementOf(tokenOf(claimOf()), 'completed')), asUnavailable(false))
    await lanes.close()
  })

  test('after the store was closed every call is refused, and what was asked before is done', async (t) => {
    const { store } = await open(t)
    const before = Promise.all(Array.from({ length: 300 }, () => inserted(store.lanes, claimOf())))
    await store.close()
    assert.ok((await before).every(({ kind }) => kind === 'won'))
    await assert.rejects(inserted(store.lanes, claimOf()), asUnavailable(false))
    await assert.rejects(settled(store.lanes, settlementOf(tokenOf(claimOf()), 'completed')), asUnavailable(false))
  })

  function databaseFor (t: TestContext): Database {
    const database = new Database({ file: join(directoryFor(t), 'onceway.db'), nowMs: 0, exclusive: true })
    t.after(() => { database.close() })
    return database
  }

  const faulted = (inDoubt: boolean) => (error: unknown) =>
    error instanceof Faulted && error.fault.kind === 'unavailable' && error.fault.inDoubt === inDoubt

  test('a full disk refuses the whole batch without doubt', (t) => {
    const database = databaseFor(t)
    const claim = claimOf()
    assert.deepEqual(database.runLanes([], [claim], 0, Infinity), [])
    const pages = Number(database.connection.prepare('pragma page_count').get()?.page_count)
    database.connection.exec(`pragma max_page_count = ${pages + 2}`)
    const settlement = settlementOf(tokenOf(claim), 'completed', { body: Buffer.alloc(100_000) })
    assert.throws(() => database.runLanes([settlement], [claimOf()], 0, Infinity), faulted(false))
    assert.equal(database.connection.isTransaction, false)
    assert.deepEqual(database.runLanes([settlementOf(tokenOf(claim), 'released')], [], 0, Infinity), [])
  })

  test('a commit that failed leaves the whole batch in doubt', (t) => {
    const database = databaseFor(t)
    const exec = database.connection.exec.bind(database.connection)
    t.mock.method(database.connection, 'exec', (text: string) => {
      if (text === 'commit') throw new Error('disk I/O error')
      exec(text)
    })
    assert.throws(() => database.runLanes([], [claimOf()], 0, Infinity), faulted(true))
  })

  test('beside a poisoned call, a disk that fills up refuses the rest', (t) => {
    const database = databaseFor(t)
    const [poisoned, large, other] = [claimOf(), claimOf(), claimOf()]
    assert.deepEqual(database.runLanes([], [poisoned, large, other], 0, Infinity), [])
    const pages = Number(database.connection.prepare('pragma page_count').get()?.page_count)
    database.connection.exec(`pragma max_page_count = ${pages + 2}`)
    const unusual = database.runLanes([
      settlementOf(tokenOf(poisoned), 'consumed', { status: null }),
      settlementOf(tokenOf(large), 'completed', { body: Buffer.alloc(100_000) }),
      settlementOf(tokenOf(other), 'released')
    ], [], 0, Infinity)
    assert.deepEqual(
      unusual.map((each) => 'fault' in each ? [each.index, each.fault.kind] : [each.index, each.result.kind]),
      [[0, 'rejected'], [1, 'unavailable'], [2, 'unavailable']]
    )
  })
})
