/** Nothing that a store keeps is over by more of its clock than the gateway believes: every test by time, in every driver. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { Client } from 'pg'
import type { SwitchOrder, SwitchResult } from '../../../src/core/record/scheme-switch.ts'
import type { InboxStore } from '../../../src/ports/inbox.ts'
import type { MarkStore } from '../../../src/ports/marks.ts'
import type { RecordStore } from '../../../src/ports/records.ts'
import { MemoryInbox } from '../../../src/store/memory/inbox.ts'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { openPostgres } from '../../../src/store/postgres/open.ts'
import { switchSchemeOf } from '../../../src/store/postgres/scheme-switch.ts'
import { switchIn } from '../../../src/store/sqlite/schemes.ts'
import { openSqlite } from '../../../src/store/sqlite/store.ts'
import { markingOf } from '../../conformance/mark-world.ts'
import { messageOf } from '../../conformance/inbox-world.ts'
import { nextOf, SWITCH } from '../../conformance/record-schemes.ts'
import { claimOf, resolutionOf, rivalOf, rowAt, seenOf, settlementOf, SHORT_MS, tokenOf } from '../../conformance/record-world.ts'
import { QUICKEST } from '../../harness/directory.ts'
import { needs } from '../../harness/needs.ts'
import { query, startPostgres, type PostgresServer } from '../../harness/postgres.ts'
import { asBefore, optionsOf } from '../postgres/world.ts'

interface World {
  readonly records: RecordStore
  readonly inbox: InboxStore
  /** null: its marks do not count on this clock. */
  readonly marks: (MarkStore & { readonly sweep: (limit: number) => Promise<number> }) | null
  /** From now on the clock is believed no further, and what is written lasts as it says all the same. */
  readonly doubt: () => Promise<void>
  readonly believe: () => void
  readonly pass: (ms: number) => Promise<void>
  readonly switchScheme: (order: SwitchOrder) => Promise<SwitchResult> | SwitchResult
}

const ORDER = { ids: null, running: [], limit: 10, still: () => true }
const QUESTION = { question: Buffer.from('question') }

