/** The arbiter's clock steps while gateways serve: of a database that several share, and of the machine of an embedded store. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL, fileURLToPath } from 'node:url'
import { after, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { call } from '../harness/call.ts'
import { QUICKEST } from '../harness/directory.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { startPostgres } from '../harness/postgres.ts'
import type { PostgresServer } from '../harness/postgres.ts'
import { startProcess } from '../harness/process-gateway.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { steppingDatabase } from '../harness/stepping-postgres.ts'
import { CREATED, startWitness } from '../harness/witness.ts'
import type { Witness } from '../harness/witness.ts'
import { fileIn, say } from '../cli/world.ts'
import { metricsOf, totalOf } from './metrics.ts'
import { configOf } from './world.ts'

const DAY_MS = 86_400_000
const MOVED_CLOCK = pathToFileURL(fileURLToPath(new URL('../harness/moved-clock.ts', import.meta.url))).href

interface Answer { readonly status: number, readonly headers: Readonly<Record<string, unknown>> }

const ask = async (gateway: { readonly url: string }, key: string, path = '/things') => call(gateway.url, path, {
  headers: { 'Idempotency-Key': key },
  body: 'one'
})
const outcomeOf = ({ headers }: Answer): unknown => headers['idempotency-status']

async function readiness ({ adminUrl }: ProcessGateway): Promise<{ readonly status: string, readonly degraded: readonly string[] }> {
  return (await call(adminUrl, '/readyz', { method: 'GET' })).json as { status: string, degraded: string[] }
}

async function untilAhead (gateway: ProcessGateway, is: boolean): Promise<void> {
  await eventually(
    async () => (await readiness(gateway)).degraded.includes('clock') === is,
    `its clock is ${is ? '' : 'not '}called ahead`,
    30_000
  )
}

describe('the clock of the database steps ahead', needs('postgres'), () => {
  let server: Promise<PostgresServer> | null = null
  after(async () => { await (await server)?.stop() })

  async function world (t: TestContext, idempotency = '') {
    const release = Promise.withResolvers<void>()
    const witness = await startWitness(async (...args) => {
      if (args[0].target === '/slow' && args[3] === 1) await release.promise
      await CREATED(...args)
    })
    t.after(() => witness.close())
    const database = await steppingDatabase(await (server ??= startPostgres()), 'step')
    const config = configOf({ database: database.url, redis: null, upstream: witness.url, idempotency })
    return { witness, release: release.resolve, config, step: database.step, start: async () => startProcess(t, { config }) }
  }

  test('by more than a lease: nobody lapses the living owner, and what it does is done once', async (t) => {
    const { witness, release, step, start } = await world(t, ', unknown: retry')
    const [one, two] = await Promise.all([start(), start()])
    const first = ask(one, 'slow', '/slow')
    await witness.reached(1)
    // A lease of contact: whatever looks lapsed to it, it may lapse.
    await eventually(async () => lapsesSoon(two), 'it has been in contact for a lease')
    await step(8_000)
    assert.equal(outcomeOf(await ask(two, 'slow', '/slow')), 'in-flight')
    for (const each of [one, two]) await untilAhead(each, true)
    assert.equal(outcomeOf(await ask(two, 'slow', '/slow')), 'in-flight')
    release()
    assert.equal(outcomeOf(await first), 'executed')
    assert.equal(witness.seen.length, 1)
  })

  test('by more than a retention: what is kept is replayed, also by a gateway that starts behind it, until an operator says that the time is right', async (t) => {
    const { witness, config, step, start } = await world(t)
    const [one, two] = await Promise.all([start(), start()])
    assert.equal(outcomeOf(await ask(one, 'kept')), 'executed')
    await step(25 * 3_600_000)
    assert.equal(outcomeOf(await ask(two, 'kept')), 'replayed')
    for (const each of [one, two]) await untilAhead(each, true)
    const late = await start()
    for (const each of [two, late]) assert.equal(outcomeOf(await ask(each, 'kept')), 'replayed')
    assert.equal(witness.seen.length, 1)
    assert.equal((await readiness(one)).status, 'degraded')
    const { aheadMs } = await one.logged((line) =>
      line.level === 'error' && /the clock of the store has stepped ahead/.test(line.msg ?? ''))
    assert.ok(Math.abs(Number(aheadMs) - 25 * 3_600_000) < 10_000)
    const metrics = await metricsOf(one.adminUrl)
    assert.ok(totalOf(metrics, 'onceway_clock_ahead_seconds') > 24 * 3_600)
    assert.equal(totalOf(metrics, 'onceway_clock_steps_total'), 1)
    const at = ['--config', fileIn(t, 'onceway.yaml', config)]
    assert.match((await say(['clock', ...at])).out, /finds it 25 h ahead/)
    const confirmed = await say(['clock', 'confirm', '--who', 'ada', '--why', 'NTP was off', ...at])
    assert.deepEqual([confirmed.exitCode, confirmed.err], [0, ''])
    for (const each of [one, two, late]) await untilAhead(each, false)
    assert.equal(outcomeOf(await ask(late, 'kept')), 'executed', 'its retention is over by a time that is right')
  })

  test('back, and a gateway starts: it serves nothing until the time is right, or somebody says that it is', async (t) => {
    const { witness, config, step, start } = await world(t)
    const before = await start()
    assert.equal(outcomeOf(await ask(before, 'one')), 'executed')
    before.signal('SIGTERM')
    await before.exited
    await step(-DAY_MS)
    const late = await start()
    await eventually(async () => (await readiness(late)).status === 'blocked', 'it is blocked')
    assert.match(
      JSON.stringify(await readiness(late)),
      /The clock of postgres at .* says .*: set the clock, or say that it is right with `onceway clock confirm --why TEXT`/
    )
    assert.equal((await ask(late, 'two')).status, 503)
    const other = await start()
    await eventually(async () => (await readiness(other)).status === 'blocked', 'it is blocked')
    other.signal('SIGTERM')
    assert.equal(await other.exited, 0, 'nothing holds it')
    await step(DAY_MS)
    await eventually(async () => (await ask(late, 'one')).status === 201, 'it serves', 10_000)
    assert.equal(witness.seen.length, 1)
    late.signal('SIGTERM')
    await late.exited
    await step(-DAY_MS)
    const again = await start()
    await eventually(async () => (await readiness(again)).status === 'blocked', 'it is blocked')
    await say(['clock', 'confirm', '--why', 'the clock was a day ahead', '--config', fileIn(t, 'onceway.yaml', config)])
    await eventually(async () => (await readiness(again)).status === 'ready', 'it serves', 10_000)
  })
})

/** It has had a heartbeat more than a lease of two seconds lasts. */
async function lapsesSoon ({ adminUrl }: ProcessGateway): Promise<boolean> {
  const metrics = await call(adminUrl, '/metrics', { method: 'GET' })
  const found = /onceway_store_duration_seconds_count\{store="postgres",operation="beat"\} (\d+)/.exec(metrics.text)
  return Number(found?.[1] ?? 0) > 8
}

