/**
 * What a gateway's role may do in the database: looked at before it serves, told with the SQL that mends it, and the
 * SQL of the documents.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { escapeIdentifier } from 'pg'
import { readMigrationFiles } from '../../src/store/shared/migration-files.ts'
import { migratePostgres } from '../../src/store/postgres/open.ts'
import { RIGHTS } from '../../src/store/postgres/rights.ts'
import { call } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { query, startPostgres } from '../harness/postgres.ts'
import type { PostgresServer } from '../harness/postgres.ts'
import { bareEnv, MAIN, startProcess } from '../harness/process-gateway.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { startWitness } from '../harness/witness.ts'
import { configOf } from './world.ts'

/** It shares the processors with other tests. */
const LONGEST_MS = 60_000
/** Of core/limits/outage.ts. */
const A_MINUTE_MS = 60_000
const PASSWORD = 'of-the-role'
const STORE = fileURLToPath(new URL('../../src/store/postgres/', import.meta.url))
const DOCUMENT = fileURLToPath(new URL('../../docs/guides/deploy-with-postgres.md', import.meta.url))

interface Ready { readonly httpStatus: number, readonly status: string, readonly reason?: string }

async function readiness ({ adminUrl }: ProcessGateway): Promise<Ready> {
  const { status: httpStatus, json } = await call(adminUrl, '/readyz', { method: 'GET' })
  return { ...json as Ready, httpStatus }
}

async function becomes (gateway: ProcessGateway, status: string): Promise<Ready> {
  let last = await readiness(gateway)
  await eventually(
    async () => (last = await readiness(gateway)).status === status,
    () => `it is ${JSON.stringify(last)}, not ${status}`,
    LONGEST_MS
  )
  return last
}

/** The SQL in a sentence. */
function grantsIn (reason = ''): string {
  return reason.slice(reason.indexOf('GRANT'))
}

