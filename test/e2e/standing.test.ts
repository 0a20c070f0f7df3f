/** Which promise holds, as an operator reads it: in the log, on /readyz and in a metric, of one process and of several. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { call } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { query, startPostgres } from '../harness/postgres.ts'
import type { PostgresServer } from '../harness/postgres.ts'
import { startProcess } from '../harness/process-gateway.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { startPair } from '../harness/replication.ts'
import { startRedis } from '../harness/redis.ts'
import { openPostgres } from '../../src/store/postgres/open.ts'
import { optionsOf } from '../store/postgres/world.ts'
import { metricsOf } from './metrics.ts'
import { configOf } from './world.ts'

const NOBODY = 'http://127.0.0.1:9'
const NOTICED_WITHIN_MS = 30_000

interface Said { readonly promise?: string, readonly reasons?: readonly string[], readonly remarks?: readonly string[] }

async function standingOf (gateway: ProcessGateway): Promise<Said> {
  let said: Said = {}
  await eventually(async () => {
    said = (await call(gateway.adminUrl, '/readyz', { method: 'GET' })).json as Said
    return said.promise !== undefined
  }, 'it says which promise holds', NOTICED_WITHIN_MS)
  const { promise = '', reasons = [], remarks = [] } = said
  return { promise, reasons, remarks }
}

describe('which promise holds', needs('own postgres', 'own redis'), () => {
  let sound: PostgresServer
  let weak: PostgresServer
  before(async () => {
    [sound, weak] = await Promise.all([
      startPostgres(),
      startPostgres({ settings: { fsync: 'off', full_page_writes: 'off', synchronous_commit: 'off' } })
    ])
  })
  after(async () => { await Promise.all([sound.stop(), weak.stop()]) })

  const gatewayOn = async (t: TestContext, server: PostgresServer, redis: string | null = null, more = ''): Promise<ProcessGateway> =>
    startProcess(t, { config: configOf({ database: await server.createDatabase('standing'), redis, upstream: NOBODY, more }) })

  test('on a database that keeps what it acknowledges it is strict', async (t) => {
    const gateway = await gatewayOn(t, sound)
    assert.deepEqual(await standingOf(gateway), { promise: 'strict', reasons: [], remarks: [] })
    const line = await gateway.logged(({ msg }) => msg === 'the promise is strict')
    assert.deepEqual([line.level, line['promise'], line['reasons']], ['info', 'strict', []])
    const metrics = await metricsOf(gateway.adminUrl)
    assert.deepEqual([metrics.get('onceway_promise{promise="strict"}'), metrics.get('onceway_promise{promise="weakened"}')], [[1], [0]])
    assert.equal(metrics.get('onceway_promise_weakened'), undefined)
  })

  test('on one that may forget it is weakened, once in the log, with what to do about each reason; workers say it as one gateway', async (t) => {
    const gateway = await gatewayOn(t, weak, null, 'workers: 2')
    const reasons = ['fsync-off', 'full-page-writes-off', 'synchronous-commit-off']
    assert.deepEqual(await standingOf(gateway), { promise: 'weakened', reasons, remarks: [] })
    const line = await gateway.logged(({ promise }) => promise === 'weakened')
    assert.deepEqual([line.level, line['reasons']], ['warn', reasons])
    for (const setting of ['fsync = on', 'full_page_writes = on', 'synchronous_commit is off']) {
      assert.ok(line.msg?.includes(setting), line.msg)
    }
    await eventually(async () =>
      (await metricsOf(gateway.adminUrl)).has('onceway_promise{promise="weakened"}'), 'it is in a metric', NOTICED_WITHIN_MS)
    assert.equal(gateway.logLines().filter(({ promise }) => promise === 'weakened').length, 1, 'one of them logs it')
    const metrics = await metricsOf(gateway.adminUrl)
    assert.deepEqual(metrics.get('onceway_promise{promise="weakened"}'), [1], 'of two workers the largest, not the sum')
    for (const reason of reasons) assert.deepEqual(metrics.get(`onceway_promise_weakened{reason="${reason}"}`), [1])
  })

  test('the embedded store is strict, because it sets its own settings', async (t) => {
    const config = `
version: 1
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
upstreams: { nobody: { url: "${NOBODY}" } }
routes: [{ name: things, match: { path: "/*" }, upstream: nobody, idempotency: { scope: public } }]
`
    const gateway = await startProcess(t, { config })
    assert.equal((await standingOf(gateway)).promise, 'strict')
  })

  test('a Redis that evicts is a remark: it costs round trips, and the row decides', async (t) => {
    const redis = await startRedis({ args: ['--maxmemory', '64mb', '--maxmemory-policy', 'allkeys-lru'] })
    t.after(() => redis.stop())
    const gateway = await gatewayOn(t, sound, redis.url)
    await eventually(async () =>
      (await standingOf(gateway)).remarks?.includes('redis-evicts') === true, 'Redis is remarked on', NOTICED_WITHIN_MS)
    assert.equal((await standingOf(gateway)).promise, 'strict')
    await gateway.logged(({ remarks }) => Array.isArray(remarks) && remarks.includes('redis-evicts'))
  })
})

describe('which promise holds beside a standby', needs('own postgres', 'postgres tools'), () => {
  test('an asynchronous standby that is away for a moment is none that is gone: not for a gateway that runs, nor for one that starts', async (t) => {
    const pair = await startPair({ synchronous: false })
    t.after(() => pair.stop())
    // As a role that may see nothing of others but what everybody may.
    const url = new URL(await pair.createDatabase('beside'))
    await query(pair.primary().url, 'create role plain login password \'plain\'')
    await query(pair.primary().url, `alter database "${url.pathname.slice(1)}" owner to plain`)
    Object.assign(url, { username: 'plain', password: 'plain' })
    const gateway = async (): Promise<ProcessGateway> => startProcess(t, {
      config: configOf({ database: url.href, redis: null, upstream: NOBODY, more: '' })
    })
    const weakened = { promise: 'weakened', reasons: ['asynchronous-standby'], remarks: [] }
    const before = await gateway()
    assert.deepEqual(await standingOf(before), weakened)
    await pair.standby()?.kill()
    await eventually(async () => (await query(pair.primary().url, 'select from pg_stat_replication')).length === 0, 'the standby is away')
    assert.deepEqual(await standingOf(await gateway()), weakened, 'its slot waits for it')
    await query(pair.primary().url, 'select pg_drop_replication_slot(slot_name) from pg_replication_slots')
    assert.deepEqual((await standingOf(await gateway())).promise, 'strict', 'there is nothing to be seen of it any more')
  })

  test('with one that each commit waits for it is strict, there or away; with another one beside it, it is not', async (t) => {
    const pair = await startPair({ synchronous: true })
    t.after(() => pair.stop())
    const database = await pair.createDatabase('beside')
    const standing = async (): Promise<Said> => standingOf(await startProcess(t, {
      config: configOf({ database, redis: null, upstream: NOBODY, more: '' })
    }))
    assert.equal((await standing()).promise, 'strict')
    // Another standby's, which is away.
    await query(pair.primary().url, 'select pg_create_physical_replication_slot(\'another\')')
    assert.deepEqual((await standing()).reasons, ['asynchronous-standby'])
  })

  test('a standby without a slot is remembered by the process that has seen it, until there is another primary', async (t) => {
    const pair = await startPair({ synchronous: false })
    t.after(() => pair.stop())
    const store = await openPostgres(optionsOf(await pair.createDatabase('beside')))
    t.after(() => store.close())
    assert.deepEqual((await store.durability()).reasons, ['asynchronous-standby'])
    await pair.standby()?.kill()
    await eventually(async () => (await query(pair.primary().url, 'select from pg_stat_replication')).length === 0, 'the standby is away')
    await query(pair.primary().url, 'select pg_drop_replication_slot(slot_name) from pg_replication_slots')
    assert.deepEqual((await store.durability()).reasons, ['asynchronous-standby'])
  })
})
