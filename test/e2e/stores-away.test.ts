/** Stores that are away, at the start and later: what the metrics, /readyz and the log say, and how often. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { call } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { startProcess } from '../harness/process-gateway.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { startWitness } from '../harness/witness.ts'
import type { Witness } from '../harness/witness.ts'
import { metricsOf } from './metrics.ts'
import type { Metrics } from './metrics.ts'
import { configOf, startServers } from './world.ts'
import type { Servers } from './world.ts'

/** It shares the processors with other tests. */
const LONGEST_MS = 60_000
const TRIES = 6

const up = (store: string): string => `onceway_store_up{store="${store}"}`
const errorsOf = (store: string, operation: string): string => `onceway_store_errors_total{store="${store}",operation="${operation}"}`

async function readiness ({ adminUrl }: ProcessGateway): Promise<Record<string, unknown>> {
  return (await call(adminUrl, '/readyz', { method: 'GET' })).json as Record<string, unknown>
}

function valueOf (metrics: Metrics, series: string): number | undefined {
  return metrics.get(series)?.[0]
}

async function comesTo (gateway: ProcessGateway, expected: Readonly<Record<string, number>>): Promise<void> {
  let found: unknown
  await eventually(async () => {
    const metrics = await metricsOf(gateway.adminUrl)
    found = Object.fromEntries(Object.keys(expected).map((series) => [series, valueOf(metrics, series)]))
    return JSON.stringify(found) === JSON.stringify(expected)
  }, () => `it is ${JSON.stringify(found)}, not ${JSON.stringify(expected)}`, LONGEST_MS)
}

/** So many tries have failed. */
async function triedInVain (gateway: ProcessGateway, series: string): Promise<void> {
  await eventually(async () => (valueOf(await metricsOf(gateway.adminUrl), series) ?? 0) >= TRIES, `${series} is ${TRIES}`, LONGEST_MS)
}

const saying = (gateway: ProcessGateway, what: RegExp): number => gateway.logLines().filter(({ msg }) => what.test(msg ?? '')).length
const warnings = (gateway: ProcessGateway): string[] =>
  gateway.logLines().filter(({ level }) => level === 'warn' || level === 'error').map(({ msg, error }) => `${msg}: ${String(error)}`)