describe('the rights of the gateway\'s role', needs('own postgres'), () => {
  let server: PostgresServer
  before(async () => { server = await startPostgres() })
  after(() => server.stop())

  /** A database whose tables somebody else owns, a role that has none of them, and a gateway that is to serve as this role. */
  async function roleOn (t: TestContext, grants: (role: string) => string, migrate = 'check') {
    const witness = await startWitness()
    t.after(() => witness.close())
    const database = await server.createDatabase('rights')
    await migratePostgres({ url: database, schema: 'onceway' })
    const role = `Gate-way "${randomBytes(4).toString('hex')}"`
    await query(database, `create role ${escapeIdentifier(role)} login password '${PASSWORD}'; ${grants(escapeIdentifier(role))}`)
    const url = new URL(database)
    url.username = encodeURIComponent(role)
    url.password = PASSWORD
    const config = configOf({ database: `${url.href}", migrate: "${migrate}`, redis: null, upstream: witness.url })
    return { witness, database, role: escapeIdentifier(role), url: url.href, start: () => startProcess(t, { config }) }
  }

  const post = (gateway: ProcessGateway, key: string) => call(gateway.url, '/things', { headers: { 'Idempotency-Key': key }, body: 'one' })

  for (const migrate of ['check', 'auto']) {
    test(`a role that may only read is not ready but blocked, is told the GRANT, and serves by itself when that was run (migrate: ${migrate})`, async (t) => {
      const { witness, database, role, start } = await roleOn(
        t,
        (to) => `grant usage on schema onceway to ${to}; grant select on all tables in schema onceway to ${to}`,
        migrate
      )
      const gateway = await start()
      const { httpStatus, status, reason } = await readiness(gateway)
      assert.deepEqual([httpStatus, status], [503, 'blocked'])
      assert.equal((await post(gateway, 'early')).status, 503)
      assert.equal(witness.seen.length, 0, 'nothing was sent')
      const grants = grantsIn(reason)
      assert.match(grants, /^GRANT INSERT, UPDATE, DELETE ON "onceway"\."records", .*"onceway"\."record_counts" TO /)
      assert.ok(grants.includes(role), 'with the role as SQL has it')
      await query(database, grants)
      await becomes(gateway, 'ready')
      assert.equal((await post(gateway, 'early')).status, 201)
      assert.equal(gateway.logLines().filter((line) => JSON.stringify(line).includes('GRANT ')).length, 1, 'said once')
      assert.ok(!gateway.output().includes(PASSWORD))
    })
  }

  test('a role that may do nothing is told all of it, and it is enough to serve; a command that needs more says where the rest is', async (t) => {
    const { database, url, start } = await roleOn(t, () => '')
    // Whoever may use the schema may use this sequence (migrations/postgres/0005_inbox.sql), unless somebody has taken that away.
    await query(database, 'revoke usage on sequence onceway.message_numbers from public')
    const gateway = await start()
    const { reason } = await becomes(gateway, 'blocked')
    const grants = grantsIn(reason)
    assert.match(grants, /^GRANT USAGE ON SCHEMA "onceway" TO /)
    assert.match(grants, /GRANT USAGE ON SEQUENCE "onceway"\."message_numbers" TO /)
    await query(database, grants)
    await becomes(gateway, 'ready')
    assert.equal((await post(gateway, 'first')).status, 201)

    const records = async (...args: string[]) => promisify(execFile)(process.execPath, [MAIN, 'records', ...args], {
      env: { ...bareEnv(), DATABASE_URL: url }
    })
    const { id, owner, attempt } = JSON.parse((await records('list', '--json')).stdout) as {
      readonly id: string
      readonly owner: string
      readonly attempt: number
    }
    await assert.rejects(
      records('delete', id, '--owner', owner, '--attempt', String(attempt), '--why', 'a test'),
      /audit; docs\/guides\/deploy-with-postgres\.md \(Rights\) has the GRANTs/
    )
  })

  test('a database that was away at the start and comes back without the rights: the log says so at once, though it has just said that it is away', async (t) => {
    const { start } = await roleOn(t, () => '')
    await server.kill()
    t.after(() => server.restart())
    const gateway = await start()
    const away = await gateway.logged(({ msg }) => msg === 'database not reached; trying again')
    await server.restart()
    const { reason } = await becomes(gateway, 'blocked')
    const refused = await gateway.logged(({ msg, error }) => msg === 'database cannot be served from; trying again' && error === reason)
    assert.ok(
      Date.parse(String(refused['time'])) - Date.parse(String(away['time'])) < A_MINUTE_MS,
      'and not when the minute is over that another cause would wait for'
    )
  })

  test('a right that is taken away while it serves makes it blocked, and given again ready', async (t) => {
    const { witness, database, role, start } = await roleOn(
      t,
      (to) => `grant usage on schema onceway to ${to}; grant select, insert, update, delete on all tables in schema onceway to ${to}`
    )
    const gateway = await start()
    await becomes(gateway, 'ready')
    await query(database, `revoke insert on onceway.records from ${role}`)
    assert.equal((await post(gateway, 'refused')).status, 503)
    assert.equal(witness.seen.length, 0, 'nothing was sent')
    const { httpStatus, reason } = await becomes(gateway, 'blocked')
    assert.equal(httpStatus, 503)
    assert.equal(grantsIn(reason), `GRANT INSERT ON "onceway"."records" TO ${role};`)
    await query(database, grantsIn(reason))
    await becomes(gateway, 'ready')
    assert.equal((await post(gateway, 'refused')).status, 201)
  })

  test('a role whose transactions are read-only is told so, and not that its server is a replica', async (t) => {
    const { database, role, start } = await roleOn(t, (to) =>
      `grant usage on schema onceway to ${to}; grant select, insert, update, delete on all tables in schema onceway to ${to}; alter role ${to} set default_transaction_read_only = on`)
    const gateway = await start()
    const { httpStatus, status, reason } = await readiness(gateway)
    assert.deepEqual([httpStatus, status], [503, 'starting'])
    assert.match(reason ?? '', /default_transaction_read_only is on/)
    await query(database, `alter role ${role} reset default_transaction_read_only`)
    await becomes(gateway, 'ready')
  })

  test('the SQL of docs/guides/deploy-with-postgres.md: one role migrates, another one serves, also after a later migration has made a table', async (t) => {
    const sql = Array.from(readFileSync(DOCUMENT, 'utf8').matchAll(/```sql\n([\s\S]*?)```/g), ([, text]) => text as string)
      .find((text) => text.includes('ALTER DEFAULT PRIVILEGES')) ?? ''
    const [, owner = '', gatewayRole = ''] = /CREATE ROLE (\w+) [\s\S]*CREATE ROLE (\w+) /.exec(sql) ?? []
    const passwords = Array.from(sql.matchAll(/PASSWORD '([^']+)'/g), ([, password]) => password as string)
    const [, database = ''] = /ON DATABASE (\w+)/.exec(sql) ?? []
    assert.equal(passwords.length, 2)
    const witness = await startWitness()
    t.after(() => witness.close())
    await query(server.url, `create database ${database}`)
    const urlOf = (user: string, password = ''): string =>
      Object.assign(new URL(server.url), { username: user, password, pathname: `/${database}` }).href
    await query(Object.assign(new URL(server.url), { pathname: `/${database}` }).href, sql)
    await promisify(execFile)(process.execPath, [MAIN, 'migrate'], { env: { ...bareEnv(), DATABASE_URL: urlOf(owner, passwords[0]) } })
    const config = configOf({ database: `${urlOf(gatewayRole, passwords[1])}", migrate: "check`, redis: null, upstream: witness.url })
    const gateway = await startProcess(t, { config })
    await becomes(gateway, 'ready')
    assert.equal((await post(gateway, 'first')).status, 201)

    const last = readMigrationFiles('postgres').at(-1)
    const next = {
      number: (last?.number ?? 0) + 1,
      name: 'later',
      compatibleFrom: 1,
      text: 'create sequence :schema.later_numbers; create table :schema.later (number bigint default nextval(\':schema.later_numbers\'))'
    }
    await migratePostgres({ url: urlOf(owner, passwords[0]), schema: 'onceway', migrations: [...readMigrationFiles('postgres'), next] })
    await query(
      urlOf(gatewayRole, passwords[1]),
      'insert into onceway.later default values; update onceway.later set number = 7; select number from onceway.later; delete from onceway.later'
    )
    const another = await startProcess(t, { config })
    await becomes(another, 'ready')
    assert.equal((await post(another, 'first')).headers['idempotent-replayed'], 'true')
    await assert.rejects(query(urlOf(gatewayRole, passwords[1]), 'drop table onceway.later'), /must be owner/)
  })
})

