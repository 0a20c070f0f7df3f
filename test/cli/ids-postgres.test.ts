/** `onceway ids` on Postgres, beside gateways that run. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { Client } from 'pg'
import type { Aspects } from '../../src/core/protocol/aspects.ts'
import { newestSchemeName, schemeName, schemeNames } from '../../src/core/record/schemes.ts'
import { openPostgres } from '../../src/store/postgres/open.ts'
import type { PostgresRecordStore } from '../../src/store/postgres/open.ts'
import { until } from '../conformance/record-world.ts'
import { needs } from '../harness/needs.ts'
import { query, startPostgres } from '../harness/postgres.ts'
import type { PostgresServer } from '../harness/postgres.ts'
import { keyedIn, say, SECRETS } from './world.ts'
import type { Said } from './world.ts'

const WHY = ['--who', 'ada', '--why', 'release 2 is everywhere']
const [OLD, NEW] = SECRETS
const [oldName, newName] = SECRETS.map((secret) => schemeName(2, Buffer.from(secret))) as [string, string]
const POLICY: Aspects = {
  mode: 'enforce',
  key: 'header:idempotency-key',
  scope: 'public',
  host: 'not part of the record',
  marks: 'records',
  fingerprint: 'method',
  unknown: 'hold',
  keep: 'api',
  retention: '1 ms',
  lease: '1 ms'
}
/** Longer than the first try to have the lock, and its pause: the command is at its second. */
const TRIED_MS = 4_500

interface World {
  readonly url: string
  readonly store: PostgresRecordStore
  readonly upgrade: (words?: readonly string[], env?: Readonly<Record<string, string>>) => Promise<Said>
  readonly shown: (env?: Readonly<Record<string, string>>) => Promise<string[]>
  /** A gateway that lives, and says what it can make; null: of a release that says nothing. */
  readonly gateway: (instance: string, schemes: readonly string[] | null) => Promise<void>
}

