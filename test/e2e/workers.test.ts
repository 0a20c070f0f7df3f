/** Several workers behind one port, as they serve, take new configurations and end. What becomes of crashes: workers-crash.test.ts. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { call } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { query } from '../harness/postgres.ts'
import { startProcess } from '../harness/process-gateway.ts'
import { slow } from '../harness/slow.ts'
import { CREATED, startWitness } from '../harness/witness.ts'
import type { Seen } from '../harness/witness.ts'
import { metricsOf, totalOf } from './metrics.ts'
import { reloads, startReloadable } from './reload-world.ts'
import {
  allGone,
  ask,
  askSettled,
  fileFor,
  instancesOf,
  NOTICED_WITHIN_MS,
  pidOf,
  pidsOf,
  readyOf,
  refusesConnections,
  startWorkers,
  untilReady,
  workersOf
} from './workers-world.ts'
import { configOf, startServers } from './world.ts'
import type { Servers } from './world.ts'

describe('several workers', needs('postgres', 'redis'), () => {
  let servers: Servers
  before(async () => { servers = await startServers() })
  after(async () => { await servers.stop() })

  for (const withRedis of [true, false]) {
    test(`each of them serves, a retry is replayed wherever it comes in, and they are counted together, on ${withRedis ? 'Redis and Postgres' : 'Postgres alone'}`, async (t) => {
      const witness = await startWitness()
      t.after(() => witness.close())
      const gateway = await startWorkers(t, servers, { upstream: witness.url, withRedis })
      assert.equal((await call(gateway.adminUrl, '/livez', { method: 'GET' })).status, 200)
      const keys = Array.from({ length: 10 }, (_, key) => `key-${key}`)
      const firsts = []
      for (const key of keys) firsts.push(await ask(gateway, key))
      assert.ok(firsts.every(({ status, headers }) => status === 201 && headers['idempotency-status'] === 'executed'))
      await eventually(() => instancesOf(gateway).size === 2, 'both have served', NOTICED_WITHIN_MS)
      // Connections go round: of an odd number of retries for each key some come to the other worker.
      for (const [index, key] of keys.entries()) {
        for (let time = 0; time < 3; time++) {
          const replay = await askSettled(gateway, key)
          assert.equal(replay.headers['idempotent-replayed'], 'true')
          assert.deepEqual(replay.body, firsts[index]?.body)
        }
      }
      assert.equal(witness.seen.length, keys.length)
      const metrics = await metricsOf(gateway.adminUrl)
      assert.deepEqual(metrics.get('onceway_requests_total{route="things",outcome="executed"}'), [keys.length])
      assert.deepEqual(metrics.get('onceway_requests_total{route="things",outcome="replayed"}'), [3 * keys.length])
      assert.deepEqual(metrics.get('onceway_workers{state="ready"}'), [2])
      assert.equal(metrics.get('onceway_build_info')?.length, 1)
      assert.equal(metrics.get('process_resident_memory_bytes')?.length, 3)
    })
  }

  test('a duplicate at another worker waits for the answer of the first', async (t) => {
    const { answer, open } = slow()
    const witness = await startWitness(answer)
    t.after(() => witness.close())
    const gateway = await startWorkers(t, servers, { upstream: witness.url, idempotency: ', inFlight: { wait: 60s }' })
    const first = ask(gateway, 'shared')
    await witness.reached(1)
    const duplicates = [ask(gateway, 'shared'), ask(gateway, 'shared'), ask(gateway, 'shared')]
    await eventually(async () => totalOf(await metricsOf(gateway.adminUrl), 'onceway_waiters') === 3, 'all of them wait', NOTICED_WITHIN_MS)
    open()
    const { body } = await first
    for (const duplicate of await Promise.all(duplicates)) assert.deepEqual([duplicate.status, duplicate.body], [201, body])
    assert.equal(witness.seen.length, 1)
    await eventually(() => instancesOf(gateway).size === 2, 'both have answered', NOTICED_WITHIN_MS)
  })

  test('SIGTERM: not ready at once, what is in flight at each of them is answered, and the primary ends last with 0', async (t) => {
    const { answer, open } = slow()
    const witness = await startWitness(answer)
    t.after(() => witness.close())
    const gateway = await startWorkers(t, servers, { upstream: witness.url, drain: '{ delay: 3s, timeout: 90s }' })
    const pids = pidsOf(gateway)
    const running = Array.from({ length: 6 }, (_, key) => ask(gateway, `running-${key}`))
    await witness.reached(6)
    gateway.signal('SIGTERM')
    await gateway.logged(({ msg }) => msg === 'draining')
    assert.deepEqual(await readyOf(gateway), [503, 'draining'])
    const duplicate = await call(gateway.url, '/things', {
      headers: { 'Idempotency-Key': 'running-0', Connection: 'keep-alive' },
      body: 'one'
    })
    assert.equal(duplicate.status, 409, 'still serving while the word spreads')
    await eventually(() =>
      gateway.logLines().filter(({ msg }) => msg === 'draining').length === 3, 'each of them drains', NOTICED_WITHIN_MS)
    await eventually(() => refusesConnections(gateway), 'no connection is taken any more', NOTICED_WITHIN_MS)
    open()
    assert.deepEqual((await Promise.all(running)).map(({ status }) => status), Array(6).fill(201))
    assert.equal(await gateway.exited, 0)
    await allGone(pids)
    assert.equal(instancesOf(gateway).size, 2)
    assert.ok(gateway.logLines().every(({ level }) => level !== 'error'), gateway.output())
  })

  test('a signal that a terminal sends to all of them is one wish: they drain', async (t) => {
    const { answer, open } = slow()
    const witness = await startWitness(answer)
    t.after(() => witness.close())
    const gateway = await startWorkers(t, servers, { upstream: witness.url })
    const pids = pidsOf(gateway)
    const running = [ask(gateway, 'one'), ask(gateway, 'two')]
    await witness.reached(2)
    for (const pid of [...pids, gateway.pid]) process.kill(pid, 'SIGINT')
    await eventually(() =>
      gateway.logLines().filter(({ msg }) => msg === 'draining').length === 3, 'each of them drains', NOTICED_WITHIN_MS)
    open()
    assert.deepEqual((await Promise.all(running)).map(({ status }) => status), [201, 201])
    assert.equal(await gateway.exited, 0)
  })

  test('a second signal ends all of them at once', async (t) => {
    const witness = await startWitness(() => {})
    t.after(() => witness.close())
    const gateway = await startWorkers(t, servers, { upstream: witness.url, drain: '{ delay: 30s, timeout: 30s }' })
    const pids = pidsOf(gateway)
    gateway.signal('SIGTERM')
    await gateway.logged(({ msg }) => msg === 'draining')
    // Longer than a repeated signal is taken for the same wish.
    await new Promise((resolve) => setTimeout(resolve, 600))
    gateway.signal('SIGTERM')
    assert.equal(await gateway.exited, 1)
    await allGone(pids)
  })

  test('SIGHUP: all of them take the file or none does, and a successor starts with what counts, whatever the file says by then', async (t) => {
    const witness = await startWitness()
    t.after(() => witness.close())
    const file = await fileFor(servers)
    const numbered = (number: number): string => file({
      upstream: witness.url,
      upstreamMore: `, requestHeaders: { X-Number: "${number}" }`
    })
    const gateway = await startReloadable(t, numbered(1))
    const numbers = async (): Promise<Set<unknown>> => {
      const before = witness.seen.length
      for (let time = 0; time < 6; time++) await call(gateway.url, '/read', { method: 'GET' })
      return new Set(witness.seen.slice(before).map(({ headers }: Seen) => headers['x-number']))
    }
    assert.deepEqual(await numbers(), new Set(['1']))
    const line = await gateway.reload(numbered(2))
    assert.deepEqual(line['changed'], ['upstreams.witness'])
    assert.deepEqual(await numbers(), new Set(['2']), 'both of them, from the line on')
    const refused = await gateway.reload(`${numbered(3)}nonsense: true\n`)
    assert.equal(refused.level, 'error')
    assert.match(String(refused['mistakes']), /nonsense/)
    const restart = await gateway.reload(numbered(3).replace('workers: 2', 'workers: 3'))
    assert.match(String(restart['mistakes']), /workers cannot change in a running process/)
    assert.deepEqual(await numbers(), new Set(['2']))
    assert.deepEqual([await reloads(gateway, 'ok'), await reloads(gateway, 'refused')], [1, 2])
    const killed = workersOf(gateway).get(1) as number
    process.kill(killed, 'SIGKILL')
    await eventually(() => workersOf(gateway).get(1) !== killed, 'it is replaced', NOTICED_WITHIN_MS)
    await untilReady(gateway)
    assert.deepEqual(await numbers(), new Set(['2']), 'the successor too, beside a file that is wrong')
    await gateway.reload(numbered(4))
    assert.deepEqual(await numbers(), new Set(['4']))
  })

  test('leases of a reload: what the first workers could not take, no successor can, and what they can, it can', async (t) => {
    const witness = await startWitness()
    t.after(() => witness.close())
    const file = await fileFor(servers)
    const leased = (lease: string): string => file({ upstream: witness.url }).replace('lease: 30s', `lease: ${lease}`)
    const gateway = await startReloadable(t, leased('4s'))
    assert.equal((await gateway.reload(leased('9s'))).level, 'info')
    const killed = await pidOf(gateway, 2)
    process.kill(killed, 'SIGKILL')
    await eventually(() => workersOf(gateway).get(2) !== killed, 'it is replaced', NOTICED_WITHIN_MS)
    assert.equal((await gateway.reload(leased('4s'))).level, 'info', 'as short as at the start')
    assert.equal((await gateway.reload(leased('3s'))).level, 'error')
    assert.equal((await ask(gateway, 'k')).status, 201)
  })

  test('the migrations of a new database run once, and every worker serves from it', async (t) => {
    const witness = await startWitness(CREATED)
    t.after(() => witness.close())
    const database = await servers.postgres.createDatabase('migrated')
    const config = configOf({ database, redis: null, upstream: witness.url, more: 'workers: 3' })
    // Two gateways at once on a database that has nothing yet: six processes.
    const gateways = await Promise.all([startProcess(t, { config }), startProcess(t, { config })])
    await Promise.all(gateways.map(untilReady))
    const rows = await query(database, 'select number, count(*)::int as times from onceway.migrations group by number')
    assert.ok(rows.length > 0 && rows.every(({ times }) => times === 1))
  })
})