/** Run by operators, or by whoever migrates. */
const NOT_THE_GATEWAYS = new Set(['operator.ts', 'inbox-operator.ts', 'epoch.ts', 'migrate.ts'])

test('what a gateway looks for are the rights that its statements use, table by table', () => {
  const used = new Map<string, Set<string>>()
  const uses = (relation: string, right: string): void => { used.set(relation, (used.get(relation) ?? new Set()).add(right)) }
  for (const file of readdirSync(STORE).filter((name) => !NOT_THE_GATEWAYS.has(name))) {
    const text = readFileSync(join(STORE, file), 'utf8')
    for (const [pattern, right] of [
      [/insert into \$\{schema\}\.(\w+)/g, 'INSERT'],
      [/insert into \$\{schema\}\.(\w+)(?:(?!insert into)[\s\S])*?do update/g, 'UPDATE'],
      [/update \$\{schema\}\.(\w+)/g, 'UPDATE'],
      [/delete from \$\{schema\}\.(\w+)/g, 'DELETE'],
      [/(?<!delete )(?:from|join|using) \$\{schema\}\.(\w+)/g, 'SELECT'],
      [/nextval\([^)]*\)*\}\.(\w+)/g, 'USAGE']
    ] as const) for (const [, relation = ''] of text.matchAll(pattern)) uses(relation, right)
  }
  const wanted = new Map(Object.entries(RIGHTS).map(([relation, rights]) => [relation, new Set(rights)]))
  // In schemes.ts the command that switches and the first migration write these two.
  used.get('schemes')?.delete('INSERT')
  used.get('migrations')?.delete('UPDATE')
  for (const [relation, rights] of used) {
    assert.deepEqual(Array.from(rights).filter((right) => wanted.get(relation)?.has(right) !== true), [], relation)
  }
  for (const [relation, rights] of wanted) {
    assert.deepEqual(
      Array.from(rights).filter((right) => used.get(relation)?.has(right) !== true && relation !== 'gateway_routes'),
      [],
      relation
    )
  }
})
