/** Several users share one temporary directory. A run must not read or remove what another user's run left there. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { unprivilegedUser } from './binaries.ts'
import { makeDirectory } from './directory.ts'
import { needs } from './needs.ts'

/** Above every limit of Linux, so that no process has this id. */
const DEAD_PID = 99_999_999
const HARNESS = new URL('./postgres.ts', import.meta.url).href

/** Starts a Postgres and stops it. Root uses another user for that, which cannot enter root's directories. */
const PROGRAM = `
  const { startPostgres, query } = await import(${JSON.stringify(HARNESS)})
  const [uid, gid] = process.argv.slice(1).map(Number)
  if (gid !== undefined) { process.setgroups([]); process.setgid(gid); process.setuid(uid) }
  const server = await startPostgres()
  console.log((await query(server.url, 'select 7 as number'))[0].number)
  await server.stop()
`

test('templates that another user left in the temporary directory keep no Postgres from starting', needs('own postgres'), () => {
  const other = unprivilegedUser()
  const uid = other?.uid ?? process.getuid?.() ?? 0
  const shared = makeDirectory('shared', tmpdir())
  // Left by ended runs, one of them with a parent of this process's number.
  const foreign = [`onceway-template-${DEAD_PID}`, `onceway-template-${uid}-${DEAD_PID}`, `onceway-template-${process.pid}`]
  try {
    for (const name of foreign) leave(join(shared.path, name), other === undefined ? 0o100 : 0o700)
    chmodSync(shared.path, 0o1777)
    const { status, stdout, stderr } = spawnSync(process.execPath, [
      '--input-type=module',
      '--eval',
      PROGRAM,
      ...Object.values(other ?? {}).map(String)
    ], {
      env: { ...process.env, TMPDIR: shared.path }, encoding: 'utf8', timeout: 60_000
    })
    assert.equal(status, 0, stderr)
    assert.equal(stdout, '7\n')
    assert.deepEqual(foreign.filter((name) => !readdirSync(shared.path).includes(name)), [])
  } finally {
    for (const name of foreign) chmodSync(join(shared.path, name), 0o700)
    shared.remove()
  }
})

function leave (path: string, mode: number) {
  mkdirSync(path)
  writeFileSync(join(path, 'PG_VERSION'), '0')
  chmodSync(path, mode)
}
