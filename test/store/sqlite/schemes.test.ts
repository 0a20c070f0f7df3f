/** Schemes of the embedded store: who chooses the first one, the command that switches, which builds are kept out, when one has ended. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import type { SwitchOrder } from '../../../src/core/record/scheme-switch.ts'
import { StartError } from '../../../src/ports/errors.ts'
import { Database } from '../../../src/store/sqlite/database.ts'
import { readMigrationFiles } from '../../../src/store/shared/migration-files.ts'
import { migrate } from '../../../src/store/sqlite/migrate.ts'
import { SCHEMES_MIGRATION } from '../../../src/store/sqlite/scheme-rows.ts'
import { switchSchemeIn } from '../../../src/store/sqlite/schemes.ts'
import { openSqlite } from '../../../src/store/sqlite/store.ts'
import { DELIVERED, messageOf, takeOne, workerOf } from '../../conformance/inbox-world.ts'
import { endingOf, newId, newToken } from '../../conformance/mark-world.ts'
import { nextOf, SWITCH } from '../../conformance/record-schemes.ts'
import { claimOf, LONG_MS, settlementOf, SHORT_MS, tokenOf } from '../../conformance/record-world.ts'
import { makeDirectory } from '../../harness/directory.ts'

const SECOND = '2:Zm9vYmFyYmF'

function world (t: TestContext) {
  const directory = makeDirectory('sqlite-schemes')
  t.after(() => { directory.remove() })
  const clock = { nowMs: 1_800_000_000_000 }
  const file = join(directory.path, 'onceway.db')
  const withFile = <Result>(work: (database: DatabaseSync) => Result): Result => {
    const database = new DatabaseSync(file)
    try { return work(database) } finally { database.close() }
  }
  return {
    ...{ clock, file, withFile },
    serve: async (scheme?: string) => {
      const store = await openSqlite({
        dataDir: directory.path,
        exclusive: true,
        nowMs: () => clock.nowMs,
        ...(scheme === undefined ? {} : { scheme })
      })
      t.after(() => store.close())
      return store
    },
    switchTo: (name: string, over: Partial<SwitchOrder> = {}) => switchSchemeIn(directory.path, { ...SWITCH, name, ...over }, clock.nowMs),
    /** As a build before schemes does at its start. */
    startBefore: () => {
      withFile((database) => {
        migrate(database, file, 0, readMigrationFiles('sqlite').filter(({ number }) => number < SCHEMES_MIGRATION))
      })
    }
  }
}

type World = ReturnType<typeof world>

async function schemesOf ({ serve }: World, scheme?: string) {
  const store = await serve(scheme)
  const schemes = await store.schemes()
  await store.close()
  return schemes
}

const isNewer = (error: unknown) => error instanceof StartError && /migrated by a newer release/.test(error.message)

describe('sqlite: which scheme claims', () => {
  test('a new data directory begins with the scheme that its first gateway chooses, whatever a later one would', async (t) => {
    const it = world(t)
    const chosen = { current: { number: 1, name: SECOND }, earlier: null }
    assert.deepEqual(await schemesOf(it, SECOND), chosen)
    assert.deepEqual(await schemesOf(it, '2'), chosen)
    assert.throws(it.startBefore, isNewer, 'an older build would make other ids')
  })

  test('one that chooses the first scheme lets older builds in', async (t) => {
    const it = world(t)
    assert.deepEqual((await schemesOf(it)).current, { number: 1, name: '1' })
    it.startBefore()
  })

  test('one that an older build has begun has the first scheme, whatever its next gateway would choose', async (t) => {
    const it = world(t)
    it.startBefore()
    assert.deepEqual(await schemesOf(it, SECOND), { current: { number: 1, name: '1' }, earlier: null })
    it.startBefore()
  })

  test('until somebody serves nobody has chosen, and a switch chooses without a scheme before', async (t) => {
    const it = world(t)
    new Database({ file: it.file, nowMs: it.clock.nowMs, exclusive: false, scheme: '2' }).close()
    const undecided = { number: 1, from: null, to: SECOND, rows: { records: 0, messages: 0, marks: 0 } }
    assert.deepEqual(it.switchTo(SECOND, { dryRun: true }), { kind: 'switched', ...undecided })
    it.startBefore()
    assert.deepEqual(it.switchTo(SECOND), { kind: 'switched', ...undecided })
    assert.throws(it.startBefore, isNewer)
    assert.deepEqual(it.switchTo(SECOND), { kind: 'same', number: 1 })
    assert.deepEqual(await schemesOf(it, '2'), { current: { number: 1, name: SECOND }, earlier: null })
  })
})

