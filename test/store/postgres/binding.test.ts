/** Whose installation id a database has: its own, the original's of which it is a copy, or nobody's yet (src/store/postgres/binding.ts). */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { openPostgres } from '../../../src/store/postgres/open.ts'
import type { PostgresRecordStore } from '../../../src/store/postgres/open.ts'
import { recordingLog } from '../../harness/gateway.ts'
import { needs } from '../../harness/needs.ts'
import { query, startPostgres } from '../../harness/postgres.ts'
import type { PostgresServer } from '../../harness/postgres.ts'
import { SIGN } from '../../harness/sign.ts'

describe('whose installation a database is', needs('own postgres'), () => {
  let starting: Promise<PostgresServer> | null = null
  after(async () => { await (await starting)?.stop() })

  async function server (): Promise<PostgresServer> {
    starting ??= startPostgres()
    return starting
  }

  async function opened (
    t: TestContext,
    url: string,
    serves: boolean
  ): Promise<{ readonly store: PostgresRecordStore, readonly warned: string[] }> {
    const log = recordingLog()
    const store = await openPostgres({ url, schema: 'onceway', prepared: true, migrate: 'auto', claimTimeoutMs: 2_000, serves, log })
    t.after(() => store.close())
    return { store, warned: log.lines.filter(({ level }) => level === 'warn').map(({ message }) => message) }
  }

  const installationOf = async (url: string): Promise<Record<string, unknown>> =>
    (await query(url, 'select id, bound_to, generation from onceway.installation'))[0] ?? {}

  /** Nobody may be connected to what is copied. */
  async function copied (url: string): Promise<string> {
    const made = new URL(url)
    const name = made.pathname.slice(1)
    made.pathname = `/${name}_copy`
    await query((await server()).url, `create database "${name}_copy" template "${name}"`)
    return made.href
  }

  async function served (t: TestContext): Promise<string> {
    const url = await (await server()).createDatabase('bound')
    const { store } = await opened(t, url, true)
    await store.close()
    return url
  }

  test('the first gateway binds it, the id stays what it was, and nobody who begins later changes anything', async (t) => {
    const url = await (await server()).createDatabase('bound')
    const { store: command } = await opened(t, url, false)
    const before = await installationOf(url)
    assert.deepEqual([before['id'], before['bound_to']], [command.installation, null])
    const { store: first, warned } = await opened(t, url, true)
    await first.beat(SIGN)
    const bound = await installationOf(url)
    const [[control]] = await Promise.all([query(url, 'select system_identifier::text as system from pg_control_system()')])
    assert.deepEqual(JSON.parse(String(bound['bound_to'])), [control?.['system'], new URL(url).pathname.slice(1), 'onceway'])
    const { store: second, warned: again } = await opened(t, url, true)
    assert.deepEqual([first.installation, second.installation], [command.installation, command.installation])
    assert.deepEqual(await installationOf(url), bound)
    assert.deepEqual([...warned, ...again], [])
  })

  test('a copy under another name draws an id of its own, once for all who begin together, and the original keeps its own', async (t) => {
    const url = await served(t)
    const original = await installationOf(url)
    const copy = await copied(url)
    const { store: command } = await opened(t, copy, false)
    assert.equal(command.installation, original['id'], 'a command only looks')
    const together = await Promise.all([1, 2, 3, 4].map(async () => opened(t, copy, true)))
    const [id, ...more] = new Set(together.map(({ store }) => store.installation))
    assert.deepEqual(more, [])
    assert.notEqual(id, original['id'])
    assert.equal(together.flatMap(({ warned }) => warned).filter((message) => /copy of another one/.test(message)).length, 1)
    const now = await installationOf(copy)
    assert.ok(Number(now['generation']) > Number(original['generation']))
    assert.deepEqual(await installationOf(url), original)
    assert.equal((await opened(t, copy, true)).store.installation, id)
  })

  test('where the system identifier may not be asked for, name and schema tell it', async (t) => {
    const url = await (await server()).createDatabase('narrow')
    const name = new URL(url).pathname.slice(1)
    await query(url, `create role narrow login password 'of-the-test'; grant create on database "${name}" to narrow; revoke execute on function pg_control_system() from public`)
    const narrow = new URL(url)
    narrow.username = 'narrow'
    narrow.password = 'of-the-test'
    const { store, warned } = await opened(t, narrow.href, true)
    await store.close()
    assert.deepEqual(JSON.parse(String((await installationOf(url))['bound_to'])), [null, name, 'onceway'])
    assert.deepEqual(warned, [])
    assert.equal((await opened(t, url, true)).store.installation, store.installation, 'one who may ask finds nothing that differs')
  })

  test('a generation begins with the first gateway that begins alone, not with one that begins beside another', async (t) => {
    const url = await served(t)
    const generation = async (): Promise<number> => Number((await installationOf(url))['generation'])
    const first = await generation()
    const { store } = await opened(t, url, true)
    const second = await generation()
    assert.ok(second > first, 'nobody had given a sign of life')
    await store.beat(SIGN)
    await opened(t, url, true)
    assert.equal(await generation(), second)
    await query(url, 'update onceway.gateways set seen_at = clock_timestamp() - interval \'2 minutes\'')
    await opened(t, url, true)
    assert.ok(await generation() > second)
  })

  test('rows of gateways that are long gone go, the newest of all stays', async (t) => {
    const url = await served(t)
    await query(url, `insert into onceway.gateways (id, instance, beat, seen_at)
      select decode(lpad(to_hex(days), 32, '0'), 'hex'), 'gone', 7, clock_timestamp() - days * interval '1 day' from generate_series(2, 5) days`)
    const { store } = await opened(t, url, true)
    await store.sweep(10)
    assert.deepEqual((await query(url, 'select get_byte(id, 15) as days from onceway.gateways')).map(({ days }) => days), [2])
  })

  test('beats are told of those who are asked for, in their order', async (t) => {
    const { store } = await opened(t, await served(t), true)
    const [one, other] = [Buffer.alloc(16, 2), Buffer.alloc(16, 3)]
    await store.beat({ ...SIGN, gateway: one, beat: 7 })
    await store.beat({ ...SIGN, gateway: other, beat: 9 })
    assert.deepEqual((await store.beat({ ...SIGN, others: [other, Buffer.alloc(16, 4), one] })).others, [9, null, 7])
    assert.deepEqual((await store.beat(SIGN)).others, [])
  })
})
