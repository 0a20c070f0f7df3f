/** Workers and primaries that die, stand still or cannot start: who takes their place, and what clients are told. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { installAudit, readRows } from '../chaos/audit.ts'
import { configOf as chaosConfigOf } from '../chaos/routes.ts'
import { call } from '../harness/call.ts'
import { makeDirectory } from '../harness/directory.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { startPostgres } from '../harness/postgres.ts'
import { bareEnv, MAIN, startProcess } from '../harness/process-gateway.ts'
import { slow } from '../harness/slow.ts'
import { startWitness } from '../harness/witness.ts'
import { JudgedLoad, startJudgedWitness } from './judged-load.ts'
import { metricsOf, totalOf } from './metrics.ts'
import {
  allGone,
  ask,
  askSettled,
  fileFor,
  NOTICED_WITHIN_MS,
  pidOf,
  pidsOf,
  readyOf,
  standStill,
  startWorkers,
  untilReady,
  workersOf
} from './workers-world.ts'
import { configOf, startServers } from './world.ts'
import type { Servers } from './world.ts'

const KILLS = 3
const CLIENTS = 8
/** Requests that are answered between two kills. */
const PROGRESS = 60

describe('workers that die', needs('postgres', 'redis'), () => {
  let servers: Servers
  before(async () => { servers = await startServers() })
  after(async () => { await servers.stop() })

  test('kill -9 under load: each is replaced, every promise is kept, no counter falls, and it is ready again', async (t) => {
    const witness = await startJudgedWitness()
    t.after(() => witness.close())
    const database = await servers.postgres.createDatabase('killed')
    const config = `${chaosConfigOf({ database, redis: `url: "${servers.redis.url}"`, upstream: witness.url, connections: 64 }).replace('level: warn', 'level: info')}\nworkers: 2\n`
    const gateway = await startProcess(t, { config })
    await untilReady(gateway)
    await installAudit(database)
    const load = new JudgedLoad(gateway.url, CLIENTS)
    t.after(() => load.abandon())
    const counts: number[] = []
    const count = async (): Promise<void> => { counts.push(totalOf(await metricsOf(gateway.adminUrl), 'onceway_requests_total')) }
    for (let kill = 0; kill < KILLS; kill++) {
      const before = load.ledger.kinds.get('stored') ?? 0
      await eventually(() => (load.ledger.kinds.get('stored') ?? 0) >= before + PROGRESS, 'the load goes on', NOTICED_WITHIN_MS)
      await count()
      const number = 1 + kill % 2
      const pid = workersOf(gateway).get(number) as number
      process.kill(pid, 'SIGKILL')
      await gateway.logged((line) => line.msg === 'worker ended' && line['pid'] === pid)
      await count()
      await eventually(
        () => workersOf(gateway).get(number) !== pid,
        () => `it is not replaced:\n${gateway.output().split('\n').filter((line) => line.includes('"worker')).join('\n')}`,
        NOTICED_WITHIN_MS
      )
      await untilReady(gateway)
      await count()
    }
    await load.stop()
    await eventually(async () =>
      (await readRows(database, "state = 'claimed'")).length === 0, 'leases of the dead have ended', NOTICED_WITHIN_MS)
    await count()
    const { found, executions } = await load.verdict(database, witness.lines)
    assert.deepEqual([found, load.ledger.strange], [[], []])
    assert.deepEqual(counts, counts.toSorted((one, other) => one - other))
    const metrics = await metricsOf(gateway.adminUrl)
    assert.deepEqual([metrics.get('onceway_workers_ended_total'), metrics.get('onceway_workers{state="ready"}')], [[KILLS], [2]])
    t.diagnostic(`${load.ledger.requests} requests, ${executions} executions, answers ${JSON.stringify(Object.fromEntries(load.ledger.kinds))}, ${load.ledger.answers.get('cut') ?? 0} cut`)
  })

  test('kill -9 of the primary: its workers answer what they have and end; nobody serves for ever', async (t) => {
    const { answer, open } = slow()
    const witness = await startWitness(answer)
    t.after(() => witness.close())
    const gateway = await startWorkers(t, servers, { upstream: witness.url })
    const pids = pidsOf(gateway)
    const running = Array.from({ length: 4 }, (_, key) => ask(gateway, `running-${key}`))
    await witness.reached(4)
    gateway.signal('SIGKILL')
    assert.equal(await gateway.exited, 'SIGKILL')
    await eventually(() => gateway.logLines().filter(({ msg }) => msg === 'draining').length === 2, 'both of them drain', NOTICED_WITHIN_MS)
    open()
    assert.deepEqual((await Promise.all(running)).map(({ status }) => status), [201, 201, 201, 201])
    await allGone(pids)
  })

  test('one that stands still: the other serves, probes and metrics say so without waiting for it, and it goes on', async (t) => {
    const witness = await startWitness()
    t.after(() => witness.close())
    const gateway = await startWorkers(t, servers, { upstream: witness.url })
    for (const key of ['a', 'b', 'c', 'd']) await ask(gateway, key)
    assert.equal(totalOf(await metricsOf(gateway.adminUrl), 'onceway_requests_total'), 4)
    const pid = workersOf(gateway).get(1) as number
    await standStill(pid)
    t.after(() => { try { process.kill(pid, 'SIGCONT') } catch {} })
    assert.deepEqual(await readyOf(gateway), [200, 'degraded'])
    const metrics = await metricsOf(gateway.adminUrl)
    assert.deepEqual([metrics.get('onceway_workers{state="ready"}'), metrics.get('onceway_workers{state="silent"}')], [[1], [1]])
    assert.equal(totalOf(metrics, 'onceway_requests_total'), 4, 'what it had counted is still counted')
    // It has taken one connection at most; the others come to the one that answers.
    const answers = Array.from({ length: 5 }, (_, key) => ask(gateway, `during-${key}`))
    let answered = 0
    for (const answer of answers) void answer.then(() => { answered++ })
    await eventually(() => answered >= 4, 'the other one serves', NOTICED_WITHIN_MS)
    process.kill(pid, 'SIGCONT')
    // What comes in behind a stall may be shed; the retry is served.
    for (const { status, text } of await Promise.all(answers)) assert.ok(status === 201 || text.includes('overloaded'), text)
    await untilReady(gateway)
    for (const key of answers.keys()) assert.equal((await askSettled(gateway, `during-${key}`)).status, 201)
    assert.equal(witness.seen.length, 9)
  })

  test('a connection that was on its way to a worker as it died is closed: its client does not wait for nobody', async (t) => {
    const witness = await startWitness()
    t.after(() => witness.close())
    const gateway = await startWorkers(t, servers, { upstream: witness.url })
    const pid = workersOf(gateway).get(1) as number
    await standStill(pid)
    const asked = Array.from({ length: 5 }, (_, key) => ask(gateway, `on-its-way-${key}`).then(({ status }) => status, () => 'cut'))
    let done = 0
    for (const answer of asked) void answer.then(() => { done++ })
    await eventually(() => done === 4, 'one of them is with the one that stands still', NOTICED_WITHIN_MS)
    process.kill(pid, 'SIGKILL')
    await eventually(() => done === 5, 'it is told', NOTICED_WITHIN_MS)
    assert.deepEqual((await Promise.all(asked)).toSorted(), [201, 201, 201, 201, 'cut'])
    assert.equal(witness.seen.length, 4)
  })

  test('strict readiness: a missing worker is not ready', async (t) => {
    const witness = await startWitness()
    t.after(() => witness.close())
    const config = (await fileFor(servers))({ upstream: witness.url }).replace('admin: { ', 'admin: { readiness: strict, ')
    const gateway = await startProcess(t, { config })
    await untilReady(gateway)
    const pid = await pidOf(gateway, 2)
    await standStill(pid)
    assert.deepEqual(await readyOf(gateway), [503, 'degraded'])
    process.kill(pid, 'SIGKILL')
    await untilReady(gateway)
    assert.equal((await call(gateway.adminUrl, '/livez', { method: 'GET' })).status, 200)
  })

  test('a crash loop at the start is given up with exit 1, and says so', async (t) => {
    const witness = await startWitness()
    t.after(() => witness.close())
    const { code, stderr } = await serve(t, (await fileFor(servers))({ upstream: witness.url }), (pid) => { process.kill(pid, 'SIGKILL') })
    assert.equal(code, 1)
    assert.match(stderr, /^onceway: workers end as soon as they have started, 6 times in a row: the last one with SIGKILL\n$/)
  })

  test('a port in use: the sentence and the exit code of one process, said once', async (t) => {
    const taken = createServer()
    taken.listen(0, '127.0.0.1')
    await once(taken, 'listening')
    t.after(() => { taken.close() })
    const { port } = taken.address() as AddressInfo
    const file = (await fileFor(servers))({ upstream: 'http://127.0.0.1:1' })
    const guarded = await serve(t, file.replace('listen: { host: 127.0.0.1, port: 0 }', `listen: { host: 127.0.0.1, port: ${port} }`))
    assert.deepEqual(
      [guarded.code, guarded.stderr],
      [1, `onceway: port ${port} on 127.0.0.1 is in use by another process; choose another for the guarded listener with --port, ONCEWAY_LISTEN_PORT or listen.port\n`]
    )
    const admin = await serve(t, file.replace('admin: { host: 127.0.0.1, port: 0 }', `admin: { host: 127.0.0.1, port: ${port} }`))
    assert.deepEqual(
      [admin.code, admin.stderr],
      [1, `onceway: port ${port} on 127.0.0.1 is in use by another process; choose another for the admin port with --admin-port, ONCEWAY_ADMIN_PORT or admin.port\n`]
    )
  })
})

