/** Redis and a database that no longer belong together: a copy of the database beside the original, and a Redis out of the past. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { Redis } from 'ioredis'
import { openPostgres } from '../../src/store/postgres/open.ts'
import { call } from '../harness/call.ts'
import type { Called } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { query } from '../harness/postgres.ts'
import type { PostgresServer } from '../harness/postgres.ts'
import { startProcess } from '../harness/process-gateway.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { snapshotOf } from '../harness/replication.ts'
import { startWitness } from '../harness/witness.ts'
import type { Witness } from '../harness/witness.ts'
import { metricsOf, totalOf } from './metrics.ts'
import { configOf, startServers } from './world.ts'
import type { Servers } from './world.ts'

const ask = (gateway: ProcessGateway, key: string): Promise<Called> => call(gateway.url, '/things', {
  headers: { 'Idempotency-Key': key },
  body: 'one'
})

const withRedis = async (gateway: ProcessGateway): Promise<boolean> => {
  const { json } = await call(gateway.adminUrl, '/readyz', { method: 'GET' })
  return json.status !== 'starting' && !json.degraded.includes('redis')
}

async function witnessOf (t: TestContext, name: string): Promise<Witness> {
  const witness = await startWitness((_seen, response, _socket, count) => { response.writeHead(201).end(`${name} ${count}`) })
  t.after(() => witness.close())
  return witness
}

describe('a copy of the database', needs('own postgres', 'own redis', 'postgres tools'), () => {
  let servers: Servers
  before(async () => { servers = await startServers() })
  after(async () => { await servers.stop() })

  const gatewayOn = (t: TestContext, database: string, { url }: Witness): Promise<ProcessGateway> =>
    startProcess(t, { config: configOf({ database, redis: servers.redis.url, upstream: url }) })

  async function production (
    t: TestContext
  ): Promise<{ readonly database: string, readonly witness: Witness, readonly gateway: ProcessGateway }> {
    const [database, witness] = [await servers.postgres.createDatabase('production'), await witnessOf(t, 'production')]
    const gateway = await gatewayOn(t, database, witness)
    await eventually(() => withRedis(gateway), 'production uses Redis')
    return { database, witness, gateway }
  }

  /** Each has its own answer, and has asked its own upstream. */
  async function assertApart (one: ProcessGateway, other: ProcessGateway): Promise<void> {
    for (const key of ['a', 'b', 'c']) {
      const [first, second] = key === 'b' ? [other, one] : [one, other]
      const [mine, theirs] = [await ask(first, key), await ask(second, key)]
      assert.deepEqual([mine.headers['idempotency-status'], theirs.headers['idempotency-status']], ['executed', 'executed'], key)
    }
  }

  test('under another name on the same server gets an installation of its own, and says so once', async (t) => {
    const { database, witness, gateway } = await production(t)
    const name = new URL(database).pathname.slice(1)
    gateway.signal('SIGTERM')
    await gateway.exited
    await query(servers.postgres.url, `create database "${name}_copy" template "${name}"`)
    const again = await gatewayOn(t, database, witness)
    const copies = await Promise.all(
      [1, 2].map(async () => gatewayOn(t, database.replace(name, `${name}_copy`), await witnessOf(t, 'staging')))
    )
    const [copy] = copies as [ProcessGateway, ProcessGateway]
    for (const each of [again, ...copies]) await eventually(() => withRedis(each), 'all of them use Redis')
    await assertApart(again, copy)
    assert.equal(
      (await ask(copies[1] as ProcessGateway, 'a')).headers['idempotency-status'],
      'replayed',
      'the two that share the copy share its answers'
    )
    assert.deepEqual([again, ...copies].map(({ output }) => output().split('this database is a copy').length - 1).sort(), [0, 0, 1])
  })

  test('of the whole server, with every name alike, stays away from the Redis that production uses', async (t) => {
    const { database, gateway } = await production(t)
    const server: PostgresServer = await snapshotOf(servers.postgres.port)
    t.after(() => server.stop())
    const url = new URL(database)
    url.port = String(server.port)
    const copy = await gatewayOn(t, url.href, await witnessOf(t, 'staging'))
    await eventually(() => copy.output().includes('a gateway of another database uses this Redis'), 'the copy says what it has found')
    await assertApart(gateway, copy)
    assert.equal(await withRedis(copy), false)
    assert.equal(totalOf(await metricsOf(copy.adminUrl), 'onceway_redis_breaker_open'), 1)
    assert.equal(await withRedis(gateway), true, 'production is not disturbed')
    assert.doesNotMatch(gateway.output(), /another database/)
  })
})

describe('Redis out of the past', needs('own postgres', 'own redis'), () => {
  let servers: Servers
  before(async () => { servers = await startServers() })
  after(async () => { await servers.stop() })

  test('an answer that an operator has deleted since Redis was saved is not replayed, and does not stand in front', async (t) => {
    const [database, witness] = [await servers.postgres.createDatabase('past'), await witnessOf(t, 'upstream')]
    const config = configOf({ database, redis: servers.redis.url, upstream: witness.url })
    const [one, two] = await Promise.all([startProcess(t, { config }), startProcess(t, { config })])
    for (const each of [one, two]) await eventually(() => withRedis(each), 'both use Redis')
    assert.equal((await ask(one, 'K')).text, 'upstream 1')
    const redis = new Redis(servers.redis.url)
    redis.on('error', () => {})
    t.after(() => { redis.disconnect() })
    await eventually(async () => (await kindsIn(redis)).includes('G'), 'its copy stands in Redis')
    await redis.call('SAVE')
    const store = await openPostgres({ url: database, schema: 'onceway', prepared: true, migrate: 'check', claimTimeoutMs: 2_000 })
    t.after(() => store.close())
    const [row] = await store.list({ route: 'things', limit: 1 })
    assert.ok(row)
    assert.equal((await store.expire(row, { action: 'delete', who: 'ada', why: 'a wrong answer' })).kind, 'done')
    await eventually(async () => (await store.look(row.id))?.past !== false, 'the record is past')
    // Redis still has it: whoever deletes may not have reached Redis.
    assert.ok((await kindsIn(redis)).includes('G'))
    assert.equal((await ask(one, 'K')).text, 'upstream 2')
    await servers.redis.kill()
    await servers.redis.restart()
    assert.deepEqual((await kindsIn(redis)).filter((kind) => kind === 'G').length, 1, 'the old copy is back')
    for (const each of [one, two]) await eventually(() => withRedis(each), 'both use Redis again')
    for (const each of [two, one]) assert.equal((await ask(each, 'K')).text, 'upstream 2')
    assert.equal(witness.seen.length, 2)
    await eventually(async () => totalOf(await metricsOf(two.adminUrl), 'onceway_redis_breaker_open') === 0, 'Redis is in use')
  })
})

/** The kinds of all values but beats. */
async function kindsIn (redis: Redis): Promise<string[]> {
  const keys = (await redis.keys('*')).filter((key) => !key.includes(':mirror:'))
  return Promise.all(keys.map(async (key) => redis.getrange(key, 0, 0)))
}