function believedTime (name: string, open: (t: TestContext) => Promise<World>): void {
  describe(`${name}: the time is believed as far as the gateway says`, () => {
    test('leases and retentions of records', async (t) => {
      const { records, doubt, believe, pass } = await open(t)
      await doubt()
      const [dead, kept, unknown] = [claimOf({ leaseMs: SHORT_MS }), claimOf(), claimOf({ quarantineMs: SHORT_MS, ...QUESTION })]
      for (const claim of [dead, kept, unknown]) await records.insert(claim)
      await records.settle(settlementOf(tokenOf(kept), 'completed', { keepMs: SHORT_MS }))
      await records.settle(settlementOf(tokenOf(unknown), 'indeterminate', { keepMs: 2 * SHORT_MS }))
      await pass(3 * SHORT_MS)
      assert.deepEqual([(await rowAt(records, dead.id)).lapsed, (await rowAt(records, kept.id)).past], [false, false])
      assert.deepEqual([await records.lapse(ORDER), await records.sweep(10)], [[], []])
      const rival = await records.insert(rivalOf(kept))
      assert.equal(rival.kind === 'seen' && rival.row.past, false)
      assert.deepEqual(await records.take(seenOf(kept), rivalOf(kept), false), { kind: 'lost' })
      assert.deepEqual((await records.list({ limit: 10 })).map(({ past, lapsed }) => past || lapsed), [false, false, false])
      const refused = await records.resolve(resolutionOf(tokenOf(unknown), 'released'))
      assert.ok(refused.kind === 'refused' && (refused.quarantineLeftMs ?? 0) > 0, 'the first sending may still be on its way')
      assert.equal((await records.unresolved()).count, 1)
      const [asked] = await records.takeProbes({ routes: [unknown.about.route], withinMs: 1_000, limit: 10 })
      assert.ok(asked !== undefined && asked.quarantineLeftMs > 0, 'it is asked about, and nothing is freed yet')
      believe()
      assert.equal((await records.lapse(ORDER)).length, 1)
      assert.deepEqual(await records.take(seenOf(kept), rivalOf(kept), false), { kind: 'won', attempt: 1 })
      assert.deepEqual(await records.sweep(10), [{ state: 'indeterminate', count: 1 }])
    })

    test('what is written lasts as long as the clock says from then on, believed or not', async (t) => {
      const { records, doubt, believe, pass } = await open(t)
      await doubt()
      await pass(3 * SHORT_MS)
      const claim = claimOf()
      await records.insert(claim)
      await records.settle(settlementOf(tokenOf(claim), 'completed'))
      believe()
      assert.ok(((await rowAt(records, claim.id)).keepLeftMs ?? 0) > 500_000)
    })

    test('retentions of messages and leases of workers', async (t) => {
      const { records, inbox, doubt, believe, pass } = await open(t)
      await doubt()
      const [done, lost, recorded] = [messageOf({ keepMs: SHORT_MS }), messageOf(), messageOf()]
      const claim = claimOf({ id: recorded.id })
      await records.insert(claim)
      await records.settle(settlementOf(tokenOf(claim), 'completed', { keepMs: SHORT_MS }))
      const owner = randomBytes(16)
      await inbox.alive(owner, 5_000)
      await inbox.accept(done)
      const [delivery] = await inbox.take({ routes: [{ route: done.about.route, places: 1 }], owner })
      assert.ok(delivery !== undefined)
      assert.equal(await inbox.settle(delivery.token, { kind: 'delivered', status: 200, answer: null }), true)
      const dying = randomBytes(16)
      await inbox.alive(dying, 20 * SHORT_MS)
      await inbox.accept(lost)
      assert.equal((await inbox.take({ routes: [{ route: lost.about.route, places: 1 }], owner: dying })).length, 1)
      await pass(22 * SHORT_MS)
      assert.equal((await inbox.accept(done)).kind, 'seen')
      assert.equal((await inbox.accept(recorded)).kind, 'recorded')
      assert.notEqual(await inbox.look(done.id), null)
      assert.equal((await inbox.list({ limit: 10 })).length, 2)
      assert.deepEqual([(await inbox.recover(10)).count, await inbox.sweep(10)], [0, 0])
      believe()
      assert.equal((await inbox.recover(10)).count, 1)
      assert.equal((await inbox.accept(recorded)).kind, 'accepted')
      assert.equal((await inbox.accept(done)).kind, 'accepted')
    })

    test('marks of events', async (t) => {
      const { marks, doubt, believe, pass } = await open(t)
      await doubt()
      if (marks === null) return
      const [done, running] = [randomBytes(32), randomBytes(32)]
      await marks.mark(markingOf(done, randomBytes(16), 'done', SHORT_MS))
      await marks.mark(markingOf(running, randomBytes(16), 'running', SHORT_MS))
      await pass(3 * SHORT_MS)
      assert.deepEqual(
        [
          await marks.mark(markingOf(done, randomBytes(16), 'running', 1_000)),
          await marks.mark(markingOf(running, randomBytes(16), 'running', 1_000))
        ],
        ['done', 'running']
      )
      assert.equal(await marks.sweep(10), 0)
      believe()
      assert.equal(await marks.mark(markingOf(done, randomBytes(16), 'running', 1_000)), 'marked')
      assert.equal(await marks.sweep(10), 1)
    })

    test('what stands under an id of the scheme before', async (t) => {
      const { records, inbox, marks, switchScheme, doubt, believe, pass } = await open(t)
      await doubt()
      const [claim, other, event, owner] = [claimOf(), claimOf(), randomBytes(32), randomBytes(16)]
      const message = messageOf({ keepMs: SHORT_MS })
      for (const each of [claim, other]) {
        await records.insert(each)
        await records.settle(settlementOf(tokenOf(each), 'completed', { keepMs: SHORT_MS }))
      }
      await inbox.alive(owner, 5_000)
      await inbox.accept(message)
      const [delivery] = await inbox.take({ routes: [{ route: message.about.route, places: 1 }], owner })
      assert.equal(
        await inbox.settle(delivery?.token ?? assert.fail('it is not due'), { kind: 'delivered', status: 200, answer: null }),
        true
      )
      await marks?.mark(markingOf(event, owner, 'done', SHORT_MS))
      assert.equal((await switchScheme({ ...SWITCH, name: '2' })).kind, 'switched')
      await pass(3 * SHORT_MS)
      const next = { scheme: 2, earlierId: other.id }
      const ask = async () => [
        (await records.insert(nextOf(claim))).kind,
        (await records.insert(nextOf(claimOf({ id: message.id })))).kind,
        (await inbox.accept({ ...messageOf(), ...next })).kind,
        await marks?.mark(markingOf(randomBytes(32), owner, 'running', 1_000, { ...next, earlierId: event })) ?? 'none'
      ]
      assert.deepEqual(await ask(), ['moved', 'moved', 'moved', marks === null ? 'none' : 'moved'])
      believe()
      assert.deepEqual(await ask(), ['won', 'won', 'accepted', marks === null ? 'none' : 'marked'])
    })
  })
}

