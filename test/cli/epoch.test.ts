/** `onceway epoch bump` on the embedded store: a copy of its directory is the backup. */
import assert from 'node:assert/strict'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { Token } from '../../src/core/record/record.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'
import { assertGroupGoesOn, assertRestored, leaveGroup, leaveMessages } from './restored-inbox.ts'
import { claimOf, directory, leave, say } from './world.ts'

const WHY = ['--who', 'ada', '--why', 'the disk of the night']

interface Backup {
  readonly dataDir: string
  readonly at: readonly string[]
  readonly tokens: Readonly<Record<'claimed' | 'released' | 'completed' | 'consumed' | 'indeterminate', Token>>
}

/** One record in each state, as a backup of a store that served has them. */
async function backup (t: TestContext): Promise<Backup> {
  const [live, dataDir] = [directory(t), directory(t)]
  const store = await openSqlite({ dataDir: live, exclusive: true })
  const tokens = {
    completed: await leave(store, 'completed', 'completed'),
    consumed: await leave(store, 'consumed', 'consumed'),
    released: await leave(store, 'released', 'released'),
    indeterminate: await leave(store, 'indeterminate', 'indeterminate'),
    claimed: await leave(store, 'claimed', 'claimed')
  }
  await store.close()
  for (const name of ['onceway.db']) cpSync(join(live, name), join(dataDir, name))
  return { dataDir, at: ['--data-dir', dataDir], tokens }
}

function rowsOf (dataDir: string, sql: string): Array<Record<string, unknown>> {
  const database = new DatabaseSync(join(dataDir, 'onceway.db'), { readOnly: true })
  const rows = database.prepare(sql).all()
  database.close()
  return rows.map((row) => ({ ...row }))
}

test('without --yes it says what it would do, and changes nothing', async (t) => {
  const { dataDir, at } = await backup(t)
  const { exitCode, out, err } = await say(['epoch', 'bump', ...WHY, ...at])
  assert.equal(exitCode, 1)
  assert.match(out, /^Epoch 2 would begin\.\n2 records would become indeterminate: 1 claimed and 1 released when/)
  assert.match(err, /nothing was changed; add --yes/)
  assert.deepEqual(rowsOf(dataDir, 'select count(*) as count from records where unknown_code = \'BACKUP_RESTORED\''), [{ count: 0 }])
  assert.deepEqual(rowsOf(dataDir, 'select epoch from installation'), [{ epoch: 1 }])
})

test('what was claimed or free is unknown afterwards and is not executed again; answers stay; who and why are kept', async (t) => {
  const { dataDir, at, tokens } = await backup(t)
  const done = await say(['epoch', 'bump', ...WHY, '--yes', ...at])
  assert.deepEqual([done.exitCode, done.err], [0, ''])
  assert.match(done.out, /^Epoch 2 has begun\.\n2 records are now indeterminate/)
  assert.match(done.out, /first used after the backup/)
  assert.deepEqual(rowsOf(dataDir, 'select epoch, claimed, released, who, why from epochs'), [{
    epoch: 2,
    claimed: 1,
    released: 1,
    who: 'ada',
    why: 'the disk of the night'
  }])
  const store = await openSqlite({ dataDir, exclusive: true })
  t.after(() => store.close())
  for (const name of ['claimed', 'released'] as const) {
    const row = await store.look(tokens[name].id)
    assert.deepEqual(
      [row?.state, row?.settledBy, row?.reason],
      ['indeterminate', 'operator', { stage: 'restore', code: 'BACKUP_RESTORED' }]
    )
    assert.ok((row?.keepLeftMs ?? 0) > 3_000_000, 'kept as long as an unknown outcome is')
    const again = await store.insert({ ...claimOf(name), owner: Buffer.alloc(16, 'another') })
    assert.equal(again.kind, 'seen')
  }
  for (const name of ['completed', 'consumed', 'indeterminate'] as const) assert.equal((await store.look(tokens[name].id))?.state, name)
  assert.equal((await store.look(tokens.indeterminate.id))?.reason?.code, 'ECONNRESET', 'what was unknown before keeps its reason')
})

test('a late answer of the owner is still the true one', async (t) => {
  const { dataDir, at, tokens } = await backup(t)
  await say(['epoch', 'bump', ...WHY, '--yes', ...at])
  const store = await openSqlite({ dataDir, exclusive: true })
  t.after(() => store.close())
  const settled = await store.settle({
    token: tokens.claimed,
    outcome: 'consumed',
    keepMs: 60_000,
    status: 201,
    headers: null,
    body: null,
    reason: null
  })
  assert.equal(settled.kind, 'settled')
})

test('messages that were open are delivered again under numbers of their own, or held', async (t) => {
  const [live, dataDir] = [directory(t), directory(t)]
  const serving = await openSqlite({ dataDir: live, exclusive: true })
  await leaveMessages(serving.inbox)
  await serving.close()
  cpSync(join(live, 'onceway.db'), join(dataDir, 'onceway.db'))
  const bump = async (...flags: readonly string[]) => (await say(['epoch', 'bump', ...WHY, ...flags, '--data-dir', dataDir])).out
  assert.match(await bump(), /^Of 5 open messages, 2 would be held, 3 would be delivered again/m)
  assert.match(await bump('--yes'), /^Of 5 open messages, 2 are held, 3 are delivered again/m)
  assert.deepEqual(rowsOf(dataDir, 'select held, again from epochs'), [{ held: 2, again: 3 }])
  const store = await openSqlite({ dataDir, exclusive: true })
  t.after(() => store.close())
  await assertRestored(store.inbox)
})

test('a message behind one that the new epoch holds has its turn', async (t) => {
  const [live, dataDir] = [directory(t), directory(t)]
  const serving = await openSqlite({ dataDir: live, exclusive: true })
  await leaveGroup(serving.inbox)
  await serving.close()
  cpSync(join(live, 'onceway.db'), join(dataDir, 'onceway.db'))
  await say(['epoch', 'bump', ...WHY, '--yes', '--data-dir', dataDir])
  const store = await openSqlite({ dataDir, exclusive: true })
  t.after(() => store.close())
  await assertGroupGoesOn(store.inbox)
})

test('the second bump begins the third epoch and finds nothing', async (t) => {
  const { at } = await backup(t)
  await say(['epoch', 'bump', ...WHY, '--yes', ...at])
  const { exitCode, out } = await say(['epoch', 'bump', ...WHY, '--yes', ...at])
  assert.equal(exitCode, 0)
  assert.match(out, /^Epoch 3 has begun\.\n0 records/)
})

test('it is refused while a gateway serves from the directory, and where there is no store', async (t) => {
  const { dataDir, at } = await backup(t)
  const store = await openSqlite({ dataDir, exclusive: true })
  const refused = await say(['epoch', 'bump', ...WHY, '--yes', ...at])
  await store.close()
  assert.equal(refused.exitCode, 1)
  assert.match(refused.err, /Another onceway serves from/)
  const nothing = await say(['epoch', 'bump', ...WHY, '--yes', '--data-dir', directory(t)])
  assert.equal(nothing.exitCode, 1)
  assert.match(nothing.err, /There is no database/)
})

test('it wants to know why, and what to do', async (t) => {
  const { at } = await backup(t)
  assert.deepEqual((await say(['epoch', 'bump', '--yes', ...at])).exitCode, 2)
  assert.deepEqual(
    await say(['epoch', 'bump', '--yes', '--why', ' ', ...at]).then(({ exitCode, err }) => [exitCode, /--why is needed/.test(err)]),
    [2, true]
  )
  assert.deepEqual((await say(['epoch', ...at])).exitCode, 2)
})