describe('sqlite: another scheme', () => {
  test('is begun while nobody serves, with the name of who did, and counts what lives', async (t) => {
    const it = world(t)
    const store = await it.serve()
    await store.insert(claimOf())
    await store.inbox.accept(messageOf())
    await store.marks.done(endingOf(newId(), newToken(), LONG_MS))
    await store.marks.done(endingOf(newId(), newToken(), SHORT_MS))
    assert.throws(
      () => it.switchTo(SECOND),
      (error: unknown) => error instanceof StartError && /Another onceway serves from/.test(error.message)
    )
    await store.close()
    it.clock.nowMs += SHORT_MS
    const result = { kind: 'switched', number: 2, from: '1', to: SECOND, rows: { records: 1, messages: 1, marks: 1 } } as const
    assert.deepEqual(it.switchTo(SECOND, { dryRun: true }), result)
    it.startBefore()
    assert.deepEqual(it.switchTo(SECOND, { isLost: true }), result)
    assert.throws(it.startBefore, isNewer, 'an older build would write rows of the first scheme')
    const row = it.withFile((database) => database.prepare('select name, since, who, why, is_lost from schemes order by number desc').get())
    assert.deepEqual({ ...row }, { name: SECOND, since: it.clock.nowMs, who: SWITCH.who, why: SWITCH.why, is_lost: 0 })
    it.clock.nowMs += 500
    assert.deepEqual(await schemesOf(it), {
      current: { number: 2, name: SECOND },
      earlier: { number: 1, name: '1', isLost: true, isOver: false, ageMs: 500 }
    })
    assert.deepEqual(it.switchTo('1'), { kind: 'earlier-left', earlier: '1', rows: { records: 1, messages: 1, marks: 2 }, untilMs: null })
  })

  test('keeps older builds out also where its ids are the first one\'s again', async (t) => {
    const it = world(t)
    await (await it.serve('2')).close()
    it.withFile((database) => { database.exec('update migrations set compatible_from = 1') })
    assert.deepEqual(it.switchTo('1').kind, 'switched')
    assert.throws(it.startBefore, isNewer)
  })

  test('there is nothing to switch where no store was, and no directory is made', async (t) => {
    const it = world(t)
    assert.throws(
      () => it.switchTo(SECOND),
      (error: unknown) => error instanceof StartError && /There is no database in/.test(error.message)
    )
  })

  test('what each table has left of the one before keeps that from ending, and what was written late does too', async (t) => {
    const it = world(t)
    const store = await it.serve()
    const claim = claimOf()
    await store.insert(claim)
    await store.inbox.accept(messageOf({ keepMs: SHORT_MS }))
    await store.close()
    it.switchTo('2')
    const again = await it.serve()
    const isOver = async () => {
      it.clock.nowMs += 300_000
      await again.endEarlierScheme()
      return (await again.schemes()).earlier?.isOver
    }
    assert.equal(await isOver(), false)
    // It was left unknown by the gateway that began it.
    await again.settle(settlementOf(tokenOf(claim), 'completed', { keepMs: SHORT_MS }))
    await again.inbox.settle((await takeOne(again.inbox, await workerOf(again.inbox))).token, DELIVERED)
    await again.marks.done(endingOf(newId(), newToken(), SHORT_MS))
    it.clock.nowMs += SHORT_MS
    for (const sweep of [async () => again.sweep(10), async () => again.inbox.sweep(10), async () => again.marks.sweep(10)]) {
      assert.equal(await isOver(), false)
      await sweep()
    }
    assert.equal(await isOver(), true)
    assert.deepEqual(await again.insert(nextOf(claim, { earlierId: null })), { kind: 'won', attempt: 1 })
  })

  test('whether any of it is left is not asked before the last that stood at the switch is past', async (t) => {
    const it = world(t)
    const store = await it.serve()
    const claim = claimOf()
    await store.insert(claim)
    await store.settle(settlementOf(tokenOf(claim), 'completed', { keepMs: LONG_MS }))
    await store.close()
    it.switchTo('2')
    const again = await it.serve()
    it.withFile((database) => { database.exec('delete from records') })
    await again.endEarlierScheme()
    assert.equal((await again.schemes()).earlier?.isOver, false)
    it.clock.nowMs += LONG_MS
    await again.endEarlierScheme()
    assert.equal((await again.schemes()).earlier?.isOver, true)
  })
})
