/** The try-out leaves nothing behind that a real upstream could be mistaken for. */
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { startWitness } from '../harness/witness.ts'
import { Onceway, pay } from './onceway.ts'
import { directory } from './world.ts'

test('who tries the toy and then puts the gateway in front of a server gets the server\'s answer for the same key, not the toy\'s payment', async (t) => {
  const witness = await startWitness()
  t.after(() => witness.close())
  const [project, tmp] = [directory(t), directory(t)]
  const toy = new Onceway(t, ['serve'], { TMPDIR: tmp }, project)
  const { url } = await toy.urls()
  assert.equal(await pay(url, 'order-1'), 'executed')
  toy.process.kill('SIGTERM')
  await toy.lastLine()
  assert.equal(await toy.ended, 0)
  assert.deepEqual([readdirSync(project), readdirSync(tmp)], [[], []], 'its store is gone')
  const real = new Onceway(t, ['serve', '--upstream', witness.url], {}, project)
  assert.equal(await pay((await real.urls()).url, 'order-1'), 'executed')
  assert.equal(witness.seen.length, 1)
})

test('a data directory that is given with the toy is used, and stays', async (t) => {
  const dataDir = join(directory(t), 'kept')
  for (const outcome of ['executed', 'replayed']) {
    const toy = new Onceway(t, ['serve', '--data-dir', dataDir])
    const { url } = await toy.urls()
    assert.equal(await pay(url, 'order-1'), outcome)
    await toy.says(/toy +Its records stay in .*kept: do not serve a real upstream from there\./)
    toy.process.kill('SIGTERM')
    await toy.lastLine()
    assert.equal(await toy.ended, 0)
  }
  assert.ok(existsSync(join(dataDir, 'onceway.db')))
})

test('the toy needs no directory for temporary files where it is given one of its own, and says so where it does', async (t) => {
  const TMPDIR = join(directory(t), 'nowhere')
  await new Onceway(t, ['serve', '--data-dir', join(directory(t), 'own')], { TMPDIR }).urls()
  const without = new Onceway(t, ['serve'], { TMPDIR })
  assert.equal(await without.ended, 1)
  assert.match(
    without.err,
    /^onceway: The toy cannot create a directory in \S+nowhere \(ENOENT\)\. Set TMPDIR, or name a directory with --data-dir\.\n$/
  )
})

test('the toy stays out of the database and the data directory of the environment, and says so', async (t) => {
  const dataDir = join(directory(t), 'real')
  const toy = new Onceway(t, ['serve'], {
    DATABASE_URL: 'postgres://127.0.0.1:1/real',
    REDIS_URL: 'redis://127.0.0.1:1',
    ONCEWAY_DATA_DIR: dataDir
  })
  const { url } = await toy.urls()
  await toy.says(/^stores +embedded SQLite under .*onceway-toy-/)
  await toy.says(/^toy +DATABASE_URL, ONCEWAY_DATA_DIR, REDIS_URL are not used: the toy never uses real stores\./)
  assert.equal(await pay(url, 'order-1'), 'executed')
  assert.equal(existsSync(dataDir), false)
})

test('what a killed toy has left is removed by a later one; what a living one has, and anything else, is not', async (t) => {
  const tmp = directory(t)
  const killed = new Onceway(t, ['serve'], { TMPDIR: tmp })
  await killed.urls()
  const [left = ''] = readdirSync(tmp)
  killed.process.kill('SIGKILL')
  await killed.ended
  const living = new Onceway(t, ['serve'], { TMPDIR: tmp })
  const { url } = await living.urls()
  assert.ok(existsSync(join(tmp, left)), 'not at once: it may be one that has just been made')
  mkdirSync(join(tmp, 'somebody-elses'))
  const yesterday = Date.now() / 1_000 - 86_400
  for (const name of readdirSync(tmp)) utimesSync(join(tmp, name), yesterday, yesterday)
  const [kept] = readdirSync(tmp).filter((name) => name.startsWith('onceway-toy-') && name !== left)
  const third = new Onceway(t, ['serve'], { TMPDIR: tmp })
  await third.urls()
  assert.deepEqual([left, kept ?? '', 'somebody-elses'].map((name) => existsSync(join(tmp, name))), [false, true, true])
  assert.equal(await pay(url, 'order-1'), 'executed')
})

test('a toy that is ended at once by a second signal leaves nothing either', async (t) => {
  const tmp = directory(t)
  const toy = new Onceway(t, ['serve'], { TMPDIR: tmp, ONCEWAY_DRAIN_DELAY: '60s' })
  const { adminUrl } = await toy.urls()
  toy.process.kill('SIGTERM')
  while ((await fetch(`${adminUrl}/readyz`)).status !== 503) await new Promise((resolve) => setTimeout(resolve, 10))
  await new Promise((resolve) => setTimeout(resolve, 600))
  toy.process.kill('SIGTERM')
  assert.equal(await toy.ended, 1)
  assert.deepEqual(readdirSync(tmp), [])
})