describe('ids in Postgres', needs('postgres'), () => {
  let starting: Promise<PostgresServer> | null = null
  after(async () => { await (await starting)?.stop() })

  /** `scheme`: what the first gateway chose; null: there was none yet. */
  async function openWorld (t: TestContext, scheme: string | null = '1'): Promise<World> {
    const url = await (await (starting ??= startPostgres())).createDatabase('ids')
    const store = await openPostgres({
      url,
      schema: 'onceway',
      prepared: true,
      migrate: 'auto',
      claimTimeoutMs: 2_000,
      ...scheme === null ? {} : { serves: true, scheme }
    })
    t.after(async () => { await store.close() })
    return {
      url,
      store,
      upgrade: async (words = [], env = {}) => say(['ids', 'upgrade', ...WHY, ...words], { DATABASE_URL: url, ...env }),
      shown: async (env = {}) => (await say(['ids'], { DATABASE_URL: url, ...env })).out.split('\n'),
      gateway: async (instance, schemes) => {
        const gateway = randomBytes(16)
        await store.registry.register({
          gateway,
          instance,
          schemes: schemes ?? [],
          routes: [{ route: 'charges', executes: true, policy: POLICY }],
          barrierMs: 1_000
        })
        if (schemes === null) await query(url, `update onceway.gateways set schemes = null where id = '\\x${gateway.toString('hex')}'`)
      }
    }
  }

  test('it shows who claims, what this file can make and what each living gateway can', async (t) => {
    const { shown, gateway, url } = await openWorld(t, null)
    assert.deepEqual(await shown(), ['ids are made by  no scheme yet: the first gateway that serves chooses', 'this file makes  2, 1'])
    await gateway('one', schemeNames([Buffer.from(OLD)]))
    await gateway('other', null)
    await gateway('past', ['1'])
    await query(url, "update onceway.gateways set seen_at = now() - interval '61 minutes' where instance = 'past'")
    const [, file, ...gateways] = await shown({ ONCEWAY_SECRET: NEW })
    assert.equal(file, `this file makes  ${newName}, 2, 1`)
    assert.deepEqual(gateways.map((line) => line.replace(/\d{4}-\S+Z/, 'T')), [
      `gateway          one  T  makes ${oldName}, 2, 1`,
      'gateway          other  T  makes 1'
    ])
  })

  test('without --yes it changes nothing; with it every id is made by the newest rules and this secret; twice is once', async (t) => {
    const { store, upgrade, shown } = await openWorld(t)
    await keyedIn(store, 'order-1', null, 1)
    const env = { ONCEWAY_SECRET: NEW }
    const planned = await upgrade([], env)
    assert.deepEqual([planned.exitCode, planned.out.split('\n')[0]], [1, `Ids would be made by the scheme ${newName}, instead of 1.`])
    assert.match(planned.err, /nothing was changed; add --yes/)
    assert.deepEqual((await store.schemes()).current, { number: 1, name: '1' })
    const done = await upgrade(['--yes'], env)
    assert.deepEqual(
      [done.exitCode, done.err, done.out],
      [0, '', `Ids are made by the scheme ${newName}, instead of 1.\n1 record, 1 message and 0 marks keep their ids. They are still found until they end.`]
    )
    assert.deepEqual((await store.schemes()).current, { number: 2, name: newName })
    const [now, before] = await shown(env)
    assert.match(now ?? '', new RegExp(`^ids are made by  ${newName} \\(number 2\\), since \\S+ by ada: release 2 is everywhere$`))
    assert.match(before ?? '', /^before {11}1: still searched, until nothing of it is left \(not before \S+\)\.$/)
    assert.deepEqual(await upgrade(['--yes'], env), {
      exitCode: 0,
      out: 'Nothing to do: this is the current scheme already (number 2).',
      err: ''
    })
  })

  test('a gateway that lives and cannot make such ids refuses it by its name, until it is named as gone', async (t) => {
    const { store, gateway, upgrade } = await openWorld(t)
    await gateway('able', schemeNames([Buffer.from(NEW)]))
    await gateway('of-the-release-between', null)
    await gateway('without-the-secret', ['2', '1'])
    const env = { ONCEWAY_SECRET: NEW }
    const refused = await upgrade(['--yes'], env)
    assert.equal(refused.exitCode, 1)
    assert.match(refused.err, /^onceway: refused, nothing changed\. Not every gateway can make ids by this scheme: of-the-release-between \(seen \d s ago\), without-the-secret \(seen \d s ago\)\. .*--without\.$/)
    assert.match(
      (await upgrade(['--yes', '--without', 'without-the-secret'], env)).err,
      /this scheme: of-the-release-between \(seen \d s ago\)\./
    )
    assert.deepEqual((await store.schemes()).current, { number: 1, name: '1' })
    assert.equal((await upgrade(['--yes', '--without', 'without-the-secret', '--without', 'of-the-release-between'], env)).exitCode, 0)
    assert.equal((await store.schemes()).current?.name, newName)
  })

  test('one that registers nothing shows in its connections, and a command beside it is no gateway', async (t) => {
    const { url, gateway, store, upgrade, shown } = await openWorld(t)
    const long = `${'h'.repeat(60)}-1`
    await gateway(long, schemeNames([Buffer.from(NEW)]))
    for (const name of [
      'onceway claims silent-7', 'onceway wakes silent-7', `onceway wakes ${long}`, 'onceway background records',
      'onceway open', 'psql'
    ]) {
      const client = new Client({ connectionString: url, application_name: name })
      await client.connect()
      t.after(async () => { await client.end() })
    }
    const env = { ONCEWAY_SECRET: NEW }
    assert.match(
      (await upgrade(['--yes'], env)).err,
      /^onceway: refused, nothing changed\. Not every gateway can make ids by this scheme: silent-7 \(seen 0 s ago\)\. /
    )
    assert.ok((await shown(env)).some((line) => /^gateway +silent-7 +\S+ +makes 1$/.test(line)))
    assert.equal((await upgrade(['--yes', '--without', 'silent-7'], env)).exitCode, 0)
    assert.equal((await store.schemes()).current?.name, newName)
  })

  test('while anything of the scheme before is left there is no other, and it says until when', async (t) => {
    const { store, upgrade } = await openWorld(t)
    await keyedIn(store, 'order-1', null, 1)
    assert.equal((await upgrade(['--yes'], { ONCEWAY_SECRET: OLD })).exitCode, 0)
    const refused = await upgrade(['--yes'], { ONCEWAY_SECRET: NEW, ONCEWAY_PREVIOUS_SECRET: OLD })
    assert.equal(refused.exitCode, 1)
    assert.match(refused.err, /1 record, 1 message and 0 marks of the scheme 1 are left, .*, not before \d{4}-\S+Z\.$/)
    assert.equal((await store.schemes()).current?.name, oldName)
  })

  test('somebody who writes in one transaction holds it up, and nothing is changed before he has ended', async (t) => {
    const { url, store, upgrade } = await openWorld(t)
    const writer = new Client({ connectionString: url })
    await writer.connect()
    t.after(async () => { await writer.end() })
    await writer.query('begin')
    await writer.query('lock table onceway.messages in row exclusive mode')
    const upgrading = upgrade(['--yes'], { ONCEWAY_SECRET: NEW })
    await new Promise((resolve) => { setTimeout(resolve, TRIED_MS) })
    assert.deepEqual((await store.schemes()).current, { number: 1, name: '1' })
    await keyedIn(store, 'meanwhile', null, 1)
    await writer.query('commit')
    assert.equal((await upgrading).exitCode, 0)
    assert.equal((await store.schemes()).current?.name, newName)
  })

  test('two who do it at once have done it once', async (t) => {
    const { store, upgrade } = await openWorld(t)
    const said = await Promise.all([1, 2].map(async () => upgrade(['--yes'], { ONCEWAY_SECRET: NEW })))
    assert.ok(said.some(({ exitCode }) => exitCode === 0))
    for (const { exitCode, out, err } of said) {
      assert.match(exitCode === 0 ? out : err, /^Ids are made by|^Nothing to do|^onceway: Somebody else has switched the scheme just now/)
    }
    assert.deepEqual((await store.schemes()).current, { number: 2, name: newName })
  })

  test('a secret is changed once nothing of the scheme before is left, and each is needed until then', async (t) => {
    const { url, store, upgrade, shown } = await openWorld(t, newestSchemeName([Buffer.from(OLD)]))
    await keyedIn(store, 'order-1', OLD, 1)
    assert.match((await upgrade(['--yes'], { ONCEWAY_SECRET: NEW })).err, /has a secret that is missing here\. Set previousSecret to it/)
    const both = { ONCEWAY_SECRET: NEW, ONCEWAY_PREVIOUS_SECRET: OLD }
    assert.equal((await upgrade(['--yes'], both)).exitCode, 0)
    await keyedIn(store, 'order-1', NEW, 2)
    for (const command of ['records', 'inbox']) {
      const list = async (env: Readonly<Record<string, string>>) => say([command, 'list', '--json', '--key', 'order-1'], {
        DATABASE_URL: url,
        ...env
      })
      assert.equal((await list(both)).out.split('\n').length, 2)
      const one = await list({ ONCEWAY_SECRET: NEW })
      assert.deepEqual([one.out.split('\n').length, /^Not everything is found by key: /.test(one.err)], [1, true])
      assert.equal((await list({})).exitCode, 1)
    }
    await query(url, 'delete from onceway.records where scheme = 1; delete from onceway.messages where scheme = 1; update onceway.schemes set look_from = now() where number = 1')
    await until(async () => {
      await store.endEarlierScheme()
      return (await store.schemes()).earlier?.isOver === true
    }, 'the one before to end')
    assert.match((await shown(both))[1] ?? '', new RegExp(`^before {11}${oldName}: nothing of it is left since \\S+\\.$`))
    const alone = await say(['records', 'list', '--json', '--key', 'order-1'], { DATABASE_URL: url, ONCEWAY_SECRET: NEW })
    assert.deepEqual([alone.out.split('\n').length, alone.err], [1, ''])
    const third = { ONCEWAY_SECRET: 'a third secret, which is the last', ONCEWAY_PREVIOUS_SECRET: NEW }
    assert.equal((await upgrade(['--yes'], third)).exitCode, 0)
    assert.equal((await store.schemes()).current?.number, 3)
  })

  test('a secret that is lost is given up, before a switch or after it, and its rows are looked through by an index', async (t) => {
    const { url, store, upgrade, shown } = await openWorld(t, oldName)
    await keyedIn(store, 'order-1', OLD, 1)
    const lost = { ONCEWAY_SECRET: NEW }
    assert.equal((await upgrade(['--yes', '--secret-lost'], { ONCEWAY_SECRET: NEW, ONCEWAY_PREVIOUS_SECRET: OLD })).exitCode, 1)
    assert.match((await upgrade(['--yes', '--secret-lost'], lost)).out, /They cannot be found any more/)
    const indexes = async () => (await query(
      url,
      "select indexname from pg_indexes where schemaname = 'onceway' and indexname like '%\\_lost\\_%' order by 1"
    )).map(({ indexname }) => indexname)
    const LOST = ['messages_lost_1', 'messages_lost_key_1', 'records_lost_1', 'records_lost_key_1']
    assert.deepEqual([await indexes(), (await store.schemes()).earlier?.isLost], [LOST, true])
    assert.match((await shown(lost))[1] ?? '', /Its secret is lost\.$/)

    const other = await openWorld(t, oldName)
    await keyedIn(other.store, 'order-1', OLD, 1)
    assert.equal((await other.upgrade(['--yes'], { ONCEWAY_SECRET: NEW, ONCEWAY_PREVIOUS_SECRET: OLD })).exitCode, 0)
    assert.match(
      (await other.upgrade(['--yes', '--secret-lost'], lost)).out,
      new RegExp(`^The secret of the scheme ${oldName} is given up\\.`)
    )
    assert.equal((await other.store.schemes()).earlier?.isLost, true)
  })

  test('a secret that a living gateway has is not lost, whatever a file lacks', async (t) => {
    const { store, upgrade, gateway, shown } = await openWorld(t, oldName)
    await gateway('one', schemeNames([Buffer.from(OLD)]))
    assert.equal(
      (await shown({ ONCEWAY_SECRET: NEW }))[2],
      `                 not ${oldName}: its secret is missing here (secret, previousSecret, or the embedded store's file secret)`
    )
    const refused = await upgrade(['--yes', '--secret-lost', '--without', 'other'], { ONCEWAY_SECRET: NEW })
    assert.deepEqual(
      [refused.exitCode, refused.err],
      [1, `onceway: The secret of the scheme ${oldName} is not lost: the gateway one has it. Set secret or previousSecret to it. If that gateway is gone for good, name it with --without.`]
    )
    assert.equal((await store.schemes()).current?.name, oldName)
    assert.equal((await upgrade(['--yes', '--secret-lost', '--without', 'one'], { ONCEWAY_SECRET: NEW })).exitCode, 0)
  })

  test('a schema that is not up to date is not changed by a look at what would be done', async () => {
    const url = await (await (starting ??= startPostgres())).createDatabase('ids')
    for (const words of [['ids'], ['ids', 'upgrade', ...WHY], ['ids', 'upgrade', ...WHY, '--yes']]) {
      const { exitCode, err } = await say(words, { DATABASE_URL: url })
      assert.deepEqual(
        [exitCode, /^onceway: Migration \S+ is not applied to the schema "onceway": run `onceway migrate`, or start a gateway of this release/.test(err)],
        [1, true],
        err
      )
    }
    assert.deepEqual(await query(url, "select table_name from information_schema.tables where table_schema = 'onceway'"), [])
  })
})