const START_MS = 1_800_000_000_000

function manual (): Pick<World, 'doubt' | 'believe' | 'pass'> & { readonly nowMs: () => number, readonly believedMs: () => number | null } {
  let [now, believed]: [number, number | null] = [START_MS, null]
  return {
    nowMs: () => now,
    believedMs: () => believed,
    doubt: async () => { believed = now },
    believe: () => { believed = null },
    pass: async (ms) => { now += ms }
  }
}

believedTime('memory', async () => {
  const clock = manual()
  const records = new MemoryStore(clock)
  return {
    ...clock,
    records,
    inbox: new MemoryInbox({ ...clock, records }),
    marks: null,
    switchScheme: (order) => records.switchScheme(order.name, order)
  }
})

believedTime('sqlite', async (t) => {
  const dataDir = mkdtempSync(join(QUICKEST, 'onceway-believed-'))
  const clock = manual()
  const store = await openSqlite({ dataDir, exclusive: true, ...clock })
  t.after(async () => {
    await store.close()
    rmSync(dataDir, { recursive: true, force: true })
  })
  const switchScheme = (order: SwitchOrder): SwitchResult => {
    const database = new DatabaseSync(join(dataDir, 'onceway.db'), { timeout: 5_000 })
    try { return switchIn(database, order, clock.nowMs()) } finally { database.close() }
  }
  return { ...clock, records: store, inbox: store.inbox, marks: store.marks, switchScheme }
})

describe('in Postgres', needs('postgres'), () => {
  let server: Promise<PostgresServer> | null = null
  after(async () => { await (await server)?.stop() })

  for (const prepared of [true, false]) {
    believedTime(prepared ? 'postgres' : 'postgres, unnamed statements', async (t) => {
      const { url } = await (server ??= startPostgres())
      let believed: number | null = null
      const options = optionsOf(url, { prepared, believedMs: () => believed })
      const store = await openPostgres(options)
      t.after(() => store.close())
      await asBefore(options)
      return {
        records: store,
        inbox: store.inbox,
        marks: store.marks,
        doubt: async () => {
          believed = Number((await query(url, 'select (extract(epoch from clock_timestamp()) * 1000)::float8 as now'))[0]?.now)
        },
        believe: () => { believed = null },
        pass: async (ms) => { await sleep(ms) },
        switchScheme: async (order) => {
          const client = new Client({ connectionString: url })
          await client.connect()
          try { return await switchSchemeOf(client, options.schema, order) } finally { await client.end() }
        }
      }
    })
  }
})
