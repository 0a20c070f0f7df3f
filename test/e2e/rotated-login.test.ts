/** The database's password is rotated under load: no request fails, and nothing is restarted. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { call } from '../harness/call.ts'
import { makeDirectory } from '../harness/directory.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { query, startPostgres } from '../harness/postgres.ts'
import type { PostgresServer } from '../harness/postgres.ts'
import { startWitness } from '../harness/witness.ts'
import { Balancer } from './balancer.ts'
import { startReloadable } from './reload-world.ts'
import { SteadyLoad } from './steady-load.ts'
import { configOf } from './world.ts'

const [OLD, NEW] = ['old-password', 'new-password'] as const
/** Each burst needs more connections than there are. */
const BURST = 24
const NOTICED_WITHIN_MS = 30_000

describe('a rotated password', needs('own postgres'), () => {
  let server: PostgresServer
  before(async () => { server = await startPostgres() })
  after(async () => { await server.stop() })

  test('the file first, then the database: no request of several workers fails, and a gateway that starts meanwhile waits', async (t) => {
    const witness = await startWitness()
    t.after(() => witness.close())
    const directory = makeDirectory('rotated')
    t.after(() => { directory.remove() })
    const url = new URL(await server.createDatabase('rotated'))
    await query(server.url, `create role rotated login password '${OLD}'; alter database "${url.pathname.slice(1)}" owner to rotated`)
    const file = join(directory.path, 'url')
    const write = (password: string): void => {
      writeFileSync(file, Object.assign(new URL(url), { username: 'rotated', password }).href)
    }
    write(OLD)
    const config = configOf({
      database: '', redis: null, upstream: witness.url, idempotency: ', inFlight: { wait: 10s }', more: 'workers: 2'
    }).replace('{ url: "" }', `{ urlFile: ${JSON.stringify(file)} }`)
    const gateway = await startReloadable(t, config)
    const target = { url: gateway.url, adminUrl: gateway.adminUrl }
    const balancer = new Balancer([target], { pollEveryMs: 200, freshMs: 20_000 })
    t.after(() => balancer.stop())
    await balancer.ready(target)
    const load = new SteadyLoad(balancer, 4)
    t.after(async () => { await load.stop() })
    const burst = async (): Promise<void> => {
      await Promise.all(Array.from({ length: BURST }, async () => load.keyed('in a burst', randomUUID())))
    }
    write(NEW)
    await burst()
    const late = startReloadable(t, config.replace('workers: 2', ''))
    const waiting = await late
    const state = async (): Promise<unknown> => (await call(waiting.adminUrl, '/readyz', { method: 'GET' })).json.status
    assert.equal(await state(), 'blocked')
    await query(server.url, `alter role rotated password '${NEW}'`)
    await burst()
    await eventually(async () => (await state()) === 'ready', 'the gateway that waited serves', NOTICED_WITHIN_MS)
    assert.equal((await gateway.reload())['event'], 'config-reloaded')
    await load.stop()
    const told = gateway.logLines().filter(({ level }) => level !== 'info')
    assert.deepEqual(load.failures.slice(0, 2), [], JSON.stringify(told.slice(0, 5)))
    // Every connection anew, those that none has asked for included.
    await query(server.url, 'select pg_terminate_backend(pid) from pg_stat_activity where usename = \'rotated\'')
    await eventually(async () => (await call(gateway.url, '/things', {
      headers: { 'Idempotency-Key': randomUUID(), Host: 'api.example.com' }, body: 'x'
    })).status === 201, 'it serves by new connections', NOTICED_WITHIN_MS)
    for (const each of [gateway, waiting]) assert.ok(!/(old|new)-password/.test(each.output()))
  })
})
