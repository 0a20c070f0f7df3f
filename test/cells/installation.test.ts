/** `onceway installation new` refuses where a new id would do harm, and changes nothing but the id. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { openPostgres } from '../../src/store/postgres/open.ts'
import type { PostgresRecordStore } from '../../src/store/postgres/open.ts'
import { messageOf, say } from '../cli/world.ts'
import { needs } from '../harness/needs.ts'
import { query, startPostgres } from '../harness/postgres.ts'
import type { PostgresServer } from '../harness/postgres.ts'

const LOOK = 'select id, generation::float8 as generation, bound_to from onceway.installation'

describe('a new installation id', needs('own postgres'), () => {
  let server: PostgresServer
  before(async () => { server = await startPostgres() })
  after(async () => { await server.stop() })

  const open = async (t: TestContext, url: string): Promise<PostgresRecordStore> => {
    const store = await openPostgres({ url, schema: 'onceway', prepared: true, migrate: 'auto', claimTimeoutMs: 2_000 })
    t.after(async () => { await store.close() })
    return store
  }

  test('is drawn with a new generation, and only with --yes', async (t) => {
    const url = await server.createDatabase('half')
    await (await open(t, url)).close()
    const [was] = await query(url, LOOK)
    const planned = await say(['installation', 'new'], { DATABASE_URL: url })
    assert.deepEqual([planned.exitCode, planned.err], [1, 'onceway: nothing was changed; add --yes to do it.'])
    assert.deepEqual(await query(url, LOOK), [was])
    const { exitCode, out } = await say(['installation', 'new', '--yes'], { DATABASE_URL: url })
    const [is] = await query(url, LOOK)
    assert.deepEqual([exitCode, out], [0, `The installation ${String(was?.id)} has the id ${String(is?.id)} now. Redis begins empty for it.`])
    assert.notEqual(is?.id, was?.id)
    assert.ok(Number(is?.generation) > Number(was?.generation))
    assert.equal(is?.bound_to, was?.bound_to)
  })

  test('is refused while somebody is connected, or has given a sign of life', async (t) => {
    const url = await server.createDatabase('served')
    const store = await open(t, url)
    await store.list({ limit: 1 })
    const ask = async (): Promise<string> => (await say(['installation', 'new', '--yes'], { DATABASE_URL: url })).err
    assert.match(await ask(), /refused, nothing changed: somebody serves from this database, or has within a minute: onceway /)
    await store.close()
    await query(url, 'insert into onceway.gateways (id, instance, beat, seen_at) values (decode(repeat(\'01\', 16), \'hex\'), \'gw-7\', 1, clock_timestamp())')
    assert.match(await ask(), /somebody serves from this database, or has within a minute: gw-7\. Stop every gateway of it, wait a minute,/)
    await query(url, 'update onceway.gateways set seen_at = clock_timestamp() - interval \'61 s\'')
    assert.equal(await ask(), '')
  })

  test('is refused if both halves would deliver messages', async (t) => {
    const url = await server.createDatabase('inbox')
    const store = await open(t, url)
    await store.inbox.accept(messageOf('m'))
    await store.close()
    const { err } = await say(['installation', 'new', '--yes'], { DATABASE_URL: url })
    assert.match(err, /1 open message would be delivered by both halves/)
  })

  test('is not for an embedded store', async () => {
    assert.match((await say(['installation', 'new'])).err, /An embedded store has no standby/)
  })
})
