/** Who may read the embedded store: a bit of every file's mode, whatever the umask and whoever made it (docs/concepts/threat-model.md). */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { secretToServe } from '../../../src/store/sqlite/secret.ts'
import { openSqlite } from '../../../src/store/sqlite/store.ts'

function directory (t: TestContext, mode = 0o700): string {
  const made = mkdtempSync(join(tmpdir(), 'onceway-protection-'))
  t.after(() => { rmSync(made, { recursive: true, force: true }) })
  const dataDir = join(made, 'data')
  mkdirSync(dataDir)
  chmodSync(dataDir, mode)
  return dataDir
}

async function opened (dataDir: string): Promise<string | null> {
  secretToServe(dataDir)
  const store = await openSqlite({ dataDir, exclusive: true })
  const { remark } = store
  await store.close()
  return remark
}

function modes (dataDir: string): Record<string, string> {
  return Object.fromEntries(['.', ...readdirSync(dataDir).sort()].map((name) => [
    name,
    (statSync(join(dataDir, name)).mode & 0o777).toString(8)
  ]))
}

test('whatever the umask, its files are their owner\'s alone, while it serves and when it has closed', async (t) => {
  const before = process.umask(0)
  t.after(() => { process.umask(before) })
  const dataDir = join(directory(t), 'new')
  secretToServe(dataDir)
  const store = await openSqlite({ dataDir, exclusive: true })
  const serving = modes(dataDir)
  await store.close()
  assert.deepEqual(serving, {
    '.': '700',
    'onceway.db': '600',
    'onceway.db-shm': '600',
    'onceway.db-wal': '600',
    'onceway.lock': '600',
    'onceway.lock-journal': '600',
    secret: '600'
  })
  assert.ok(Object.values(modes(dataDir)).every((mode) => mode === '600' || mode === '700'))
  assert.equal(store.remark, null)
})

test('files of a release that left them readable are closed at the start, and so is their directory', async (t) => {
  const dataDir = directory(t, 0o755)
  await opened(dataDir)
  for (const name of readdirSync(dataDir)) chmodSync(join(dataDir, name), 0o644)
  chmodSync(dataDir, 0o755)
  assert.equal(await opened(dataDir), null)
  assert.deepEqual(modes(dataDir), { '.': '700', 'onceway.db': '600', 'onceway.lock': '600', secret: '600' })
})

test('what a link leads to is nobody\'s to change', async (t) => {
  const dataDir = directory(t, 0o700)
  const elsewhere = join(dataDir, '..', 'of-somebody-else')
  writeFileSync(elsewhere, 'x', { mode: 0o644 })
  symlinkSync(elsewhere, join(dataDir, 'onceway.db-journal'))
  await assert.rejects(opened(dataDir), /is a link to/)
  assert.equal(statSync(elsewhere).mode & 0o777, 0o644)
})

test('a directory that holds other things too keeps its mode; one that all may write to is told of', async (t) => {
  for (const [mode, told] of [[0o755, null], [0o775, null], [0o777, /every user may write to the data directory/]] as const) {
    const dataDir = directory(t, mode)
    writeFileSync(join(dataDir, 'of-somebody-else'), '')
    const remark = await opened(dataDir)
    if (told === null) assert.equal(remark, null)
    else assert.match(remark ?? '', told)
    const { '.': after, 'onceway.db': database } = modes(dataDir)
    assert.deepEqual([after, database], [mode.toString(8), '600'])
  }
})

test('what is no file is no store, and nothing waits for it', async (t) => {
  for (const name of ['secret', 'onceway.db']) {
    const dataDir = directory(t)
    await opened(dataDir)
    rmSync(join(dataDir, name))
    execFileSync('mkfifo', [join(dataDir, name)])
    await assert.rejects(opened(dataDir), /is no file/, name)
  }
})

// Whoever may give files away can be given some.
test('a store that belongs to somebody else is served, and said to', async (t) => {
  const dataDir = directory(t)
  await opened(dataDir)
  if (process.getuid?.() !== 0) {
    assert.throws(() => { chownSync(join(dataDir, 'secret'), 1234, 1234) })
    return
  }
  chownSync(join(dataDir, 'secret'), 1234, 1234)
  assert.match(await opened(dataDir) ?? '', /secret belongs to another user/)
  chownSync(join(dataDir, 'secret'), 0, 0)
  chownSync(dataDir, 1234, 1234)
  assert.match(await opened(dataDir) ?? '', /data belongs to another user/)
})