describe('a start that no worker can make', needs('own postgres'), () => {
  test('a wrong password: the sentence and the exit code of one process, said once', async (t) => {
    const postgres = await startPostgres()
    t.after(() => postgres.stop())
    const url = new URL(postgres.url)
    url.password = 'wrong-password'
    const file = configOf({ database: url.href, redis: null, upstream: 'http://127.0.0.1:1' })
    const alone = await serve(t, file)
    const several = await serve(t, `${file}\nworkers: 3\n`)
    assert.equal(alone.code, 1)
    assert.match(alone.stderr, /^onceway: [^\n]*password[^\n]*\n$/)
    assert.deepEqual([several.code, several.stderr], [alone.code, alone.stderr])
  })
})

test('the embedded store has one worker: the configuration says so, with exit 2, and auto is one process', async (t) => {
  const witness = await startWitness()
  t.after(() => witness.close())
  const file = `version: 1\nlisten: { host: 127.0.0.1, port: 0 }\nadmin: { host: 127.0.0.1, port: 0 }\nupstreams: { a: { url: "${witness.url}" } }\nroutes: [{ match: { path: "/*" }, upstream: a }]\n`
  const { code, stderr } = await serve(t, `${file}workers: 2\n`)
  assert.equal(code, 2)
  assert.match(stderr, /onceway\.yaml:6:10: workers: must be 1 without Postgres/)
  const gateway = await startProcess(t, { config: `${file}workers: auto\n` })
  assert.equal((await call(gateway.url, '/things', { method: 'GET' })).status, 201)
  assert.deepEqual(pidsOf(gateway), [])
})

/** Runs it to its end. `onWorker`: what is done to each worker process. */
async function serve (
  t: TestContext,
  config: string,
  onWorker: (pid: number) => void = () => {}
): Promise<{ code: number | null, stderr: string }> {
  const directory = makeDirectory('workers')
  t.after(() => { directory.remove() })
  const file = join(directory.path, 'onceway.yaml')
  writeFileSync(file, config)
  const child = spawn(
    process.execPath,
    [MAIN, 'serve', '--config', file, '--data-dir', join(directory.path, 'store')],
    { stdio: ['ignore', 'pipe', 'pipe'], env: bareEnv() }
  )
  t.after(() => { child.kill('SIGKILL') })
  let [stdout, stderr] = ['', '']
  const seen = new Set<number>()
  child.stdout.on('data', (chunk: Buffer) => {
    stdout += chunk.toString()
    for (const [, pid] of stdout.matchAll(/"pid":(\d+),"msg":"worker starts"/g)) {
      if (!seen.has(Number(pid))) onWorker(Number(pid))
      seen.add(Number(pid))
    }
  })
  child.stderr.on('data', (chunk: Buffer) => { stderr += chunk.toString() })
  const [code] = await once(child, 'close') as [number | null]
  return { code, stderr }
}
