/** The embedded store passes the suite of its port; and what only it has: a file, a directory, a worker. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import { describe, test, type TestContext } from 'node:test'
import type { SwitchResult } from '../../../src/core/record/scheme-switch.ts'
import { StartError, StoreOverloaded, StoreUnavailable } from '../../../src/ports/errors.ts'
import { Database } from '../../../src/store/sqlite/database.ts'
import { Faulted } from '../../../src/store/sqlite/faults.ts'
import { startWorker } from '../../../src/store/sqlite/worker-client.ts'
import { readMigrationFiles } from '../../../src/store/shared/migration-files.ts'
import { migrate } from '../../../src/store/sqlite/migrate.ts'
import { openSqlite, type SqliteStore } from '../../../src/store/sqlite/store.ts'
import { switchIn } from '../../../src/store/sqlite/schemes.ts'
import { packed } from '../../../src/store/sqlite/worker-protocol.ts'
import { SWITCH } from '../../conformance/record-schemes.ts'
import { recordStoreConformance } from '../../conformance/record-store.ts'
import { claimOf, rowAt, settlementOf, tokenOf } from '../../conformance/record-world.ts'
import { QUICKEST } from '../../harness/directory.ts'
import { SIGN } from '../../harness/sign.ts'

function directoryFor (t: TestContext): string {
  const directory = mkdtempSync(join(QUICKEST, 'onceway-sqlite-'))
  t.after(() => { rmSync(directory, { recursive: true, force: true }) })
  return directory
}

recordStoreConformance('sqlite', async (t) => {
  const dataDir = directoryFor(t)
  let now = 1_800_000_000_000
  const nowMs = () => now
  const store = await openSqlite({ dataDir, exclusive: true, nowMs })
  t.after(() => store.close())
  const raw = (work: (database: DatabaseSync) => void) => {
    const database = new DatabaseSync(join(dataDir, 'onceway.db'), { timeout: 5_000 })
    try { work(database) } finally { database.close() }
  }
  return {
    store,
    advance: (ms) => { now += ms },
    reopen: async () => {
      const second = await openSqlite({ dataDir, exclusive: false, nowMs })
      t.after(() => second.close())
      return second
    },
    corrupt: (id) => {
      raw((database) => {
        database.exec('pragma ignore_check_constraints = on')
        database.prepare('update records set state = \'accepted\' where id = ?').run(id)
      })
    },
    switchScheme: (name, over) => {
      let result: SwitchResult | null = null
      raw((database) => { result = switchIn(database, { ...SWITCH, name, ...over }, now) })
      return result ?? assert.fail('it was not asked')
    },
    audits: () => {
      let rows: Array<{ action: string, who: string, why: string }> = []
      raw((database) => { rows = database.prepare('select action, who, why from audit order by number').all() as typeof rows })
      return Promise.resolve(rows)
    }
  }
})

async function openIn (t: TestContext, dataDir: string, exclusive = true): Promise<SqliteStore> {
  const store = await openSqlite({ dataDir, exclusive })
  t.after(() => store.close())
  return store
}

const sentence = (pattern: RegExp) => (error: unknown) =>
  error instanceof StartError && pattern.test(error.message) && !error.message.includes('\n')

describe('sqlite: the data directory', () => {
  test('what was acknowledged is there after the store was closed and opened again', async (t) => {
    const dataDir = directoryFor(t)
    const claim = claimOf()
    const first = await openIn(t, dataDir)
    await first.insert(claim)
    await first.settle(settlementOf(tokenOf(claim), 'completed'))
    await first.close()
    const again = await openIn(t, dataDir)
    assert.deepEqual((await rowAt(again, claim.id)).body, Buffer.from('body'))
    assert.equal(again.installation, first.installation)
    assert.deepEqual(again.lapsedAtStart, [])
  })

  test('a directory that is missing is made, for this user alone', async (t) => {
    const dataDir = join(directoryFor(t), 'deep', 'down')
    await openIn(t, dataDir)
    assert.equal(statSync(dataDir).mode & 0o777, 0o700)
  })

  test('a second gateway on the same directory is refused in a sentence, until the first is closed', async (t) => {
    const dataDir = directoryFor(t)
    const first = await openIn(t, dataDir)
    await assert.rejects(openSqlite({ dataDir, exclusive: true }), sentence(/Another onceway serves from .*--data-dir/))
    await first.close()
    await openIn(t, dataDir)
  })

  test('the command line looks in while a gateway serves, and leaves its claims alone', async (t) => {
    const dataDir = directoryFor(t)
    const gateway = await openIn(t, dataDir)
    const claim = claimOf()
    await gateway.insert(claim)
    const command = await openIn(t, dataDir, false)
    assert.deepEqual((await command.list({ limit: 10 })).map(({ id, state }) => ({ id, state })), [{ id: claim.id, state: 'claimed' }])
    assert.equal((await gateway.settle(settlementOf(tokenOf(claim), 'completed'))).kind, 'settled')
  })

  test('the command line makes no database where there is none', async (t) => {
    await assert.rejects(openSqlite({ dataDir: directoryFor(t), exclusive: false }), sentence(/There is no database in .*serve/))
  })

  test('what a killed process had claimed is indeterminate as soon as the next one starts', async (t) => {
    const dataDir = directoryFor(t)
    const claim = claimOf({ unknownKeepMs: 70_000 })
    const source = `
      import { openSqlite } from ${JSON.stringify(new URL('../../../src/store/sqlite/store.ts', import.meta.url).href)}
      const [dataDir, text] = process.argv.slice(1)
      const revive = (_, value) => value?.type === 'Buffer' ? Buffer.from(value.data) : value
      const store = await openSqlite({ dataDir, exclusive: true })
      console.log((await store.insert(JSON.parse(text, revive))).kind)`
    const child = spawn(
      process.execPath,
      ['--input-type=module', '-e', source, dataDir, JSON.stringify(claim)],
      { stdio: ['ignore', 'pipe', 'inherit'] }
    )
    t.after(() => child.kill('SIGKILL'))
    const [said] = await once(child.stdout, 'data') as [Buffer]
    assert.equal(said.toString().trim(), 'won')
    await assert.rejects(openSqlite({ dataDir, exclusive: true }), sentence(/Another onceway/))
    child.kill('SIGKILL')
    await once(child, 'exit')
    const next = await openIn(t, dataDir)
    assert.deepEqual(next.lapsedAtStart, [{ id: claim.id, route: 'charges', requestId: 'req-1', attempt: 1 }])
    const { state, settledBy, keepLeftMs } = await rowAt(next, claim.id)
    assert.deepEqual({ state, settledBy }, { state: 'indeterminate', settledBy: 'lease' })
    assert.ok(keepLeftMs !== null && keepLeftMs > 60_000 && keepLeftMs <= 70_000)
  })

  test('a directory or a file that cannot be used is named in a sentence', async (t) => {
    const dataDir = directoryFor(t)
    writeFileSync(join(dataDir, 'file'), 'x')
    await assert.rejects(openSqlite({ dataDir: join(dataDir, 'file', 'below'), exclusive: true }), sentence(/cannot be used .*--data-dir/))
    writeFileSync(join(dataDir, 'onceway.db'), 'this is no database, but long enough to be looked at as if it were one. '.repeat(20))
    await assert.rejects(openSqlite({ dataDir, exclusive: true }), sentence(/is not a database of onceway/))
    await assert.rejects(openSqlite({ dataDir, exclusive: true }), sentence(/is not a database of onceway/), 'and the lock was let go')
  })

  test('a database that a newer release has left this build behind in is refused, one that it has not is served', async (t) => {
    const dataDir = directoryFor(t)
    await (await openIn(t, dataDir)).close()
    const newest = readMigrationFiles('sqlite').at(-1)?.number ?? 0
    const database = new DatabaseSync(join(dataDir, 'onceway.db'))
    t.after(() => { database.close() })
    const later = (number: number, compatibleFrom: number) => ({ number, name: `${number}_later`, compatibleFrom, text: '' })
    migrate(database, 'onceway.db', 0, [...readMigrationFiles('sqlite'), later(newest + 1, newest)])
    await (await openIn(t, dataDir)).close()
    migrate(database, 'onceway.db', 0, [...readMigrationFiles('sqlite'), later(newest + 2, newest + 1)])
    await assert.rejects(openSqlite({ dataDir, exclusive: true }), sentence(/newer release .* install the newer release/))
  })

  test('a migration that fails leaves nothing behind', (t) => {
    const database = new DatabaseSync(':memory:')
    t.after(() => { database.close() })
    const broken = {
      number: 1,
      name: '0001_broken',
      compatibleFrom: 1,
      text: 'create table half (id integer); create table half (id integer)'
    }
    assert.throws(() => { migrate(database, ':memory:', 0, [broken]) }, /half/)
    assert.deepEqual(database.prepare('select name from sqlite_schema where name = \'half\'').all(), [])
    assert.deepEqual(database.prepare('select * from migrations').all(), [])
  })
})

describe('sqlite: the checks of a record', () => {
  type Columns = Readonly<Record<string, SQLInputValue>>

  /** The last migration before the checks were made cheaper. */
  const TEN = 10

  function migrated (t: TestContext, last: number): DatabaseSync {
    const database = new DatabaseSync(join(directoryFor(t), 'onceway.db'))
    t.after(() => { database.close() })
    migrate(database, 'onceway.db', 0, readMigrationFiles('sqlite').filter(({ number }) => number <= last))
    return database
  }

  function insertWith (database: DatabaseSync, over: Columns): void {
    const row = {
      ...{ id: randomBytes(32), state: 'claimed', owner: randomBytes(16), attempt: 1, fp_alg: 3, fingerprint: randomBytes(32) },
      ...{ lease_ms: 1, unknown_keep_ms: 0, quarantine_ms: 0, claimed_at: 0, lease_until: 1, settled_at: null, settled_by: null },
      ...{ expires_at: null, status: null, body: null, route: 'r', method: 'POST', path: '/', request_id: 'q', instance: 'i' },
      ...{ key_hash: randomBytes(32) },
      ...over
    }
    const names = Object.keys(row)
    database.prepare(`insert into records (${names.join()}) values (${names.map(() => '?').join()})`).run(...Object.values(row))
  }

  const SETTLED = { lease_until: null, settled_at: 1, expires_at: 2 }
  const KEPT: readonly Columns[] = [
    {},
    { state: 'completed', settled_by: 'owner', status: 201, body: randomBytes(1), ...SETTLED },
    { state: 'consumed', settled_by: 'operator', status: 201, ...SETTLED },
    { state: 'released', settled_by: 'probe', ...SETTLED },
    { state: 'indeterminate', settled_by: 'lease', ...SETTLED }
  ]
  const BROKEN: typeof KEPT = [
    { state: 'accepted', settled_by: 'owner', ...SETTLED },
    { state: 'released', settled_by: 'nobody', ...SETTLED },
    { state: 'released', settled_by: null, ...SETTLED },
    { state: 'completed', settled_by: 'owner', status: 201, ...SETTLED }
  ]

  for (const last of [TEN, Infinity]) {
    test(`every state and every settler is taken, no other is: ${last === TEN ? 'before' : 'after'} the checks were made cheaper`, (t) => {
      const database = migrated(t, last)
      for (const over of KEPT) insertWith(database, over)
      for (const over of BROKEN) assert.throws(() => { insertWith(database, over) }, /CHECK constraint failed/, JSON.stringify(over))
    })
  }

  test('no check needs a table of its own any more, and what was written before is sound', (t) => {
    const database = migrated(t, TEN)
    insertWith(database, {})
    migrate(database, 'onceway.db', 0)
    const opcodes = database.prepare('explain update records set state = ? where id = ?').all().map(({ opcode }) => opcode)
    assert.ok(!opcodes.includes('OpenEphemeral'))
    assert.equal(database.prepare('pragma integrity_check').get()?.integrity_check, 'ok')
    assert.throws(() => { database.exec('pragma writable_schema = on; update sqlite_schema set sql = sql') }, /may not be modified/)
  })
})

