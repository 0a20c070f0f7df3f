/** A gateway that lacks the secret by which its database makes ids: it guards nothing, says why, and does once it has it. */
import assert from 'node:assert/strict'
import { renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { directory, say, SECRETS } from '../cli/world.ts'
import { call } from '../harness/call.ts'
import type { Called } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { startPostgres } from '../harness/postgres.ts'
import type { PostgresServer } from '../harness/postgres.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { startWitness } from '../harness/witness.ts'
import { fileOf, startReloadable } from './reload-world.ts'
import { configOf } from './world.ts'

const [SECRET, OTHER] = SECRETS
const NOTICED_WITHIN_MS = 30_000
const REASON =
  /^The ids in this database are made with the secret \S{11}, which this gateway does not have: set secret, or previousSecret, to it/

async function ask ({ url }: ProcessGateway, key: string): Promise<Called> {
  return call(url, '/things', { headers: { Host: 'api.example.com', 'Idempotency-Key': key }, body: 'same' })
}

async function ready ({ adminUrl }: ProcessGateway): Promise<{ readonly status: number, readonly said: string, readonly reason: string }> {
  const { status, json } = await call(adminUrl, '/readyz', { method: 'GET' })
  const { status: said, reason = '' } = json as { readonly status: string, readonly reason?: string }
  return { status, said, reason }
}

async function becomes (gateway: ProcessGateway, state: string): Promise<void> {
  let last = ''
  await eventually(
    async () => (last = (await ready(gateway)).said) === state,
    () => `it should be ${state}, and is ${last}`,
    NOTICED_WITHIN_MS
  )
}

async function end (gateway: ProcessGateway): Promise<void> {
  gateway.signal('SIGTERM')
  assert.equal(await gateway.exited, 0)
}

/** Of one that has just been told no secret, or another. */
async function assertBlocked (gateway: ProcessGateway, key: string): Promise<void> {
  await becomes(gateway, 'blocked')
  const { status, reason } = await ready(gateway)
  assert.equal(status, 503)
  assert.match(reason, REASON)
  for (const each of [key, 'another']) {
    const refused = await ask(gateway, each)
    assert.deepEqual([refused.status, refused.json.code], [503, 'store-unavailable'])
  }
  assert.equal((await call(gateway.url, '/read', { method: 'GET' })).status, 201, 'what is not guarded passes through')
  await gateway.logged(({ level, msg }) => level === 'error' && REASON.test(msg ?? ''))
}

test('a gateway whose secret is missing guards nothing, says why, and serves when a reload brings it', async (t) => {
  const witness = await startWitness()
  t.after(() => witness.close())
  const fileWith = (secret: string | null): string => fileOf({ upstream: witness.url, more: secret === null ? '' : `secret: "${secret}"` })
  const at = ['--data-dir', directory(t)]
  const first = await startReloadable(t, fileWith(SECRET), at)
  const answer = await ask(first, 'k')
  assert.equal(answer.status, 201)
  await end(first)
  const gateway = await startReloadable(t, fileWith(null), at)
  await assertBlocked(gateway, 'k')
  assert.deepEqual((await gateway.reload(fileWith(OTHER)))['changed'], ['secret'])
  await assertBlocked(gateway, 'k')
  await gateway.reload(fileOf({ upstream: witness.url, more: `secret: "${OTHER}"\npreviousSecret: "${SECRET}"` }))
  assert.equal((await ready(gateway)).said, 'ready')
  const again = await ask(gateway, 'k')
  assert.deepEqual([again.status, again.text, again.headers['idempotent-replayed']], [201, answer.text, 'true'])
  assert.equal((await ask(gateway, 'fresh')).status, 201)
  await gateway.reload(fileWith(OTHER))
  await assertBlocked(gateway, 'k')
  assert.ok(!gateway.output().includes(SECRET) && !gateway.output().includes(OTHER))
  assert.equal(witness.seen.filter(({ target }) => target === '/things').length, 2)
})

test('a new embedded store has a secret beside it; without the file its gateway guards nothing, and it is back with it', async (t) => {
  const witness = await startWitness()
  t.after(() => witness.close())
  const dataDir = directory(t)
  const [secret, away] = [join(dataDir, 'secret'), join(dataDir, 'away')]
  const start = async (): Promise<ProcessGateway> => startReloadable(t, fileOf({ upstream: witness.url }), ['--data-dir', dataDir])
  const first = await start()
  assert.equal((await ask(first, 'k')).status, 201)
  await end(first)
  assert.equal(statSync(secret).mode & 0o777, 0o600)
  renameSync(secret, away)
  const without = await start()
  await assertBlocked(without, 'k')
  await end(without)
  const shown = await say(['ids', '--data-dir', dataDir])
  assert.match(shown.out, /^ids are made by {2}2:\S{11}\nthis file makes {2}2, 1\n {17}not 2:\S{11}: its secret is missing here [^\n]+$/)
  renameSync(away, secret)
  const again = await start()
  assert.equal((await ask(again, 'k')).headers['idempotent-replayed'], 'true')
  await end(again)
  // It is lost for good.
  rmSync(secret)
  const lost = await say([
    'ids', 'upgrade', '--secret-lost', '--yes', '--who', 'ada', '--why', 'the disk of the secret', '--data-dir',
    dataDir
  ])
  assert.deepEqual([lost.exitCode, lost.err], [0, ''])
  const anew = await start()
  const unknown = await ask(anew, 'k')
  assert.deepEqual([unknown.status, unknown.json.code], [502, 'outcome-unknown'])
  assert.equal((await call(anew.url, '/things', { headers: { 'Idempotency-Key': 'other' }, body: 'something else' })).status, 201)
  assert.equal(witness.seen.filter(({ target }) => target === '/things').length, 2)
})

describe('on Postgres', needs('postgres'), () => {
  let starting: Promise<PostgresServer> | null = null
  after(async () => { await (await starting)?.stop() })

  test('several workers without the secret guard nothing, are blocked as one, and serve when a reload brings it', async (t) => {
    const witness = await startWitness()
    t.after(() => witness.close())
    const database = await (await (starting ??= startPostgres())).createDatabase('secrets')
    const fileWith = (secret: string | null): string => configOf({
      database,
      redis: null,
      upstream: witness.url,
      more: `workers: 2\n${secret === null ? '' : `secret: "${secret}"`}`
    })
    const gateway = await startReloadable(t, fileWith(SECRET))
    await becomes(gateway, 'ready')
    const answer = await ask(gateway, 'k')
    assert.equal(answer.status, 201)
    await gateway.reload(fileWith(null))
    await assertBlocked(gateway, 'k')
    await gateway.reload(fileWith(SECRET))
    await becomes(gateway, 'ready')
    const again = await ask(gateway, 'k')
    assert.deepEqual([again.status, again.text], [201, answer.text])
    // Known to the others, too: a switch asks for it.
    const env = { DATABASE_URL: database, ONCEWAY_SECRET: OTHER, ONCEWAY_PREVIOUS_SECRET: SECRET }
    const upgrade = async (): Promise<{ exitCode: number, err: string }> =>
      say(['ids', 'upgrade', '--yes', '--who', 'ada', '--why', 'rotation',], env)
    assert.match((await upgrade()).err, /Not every gateway can make ids by this scheme: \S+ \(seen \d+ s ago\), \S+ \(seen/)
    await gateway.reload(fileWith(`${OTHER}"\npreviousSecret: "${SECRET}`))
    let said = { exitCode: 1, err: '' }
    await eventually(async () => (said = await upgrade()).exitCode === 0, () => said.err, NOTICED_WITHIN_MS)
    const third = await ask(gateway, 'k')
    assert.deepEqual([third.status, third.text], [201, answer.text])
    assert.equal((await ask(gateway, 'fresh')).status, 201)
    assert.equal(witness.seen.filter(({ target }) => target === '/things').length, 2)
  })
})