describe('the clock of an embedded store\'s machine', () => {
  function machine (t: TestContext, witness: Witness) {
    const directory = mkdtempSync(join(QUICKEST, 'onceway-moved-'))
    t.after(() => { rmSync(directory, { recursive: true, force: true }) })
    const file = join(directory, 'clock')
    const config = `
version: 1
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
drain: { delay: 0s, timeout: 5s }
upstreams: { witness: { url: "${witness.url}" } }
routes:
  - { name: things, match: { path: "/*" }, upstream: witness, idempotency: { scope: public } }
`
    return {
      set: (ms: number) => { writeFileSync(file, String(ms)) },
      at: ['--data-dir', join(directory, 'store')],
      start: async () => startProcess(t, {
        config,
        args: ['--data-dir', join(directory, 'store')],
        env: { NODE_OPTIONS: `--import ${MOVED_CLOCK}`, MOVED_CLOCK: file }
      })
    }
  }

  const end = async (gateway: ProcessGateway): Promise<void> => {
    gateway.signal('SIGTERM')
    await gateway.exited
  }

  test('a machine that boots a month behind and is set right executes no key twice, after a restart neither', async (t) => {
    const witness = await startWitness()
    t.after(() => witness.close())
    const { set, at, start } = machine(t, witness)
    set(-30 * DAY_MS)
    const booted = await start()
    assert.equal(outcomeOf(await ask(booted, 'K')), 'executed')
    set(0)
    assert.equal(outcomeOf(await ask(booted, 'K')), 'replayed')
    await untilAhead(booted, true)
    assert.equal(outcomeOf(await ask(booted, 'K')), 'replayed')
    await end(booted)
    const restarted = await start()
    assert.equal(outcomeOf(await ask(restarted, 'K')), 'replayed')
    assert.equal(witness.seen.length, 1)
    await untilAhead(restarted, true)
    assert.match((await say(['clock', ...at])).out, /ahead {14}30 days/)
    assert.equal((await say(['clock', 'confirm', '--why', 'NTP has set it', ...at])).exitCode, 0)
    await untilAhead(restarted, false)
  })

  test('a machine whose clock is behind the last time that the store has seen is not served from, until it is set or confirmed', async (t) => {
    const witness = await startWitness()
    t.after(() => witness.close())
    const { set, at, start } = machine(t, witness)
    set(30 * DAY_MS)
    const first = await start()
    assert.equal(outcomeOf(await ask(first, 'K')), 'executed')
    await end(first)
    set(0)
    await assert.rejects(
      start(),
      /onceway: The clock of .*onceway\.db says .*: set the clock, or say that it is right with `onceway clock confirm --why TEXT`/
    )
    assert.equal((await say(['clock', 'confirm', '--why', 'it was a month ahead', ...at])).exitCode, 0)
    assert.equal(outcomeOf(await ask(await start(), 'K')), 'replayed')
  })
})