const UNDER_WAY = 10_000

describe('sqlite: faults', () => {
  const unavailable = (inDoubt: boolean) => (error: unknown) => error instanceof StoreUnavailable && error.inDoubt === inDoubt
  const faulted = (inDoubt: boolean) => (error: unknown) =>
    error instanceof Faulted && error.fault.kind === 'unavailable' && error.fault.inDoubt === inDoubt

  function databaseFor (t: TestContext): Database {
    const database = new Database({ file: join(directoryFor(t), 'onceway.db'), nowMs: 0, exclusive: true })
    t.after(() => { database.close() })
    return database
  }

  test('a commit survives a power cut: the log is written through', (t) => {
    const { connection } = databaseFor(t)
    assert.equal(connection.prepare('pragma journal_mode').get()?.journal_mode, 'wal')
    assert.equal(connection.prepare('pragma synchronous').get()?.synchronous, 2)
  })

  test('a worker that dies leaves what was under way in doubt, and refuses the rest at once', async (t) => {
    const { client: link } = await startWorker({ file: join(directoryFor(t), 'onceway.db'), nowMs: 0, exclusive: true })
    // So many that it is not through when it is killed in the same turn.
    const under = link.send(Array.from({ length: UNDER_WAY }, () => ({ op: 'insert', claim: claimOf() }) as const), 0)
    const check = assert.rejects(under, unavailable(true))
    await link.kill()
    await check
    assert.notEqual(link.ended, null, 'what /readyz says: blocked')
    await assert.rejects(link.send([{ op: 'beat', sign: SIGN }], 0), unavailable(false))
    await link.close()
  })

  test('a full disk refuses without doubt, and what is there is still served', (t) => {
    const database = databaseFor(t)
    const [kept, large] = [claimOf(), claimOf()]
    database.run([{ op: 'insert', claim: kept }, { op: 'insert', claim: large }], 0)
    const pages = Number(database.connection.prepare('pragma page_count').get()?.page_count)
    database.connection.exec(`pragma max_page_count = ${pages + 2}`)
    const settlement = settlementOf(tokenOf(large), 'completed', { body: Buffer.alloc(100_000) })
    assert.throws(() => database.run([{ op: 'settle', settlement }], 0), faulted(false))
    assert.equal((database.run([{ op: 'renew', tokens: [tokenOf(kept), tokenOf(large)] }], 0)[0] as string[]).join(), 'renewed,renewed')
  })

  test('a file that another program has locked refuses without doubt', (t) => {
    const database = databaseFor(t)
    const other = new DatabaseSync(database.connection.location() ?? '')
    t.after(() => { other.close() })
    other.exec('begin immediate')
    database.connection.exec('pragma busy_timeout = 0')
    assert.throws(() => database.run([{ op: 'insert', claim: claimOf() }], 0), faulted(false))
    other.exec('rollback')
    assert.deepEqual(database.run([{ op: 'insert', claim: claimOf() }], 0), [{ kind: 'won', attempt: 1 }])
  })

  test('only a commit that failed is in doubt', (t) => {
    const database = databaseFor(t)
    const exec = database.connection.exec.bind(database.connection)
    t.mock.method(database.connection, 'exec', (text: string) => {
      if (text === 'commit') throw new Error('disk I/O error')
      exec(text)
    })
    assert.throws(() => database.run([{ op: 'insert', claim: claimOf() }], 0), faulted(true))
    t.mock.restoreAll()
    assert.deepEqual(database.run([{ op: 'insert', claim: claimOf() }], 0), [{ kind: 'won', attempt: 1 }])
  })

  test('too many uncombined calls at once are refused, the others answered', async (t) => {
    const store = await openIn(t, directoryFor(t))
    const results = await Promise.allSettled(Array.from({ length: 300 }, () => store.beat(SIGN)))
    const refused = results.filter((result) => result.status === 'rejected')
    assert.equal(refused.length, 300 - 256)
    for (const { reason } of refused) assert.ok(reason instanceof StoreOverloaded)
    await store.beat(SIGN)
  })
})

