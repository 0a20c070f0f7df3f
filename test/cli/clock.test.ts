/** `onceway clock` on an embedded store, beside a process that serves from it and without one. */
import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { openDirectory } from '../../src/store/sqlite/directory.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'
import { claimOf, directory, say } from './world.ts'

const HOUR_MS = 3_600_000
const GATEWAY = Buffer.alloc(16, 1)

/** Its gateway has found the clock an hour ahead, and waits for an operator. */
async function stepped (t: TestContext) {
  const dataDir = directory(t)
  const store = await openSqlite({ dataDir, exclusive: true })
  t.after(() => store.close())
  const now = Date.now()
  const beat = async () => store.beat({
    gateway: GATEWAY,
    instance: 'gw-1',
    beat: 1,
    aheadMs: HOUR_MS,
    time: {
      confirmations: 0,
      trusted: { sinceMs: now - 2 * HOUR_MS, judgedMs: now - HOUR_MS },
      doubt: { afterMs: now - HOUR_MS, foundMs: now },
      shareForMs: 24 * HOUR_MS
    }
  })
  assert.equal((await beat()).aheadMs, HOUR_MS)
  return { store, beat, at: ['--data-dir', dataDir] }
}

test('it shows that the clock is believed, and that it is not', async (t) => {
  const dataDir = directory(t)
  const store = await openSqlite({ dataDir, exclusive: true })
  const fresh = await say(['clock', '--data-dir', dataDir])
  await store.close()
  assert.match(fresh.out, /^store says {9}\S+Z\nahead {14}no\nlast heartbeat {5}none$/)
  const { at } = await stepped(t)
  assert.match(
    (await say(['clock', 'show', ...at])).out,
    /ahead {14}60 min, found at \S+Z\. It is trusted from \S+Z on, or when it is set back or confirmed/
  )
})

test('it says by how much the clock is behind, while no gateway starts for it', async (t) => {
  const dataDir = directory(t)
  await (await openSqlite({ dataDir, exclusive: true })).close()
  const { file } = openDirectory(dataDir, false)
  const connection = new DatabaseSync(file)
  connection.prepare('update clock set seen_at = ?').run(Date.now() + HOUR_MS)
  connection.close()
  assert.match(
    (await say(['clock', '--data-dir', dataDir])).out,
    /ahead {14}no\nbehind {13}60 min: a gateway that starts does not serve until the clock is set or confirmed\n/
  )
  await assert.rejects(openSqlite({ dataDir, exclusive: true }), /say that it is right with `onceway clock confirm --why TEXT`/)
})

test('a confirmation ends it for the process that serves, and says who and why; a finding that has not heard of it does not bring it back', async (t) => {
  const { beat, at } = await stepped(t)
  const done = await say(['clock', 'confirm', '--who', 'ada', '--why', 'NTP was off', ...at])
  assert.deepEqual([done.exitCode, done.err], [0, ''])
  assert.match(done.out, /^Confirmed: the clock of the store no longer counts as 60 min ahead\./)
  assert.match((await say(['clock', ...at])).out, /ahead {14}no[^]*confirmed {10}1 time, last at \S+Z by ada: NTP was off/)
  const { aheadMs, confirmations } = await beat()
  assert.deepEqual([aheadMs, confirmations], [0, 1])
})

test('a release by hand waits out the quarantine by the time that is believed', async (t) => {
  const { store, at } = await stepped(t)
  const claim = claimOf('one', 10)
  await store.insert(claim)
  await store.settle({
    token: { id: claim.id, owner: claim.owner, attempt: 1 },
    outcome: 'indeterminate',
    keepMs: HOUR_MS,
    status: null,
    headers: null,
    body: null,
    reason: { stage: 'during', code: 'ECONNRESET' }
  })
  const release = [
    'records',
    'release',
    claim.id.toString('hex'),
    '--owner',
    claim.owner.toString('hex'),
    '--attempt',
    '1',
    '--why',
    'it was not done',
    ...at
  ]
  const early = await say(release)
  assert.notEqual(early.exitCode, 0, early.out)
  await say(['clock', 'confirm', '--why', 'it is right', ...at])
  const after = await say(release)
  assert.deepEqual([after.exitCode, after.err], [0, ''])
})

test('a delete says that it takes effect when the time is believed again', async (t) => {
  const { store, at } = await stepped(t)
  const claim = claimOf('one', 10)
  await store.insert(claim)
  await store.settle({
    token: { id: claim.id, owner: claim.owner, attempt: 1 },
    outcome: 'consumed',
    keepMs: HOUR_MS,
    status: 201,
    headers: null,
    body: null,
    reason: null
  })
  const { exitCode, out } = await say([
    'records',
    'delete',
    claim.id.toString('hex'),
    '--owner',
    claim.owner.toString('hex'),
    '--attempt',
    '1',
    '--why',
    'done anew',
    ...at
  ])
  assert.equal(exitCode, 0)
  assert.match(out, /Deleted: the record ends when the clock of the store is trusted again \(onceway clock\)\./)
})

test('it wants to know why, and what to do', async (t) => {
  const { at } = await stepped(t)
  for (const [argv, sentence] of [
    [['clock', 'confirm', ...at], /--why is needed/],
    [['clock', 'set', ...at], /show or confirm/],
    [['clock', '--why', 'x', ...at], /--why is not for clock show/]
  ] as const) {
    const { exitCode, err } = await say(argv)
    assert.deepEqual([exitCode, sentence.test(err)], [2, true], err)
  }
})
