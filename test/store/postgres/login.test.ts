/** A password that is rotated under open connections: the file first, the database first, and files that are of no use. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { Connections } from '../../../src/store/postgres/connections.ts'
import type { Connection } from '../../../src/store/postgres/connection.ts'
import { Login } from '../../../src/store/postgres/login.ts'
import type { Log } from '../../../src/ports/telemetry.ts'
import { makeDirectory } from '../../harness/directory.ts'
import { eventually } from '../../harness/eventually.ts'
import { needs } from '../../harness/needs.ts'
import { query, startPostgres } from '../../harness/postgres.ts'
import type { PostgresServer } from '../../harness/postgres.ts'

const [FIRST, SECOND, THIRD] = ['first-password', 'second-password', 'third-password'] as const
const PURPOSE = 'claims'

describe('a login in a file', needs('own postgres'), () => {
  let server: PostgresServer
  let roles = 0
  before(async () => { server = await startPostgres() })
  after(async () => { await server.stop() })

  async function world (t: TestContext) {
    const role = `rotated_${++roles}`
    const alter = async (password: string, name = role) => query(server.url, `alter role ${name} login password '${password}'`)
    await query(server.url, `create role ${role}`)
    await alter(FIRST)
    const directory = makeDirectory('login')
    const urlFile = join(directory.path, 'url')
    const urlWith = (password: string, name = role): string => `postgres://${name}:${password}@127.0.0.1:${server.port}/postgres`
    const write = (text: string): void => { writeFileSync(urlFile, `${text}\n`) }
    write(urlWith(FIRST))
    const said: Array<{ event?: unknown, error?: unknown }> = []
    const note = (fields: object): void => { said.push(fields) }
    const log: Log = { debug () {}, info: note, warn: note, error: note }
    const login = new Login({ url: urlWith(FIRST), urlFile, log })
    const connections = new Connections({
      purpose: PURPOSE,
      pool: {},
      login,
      schema: '"onceway"',
      prepared: true,
      connectionsMax: 20,
      timeoutMs: 20_000,
      lockTimeoutMs: 1_000,
      log,
      meter: { store () {} }
    })
    const opened: Connection[] = []
    t.after(async () => {
      for (const each of opened) each.release()
      login.close()
      await connections.close()
      directory.remove()
      assert.ok(!JSON.stringify(said).includes('-password'), 'the log shows no password')
    })
    /** A new one, because those before are in use. */
    const another = async (): Promise<Connection> => {
      const connection = await connections.connect('claim')
      opened.push(connection)
      return connection
    }
    const events = (): unknown[] => said.map(({ event }) => event)
    return { role, alter, urlFile, urlWith, write, another, login, events, said }
  }

  test('the file first: new connections use the old password until the database knows the new one, and none fails', async (t) => {
    const { alter, urlWith, write, another, events } = await world(t)
    await another()
    write(urlWith(SECOND))
    await Promise.all([another(), another(), another()])
    await alter(SECOND)
    await Promise.all([another(), another(), another()])
    assert.deepEqual(events(), ['database-login-unusable', 'database-login-changed'])
  })

  test('the database first: connections that exist live on, new ones are refused until the file is written', async (t) => {
    const { alter, urlWith, write, another } = await world(t)
    await another()
    await alter(SECOND)
    await assert.rejects(another(), /password authentication failed/)
    write(urlWith(SECOND))
    await another()
    await alter(THIRD)
    write(urlWith(THIRD))
    await another()
  })

  test('two users: new connections use the other one at once, while both are valid', async (t) => {
    const { role, alter, urlWith, write, another, events } = await world(t)
    await another()
    await query(server.url, `create role ${role}_b`)
    await alter(SECOND, `${role}_b`)
    write(urlWith(SECOND, `${role}_b`))
    await another()
    await query(server.url, `alter role ${role} nologin`)
    await another()
    assert.deepEqual(events(), ['database-login-changed'])
  })

  test('a file that is gone, or names another database, changes nothing and is logged once', async (t) => {
    const { urlFile, urlWith, write, another, said } = await world(t)
    write(urlWith(FIRST).replace(/postgres$/, 'elsewhere'))
    await another()
    await another()
    rmSync(urlFile)
    await another()
    assert.deepEqual(said.map(({ error }) => error), [
      'it names another server, database or parameter: only user and password can change in a running process',
      `${urlFile} cannot be read (ENOENT)`
    ])
  })

  test('a file that cannot be used is said when it changes, and a pipe holds up nothing', async (t) => {
    const { urlFile, urlWith, write, another, login, said } = await world(t)
    login.watch()
    write('')
    const errors = (): unknown[] => said.map(({ error }) => error)
    await eventually(() => errors().includes(`${urlFile} is empty`), 'it is said without a connection')
    write(urlWith(FIRST))
    rmSync(urlFile)
    execFileSync('mkfifo', [urlFile])
    await another()
    assert.equal(errors().at(-1), `${urlFile} is no regular file`)
  })

  test('the database refuses the login, and the file is of no use: that is what the log says', async (t) => {
    const { alter, urlWith, write, another, said } = await world(t)
    await alter(SECOND)
    write(urlWith(SECOND).replace(/postgres$/, 'elsewhere'))
    await assert.rejects(another(), /password authentication failed/)
    assert.deepEqual(said.map(({ error }) => error), [
      'it names another server, database or parameter: only user and password can change in a running process'
    ])
  })
})

/**
 * pg_terminate_backend may come while a session begins. Its bytes are then behind those that say "ready", in one read. A gateway of chaos
 * ended by it: nobody listened to the client yet.
 */
test('a session that is ended in the same breath as it begins is a failed statement, and no end of the process', async (t) => {
  const message = (type: string, body: Buffer): Buffer => {
    const head = Buffer.alloc(5)
    head.write(type)
    head.writeInt32BE(body.length + 4, 1)
    return Buffer.concat([head, body])
  }
  const ended = message('E', Buffer.from('SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0'))
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', () => { socket.end(Buffer.concat([message('R', Buffer.alloc(4)), message('Z', Buffer.from('I')), ended])) })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => { server.close() })
  const log: Log = { debug () {}, info () {}, warn () {}, error () {} }
  const connections = new Connections({
    purpose: PURPOSE,
    pool: {},
    login: new Login({ url: `postgres://me:none@127.0.0.1:${(server.address() as AddressInfo).port}/postgres`, log }),
    schema: '"onceway"',
    prepared: false,
    connectionsMax: 1,
    timeoutMs: 20_000,
    lockTimeoutMs: 1_000,
    log,
    meter: { store () {} }
  })
  t.after(() => connections.close())
  await assert.rejects(connections.use('claim', async (session) => session.run({ name: 'one', writes: false, text: () => 'select 1' }, [])))
})