describe('sqlite: the worker', () => {
  test('a settle overtakes the claims that wait', async (t) => {
    const { client: link } = await startWorker({ file: join(directoryFor(t), 'onceway.db'), nowMs: 0, exclusive: true })
    t.after(() => link.close())
    const first = claimOf()
    await link.send([{ op: 'insert', claim: first }], 0)
    const order: string[] = []
    // Long enough that all the others wait behind it, however busy the machine is.
    const busy = link.send(Array.from({ length: 5_000 }, () => ({ op: 'insert' as const, claim: claimOf() })), 0)
    const claims = Array.from({ length: 100 }, () => link.send([{ op: 'insert', claim: claimOf() }], 0).then(() => order.push('claim')))
    const settle = link.send([{ op: 'settle', settlement: settlementOf(tokenOf(first), 'completed') }], 0).then(() => order.push('settle'))
    await Promise.all([busy, ...claims, settle])
    assert.ok(order.indexOf('settle') < 50, `settled after ${order.indexOf('settle')} of 100 claims`)
  })

  test('what was asked before the store closes is done', async (t) => {
    const dataDir = directoryFor(t)
    const store = await openIn(t, dataDir)
    const claims = Array.from({ length: 500 }, () => claimOf())
    const results = Promise.all(claims.map((claim) => store.insert(claim)))
    await store.close()
    assert.ok((await results).every(({ kind }) => kind === 'won'))
  })

  test('a small Buffer travels without the pool behind it, and the sender keeps its own', () => {
    const pooled = Buffer.from('a key of somebody else lies next to me')
    const small = pooled.subarray(2, 5)
    const transfer: ArrayBuffer[] = []
    const copy = packed({ deep: [{ small }] }, transfer).deep[0]?.small
    assert.equal(copy?.buffer.byteLength, 3)
    assert.deepEqual(transfer, [copy?.buffer])
    assert.equal(small.toString(), 'key')
  })

  test('every batch is told to the meter', async (t) => {
    const told: string[] = []
    const store = await openSqlite({
      dataDir: directoryFor(t),
      exclusive: true,
      meter: { store: (name, operation, ok) => { told.push(`${name} ${operation} ${ok}`) } }
    })
    t.after(() => store.close())
    const claim = claimOf()
    await store.insert(claim)
    await assert.rejects(store.settle(settlementOf(tokenOf(claim), 'consumed', { status: null })))
    assert.deepEqual(told, ['sqlite insert true', 'sqlite settle false'])
  })
})
