import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { Redis } from 'ioredis'
import { Client } from 'pg'
import { call } from '../harness/call.ts'
import type { Called } from '../harness/call.ts'
import { needs } from '../harness/needs.ts'
import { query } from '../harness/postgres.ts'
import { startProcess } from '../harness/process-gateway.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { CREATED, startWitness } from '../harness/witness.ts'
import type { Witness } from '../harness/witness.ts'
import { configOf, startServers } from './world.ts'
import type { Servers } from './world.ts'

/** Real stores that are emptied, stopped and started again under a running gateway. */
describe('when a store is lost', needs('own postgres', 'own redis'), () => {
  let servers: Servers
  before(async () => { servers = await startServers() })
  after(async () => { await servers.stop() })

  async function gatewayOn (t: TestContext, witness: Witness, idempotency = ''): Promise<ProcessGateway> {
    const database = await servers.postgres.createDatabase('lost')
    const gateway = await startProcess(t, { config: configOf({ database, redis: servers.redis.url, upstream: witness.url, idempotency }) })
    await until(async () => (await readiness(gateway)).body.toString().includes('"ready"'))
    return gateway
  }

  const ask = (gateway: ProcessGateway, key: string): Promise<Called> => call(gateway.url, '/things', {
    headers: { 'Idempotency-Key': key },
    body: 'one'
  })
  const readiness = (gateway: ProcessGateway): Promise<Called> => call(gateway.adminUrl, '/readyz', { method: 'GET' })

  test('FLUSHALL in mid-flight leaves one execution, and a duplicate is still told that it is in flight', async (t) => {
    const release = Promise.withResolvers<void>()
    const witness = await startWitness(async (...args) => { await release.promise; await CREATED(...args) })
    t.after(() => witness.close())
    const one = await gatewayOn(t, witness)
    const first = ask(one, 'flush')
    await witness.reached(1)
    const redis = new Redis(servers.redis.url)
    assert.ok(await redis.dbsize() > 0)
    await redis.flushall()
    await redis.quit()
    assert.equal((await ask(one, 'flush')).status, 409)
    release.resolve()
    const answer = await first
    assert.equal(answer.status, 201)
    assert.deepEqual((await ask(one, 'flush')).body, answer.body)
    assert.equal(witness.seen.length, 1)
  })

  test('Redis full: everything goes on by the database alone', async (t) => {
    const witness = await startWitness()
    t.after(() => witness.close())
    const gateway = await gatewayOn(t, witness)
    await ask(gateway, 'before-full')
    const redis = new Redis(servers.redis.url)
    await redis.config('SET', 'maxmemory', '1')
    t.after(async () => { await redis.config('SET', 'maxmemory', '0'); await redis.quit() })
    const first = await ask(gateway, 'while-full')
    assert.equal(first.headers['idempotency-status'], 'executed')
    assert.deepEqual((await ask(gateway, 'while-full')).body, first.body)
    assert.equal(witness.seen.length, 2)
  })

  test('Redis killed: everything goes on, /readyz says degraded, and Redis is used again when it is back', async (t) => {
    const witness = await startWitness()
    t.after(() => witness.close())
    const gateway = await gatewayOn(t, witness)
    await ask(gateway, 'before')
    await servers.redis.kill()
    t.after(async () => { await servers.redis.restart() })
    const replay = await ask(gateway, 'before')
    assert.equal(replay.headers['idempotent-replayed'], 'true')
    const first = await ask(gateway, 'during')
    assert.equal(first.headers['idempotency-status'], 'executed')
    assert.deepEqual((await ask(gateway, 'during')).body, first.body)
    await until(async () => (await readiness(gateway)).json.degraded.includes('redis'))
    assert.equal((await readiness(gateway)).status, 200)
    await servers.redis.restart()
    await until(async () => !(await readiness(gateway)).json.degraded.includes('redis'))
    assert.equal((await ask(gateway, 'after')).headers['idempotency-status'], 'executed')
    assert.equal(witness.seen.length, 3)
  })

  test('Postgres killed: 503 and nothing sent, stored answers still replay, and it recovers', async (t) => {
    const witness = await startWitness()
    t.after(() => witness.close())
    const gateway = await gatewayOn(t, witness)
    const stored = await ask(gateway, 'stored')
    await servers.postgres.kill()
    const refused = await ask(gateway, 'new')
    assert.equal(refused.status, 503)
    assert.equal(refused.json.code, 'store-unavailable')
    assert.ok(Number(refused.headers['retry-after']) >= 1)
    assert.deepEqual((await ask(gateway, 'stored')).body, stored.body)
    assert.equal((await call(gateway.url, '/things', { method: 'GET' })).status, 201, 'pass-through needs no store')
    assert.equal(witness.seen.filter(({ method }) => method === 'POST').length, 1)
    await servers.postgres.restart()
    await until(async () => (await ask(gateway, 'new')).status === 201)
    assert.equal(witness.seen.filter(({ method }) => method === 'POST').length, 2)
  })

  test('Postgres killed between send and settle: the real answer, marked, and after recovery the replay', async (t) => {
    const release = Promise.withResolvers<void>()
    const witness = await startWitness(async (...args) => { await release.promise; await CREATED(...args) })
    t.after(() => witness.close())
    const gateway = await gatewayOn(t, witness)
    const first = ask(gateway, 'unsettled')
    await witness.reached(1)
    await servers.postgres.kill()
    release.resolve()
    const answer = await first
    assert.equal(answer.status, 201)
    assert.equal(answer.headers['idempotency-stored'], 'false')
    assert.equal(answer.headers['idempotent-replayed'], undefined)
    const meanwhile = await ask(gateway, 'unsettled')
    assert.deepEqual(meanwhile.body, answer.body)
    assert.equal(meanwhile.headers['idempotent-replayed'], undefined)
    await servers.postgres.restart()
    await until(async () => (await ask(gateway, 'unsettled')).headers['idempotent-replayed'] === 'true')
    assert.deepEqual((await ask(gateway, 'unsettled')).body, answer.body)
    assert.equal(witness.seen.length, 1)
  })

  test('a gateway that starts before its database listens, says that it is not ready, and serves when the database comes', async (t) => {
    const witness = await startWitness()
    t.after(() => witness.close())
    const database = await servers.postgres.createDatabase('late')
    await servers.postgres.kill()
    const gateway = await startProcess(t, { config: configOf({ database, redis: servers.redis.url, upstream: witness.url }) })
    assert.equal((await readiness(gateway)).status, 503)
    assert.equal((await call(gateway.adminUrl, '/livez', { method: 'GET' })).status, 200)
    assert.equal((await ask(gateway, 'early')).status, 503)
    await servers.postgres.restart()
    await until(async () => (await readiness(gateway)).status === 200)
    assert.equal((await ask(gateway, 'early')).status, 201)
    assert.equal(witness.seen.length, 1)
  })

  // A commit that no standby acknowledged, between the first sign of life and the reading of the schemes, was the end of a start.
  test('a gateway whose database opens, and then does not say by which scheme ids are made, starts and serves when it does', async (t) => {
    const witness = await startWitness()
    t.after(() => witness.close())
    const database = await servers.postgres.createDatabase('scheme-unread')
    const config = configOf({ database, redis: servers.redis.url, upstream: witness.url })
    const earlier = await startProcess(t, { config })
    await until(async () => (await readiness(earlier)).status === 200)
    earlier.signal('SIGTERM')
    await earlier.exited
    const [gateways, schemes] = [await lockOf(database, 'gateways'), new Client({ connectionString: database })]
    t.after(() => schemes.end())
    await schemes.connect()
    const starting = startProcess(t, { config })
    await until(async () =>
      (await query(
        database,
        'select 1 from pg_locks l join pg_class c on c.oid = l.relation where not l.granted and c.relname = \'gateways\''
      )).length > 0)
    await lock(schemes, 'schemes')
    await gateways.end()
    const gateway = await starting
    await schemes.query('rollback')
    await until(async () => (await readiness(gateway)).status === 200)
    assert.equal((await ask(gateway, 'after')).status, 201)
    assert.equal(witness.seen.length, 1)
  })
})

async function lockOf (database: string, table: string): Promise<Client> {
  const client = new Client({ connectionString: database })
  await client.connect()
  await lock(client, table)
  return client
}

/** Held until the client's transaction, or its connection, ends. */
async function lock (client: Client, table: string): Promise<void> {
  await client.query('begin')
  await client.query(`lock table onceway.${table} in access exclusive mode`)
}

/** Polls: what is waited for happens inside another process. The test's own time-out is the bound. */
async function until (is: () => Promise<boolean>): Promise<void> {
  while (!await is()) await new Promise((resolve) => setTimeout(resolve, 50))
}