describe('stores that are away', needs('own postgres', 'own redis'), () => {
  let servers: Servers
  let witness: Witness
  before(async () => { [servers, witness] = await Promise.all([startServers(), startWitness()]) })
  after(async () => { await Promise.all([servers.stop(), witness.close()]) })

  test('both are away at the start: metrics and /readyz say so from the first moment, and when they are there, are lost and come back', async (t) => {
    const database = await servers.postgres.createDatabase('away')
    await Promise.all([servers.postgres.kill(), servers.redis.kill()])
    t.after(async () => { await Promise.all([servers.postgres.restart(), servers.redis.restart()]) })
    const gateway = await startProcess(t, { config: configOf({ database, redis: servers.redis.url, upstream: witness.url }) })
    const metrics = await metricsOf(gateway.adminUrl)
    assert.deepEqual(
      [up('postgres'), up('redis'), 'onceway_redis_breaker_open', errorsOf('redis', 'connect')].map((series) => valueOf(metrics, series)),
      [0, 0, 1, 0]
    )
    assert.equal(metrics.has(up('sqlite')), false, 'only those that are configured')
    assert.ok((valueOf(metrics, errorsOf('postgres', 'open')) ?? 0) > 0, 'the try that failed is counted')
    const { status, reason } = await readiness(gateway)
    assert.equal(status, 'starting')
    assert.match(
      String(reason),
      new RegExp(`^postgres at 127\\.0\\.0\\.1:${servers.postgres.port}, .* cannot be reached \\(ECONNREFUSED\\)$`)
    )
    await triedInVain(gateway, errorsOf('postgres', 'open'))
    assert.deepEqual(warnings(gateway), ['database not reached; trying again: ECONNREFUSED'], 'said once, whatever was tried')
    assert.ok(!gateway.output().includes(new URL(database).password))

    await servers.postgres.restart()
    await comesTo(gateway, { [up('postgres')]: 1, [up('redis')]: 0, onceway_redis_breaker_open: 1 })
    await eventually(async () =>
      (valueOf(await metricsOf(gateway.adminUrl), errorsOf('redis', 'connect')) ?? 0) > 0, 'a connection to Redis has failed', LONGEST_MS)
    await servers.redis.restart()
    await comesTo(gateway, { [up('postgres')]: 1, [up('redis')]: 1, onceway_redis_breaker_open: 0 })
    assert.equal(saying(gateway, /^database reached$/), 1)
    assert.equal(saying(gateway, /^Redis cannot be reached/), 1)
    assert.equal(saying(gateway, /^Redis is in use/), 1)

    await Promise.all([servers.postgres.kill(), servers.redis.kill()])
    await comesTo(gateway, { [up('postgres')]: 0, [up('redis')]: 0, onceway_redis_breaker_open: 1 })
    await Promise.all([servers.postgres.restart(), servers.redis.restart()])
    await comesTo(gateway, { [up('postgres')]: 1, [up('redis')]: 1, onceway_redis_breaker_open: 0 })
  })

  test('a Redis whose name does not resolve is tried again and again, and said once', async (t) => {
    const database = await servers.postgres.createDatabase('nameless')
    const gateway = await startProcess(t, {
      config: configOf({ database, redis: 'redis://:of-the-test@nowhere.invalid:6379', upstream: witness.url })
    })
    await comesTo(gateway, { [up('postgres')]: 1, [up('redis')]: 0, onceway_redis_breaker_open: 1 })
    await triedInVain(gateway, errorsOf('redis', 'connect'))
    const said = warnings(gateway).filter((line) => line.startsWith('Redis'))
    assert.equal(said.length, 1, said.join('\n'))
    assert.match(said[0] ?? '', /ENOTFOUND|EAI_AGAIN/)
    assert.ok(!gateway.output().includes('of-the-test@'))
  })

  test('a database that is lost while the gateway serves is said once by each that needs it, and once when it is back', async (t) => {
    const database = await servers.postgres.createDatabase('lost-later')
    const gateway = await startProcess(t, { config: configOf({ database, redis: null, upstream: witness.url }) })
    await comesTo(gateway, { [up('postgres')]: 1 })
    await servers.postgres.kill()
    t.after(() => servers.postgres.restart())
    await triedInVain(gateway, errorsOf('postgres', 'beat'))
    const heartbeats = gateway.logLines().filter(({ background }) => background === 'heartbeat')
    // The connection that stood breaks in its own way, and the next ones are refused: two causes would be said a minute apart.
    assert.equal(heartbeats.length, 1, JSON.stringify(heartbeats))
    const services = new Set(gateway.logLines().flatMap(({ background }) => background === undefined ? [] : [background]))
    assert.ok(warnings(gateway).length <= services.size, warnings(gateway).join('\n'))
    await servers.postgres.restart()
    await comesTo(gateway, { [up('postgres')]: 1 })
    await gateway.logged(({ background, msg }) => background === 'heartbeat' && msg === 'background rounds succeed again')
  })

  test('workers: the store is up when all of them reach it, in one series', async (t) => {
    const database = await servers.postgres.createDatabase('away-workers')
    await servers.postgres.kill()
    t.after(() => servers.postgres.restart())
    const gateway = await startProcess(t, { config: configOf({ database, redis: null, upstream: witness.url, more: 'workers: 2' }) })
    await comesTo(gateway, { onceway_store_up: 0, [up('postgres')]: 0 })
    const { status, reason } = await readiness(gateway)
    assert.equal(status, 'starting')
    assert.match(String(reason), /cannot be reached \(ECONNREFUSED\)$/)
    await servers.postgres.restart()
    await comesTo(gateway, { onceway_store_up: 1, [up('postgres')]: 1 })
    assert.equal((await metricsOf(gateway.adminUrl)).get('onceway_store_up')?.length, 1)
  })
})

test('a database whose name does not resolve is tried again and again, and said once', async (t) => {
  const gateway = await startProcess(t, {
    config: configOf({ database: 'postgres://onceway:of-the-test@nowhere.invalid/app', redis: null, upstream: 'http://127.0.0.1:9' })
  })
  await triedInVain(gateway, errorsOf('postgres', 'open'))
  const said = warnings(gateway)
  assert.equal(said.length, 1, said.join('\n'))
  assert.match(said[0] ?? '', /^database not reached; trying again: (ENOTFOUND|EAI_AGAIN)$/)
  assert.match(
    String((await readiness(gateway)).reason),
    /^postgres at nowhere\.invalid:5432, .* cannot be reached \((ENOTFOUND|EAI_AGAIN)\)$/
  )
  assert.ok(!gateway.output().includes('of-the-test'))
})

test('the embedded store has its own series, and no other store has one', async (t) => {
  const gateway = await startProcess(t, { args: ['--port', '0', '--upstream', 'http://127.0.0.1:9'], env: { ONCEWAY_ADMIN_PORT: '0' } })
  await comesTo(gateway, { onceway_store_up: 1, [up('sqlite')]: 1, [errorsOf('sqlite', 'settle')]: 0 })
})
