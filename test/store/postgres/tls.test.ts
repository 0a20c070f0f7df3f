/** TLS to a real Postgres, with an authority of our own: who is trusted, who is refused, and what the operator reads then. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { StartError } from '../../../src/ports/errors.ts'
import { openPostgres, type PostgresOptions } from '../../../src/store/postgres/open.ts'
import type { TlsFiles } from '../../../src/store/postgres/tls.ts'
import { claimOf } from '../../conformance/record-world.ts'
import { makeAuthority, type Authority } from '../../harness/certificates.ts'
import { makeDirectory, type Directory } from '../../harness/directory.ts'
import { needs } from '../../harness/needs.ts'
import { query, startPostgres, type PostgresServer } from '../../harness/postgres.ts'
import { optionsOf } from './world.ts'

const ONLY_CA = { certFile: null, keyFile: null }

describe('TLS to Postgres', needs('postgres tools', 'openssl'), () => {
  let server: PostgresServer
  let plain: PostgresServer
  let authority: Authority
  let stranger: Authority
  let directory: Directory
  let tls: TlsFiles
  let url: string

  before(async () => {
    authority = makeAuthority()
    stranger = makeAuthority()
    directory = makeDirectory('hba')
    const { cert, key } = authority.sign('server', ['localhost'])
    const hba = join(directory.path, 'pg_hba.conf')
    writeFileSync(
      hba,
      [
        'hostssl all certified 127.0.0.1/32 cert',
        'hostnossl all secret 127.0.0.1/32 reject',
        'host all all 127.0.0.1/32 scram-sha-256'
      ].join('\n')
    )
    authority.readableByServers(hba, directory.path)
    ;[server, plain] = await Promise.all([
      startPostgres({ settings: { ssl: 'on', ssl_cert_file: cert, ssl_key_file: key, ssl_ca_file: authority.ca, hba_file: hba } }),
      startPostgres()
    ])
    tls = { caFile: authority.ca, ...ONLY_CA }
    url = await at('localhost', server, 'tls')
    await query(server.url, 'create role secret login superuser password \'of-the-user\'; create role certified login superuser')
  })

  after(async () => {
    await Promise.all([server.stop(), plain.stop()])
    for (const each of [authority, stranger, directory]) each.remove()
  })

  async function at (host: string, { createDatabase }: PostgresServer, name: string): Promise<string> {
    const made = new URL(await createDatabase(name))
    made.hostname = host
    return made.href
  }

  async function opens (given: Partial<PostgresOptions> & { url: string }): Promise<void> {
    const options = optionsOf(given.url, given)
    const store = await openPostgres(options)
    assert.equal((await store.insert(claimOf())).kind, 'won')
    const sessions = await query(
      server.url,
      `select s.ssl from pg_stat_ssl s join pg_stat_activity a using (pid) where a.application_name = 'onceway claims ${options.instance}'`
    )
    assert.deepEqual(sessions, [{ ssl: true }])
    await store.close()
  }

  async function refused (given: Partial<PostgresOptions> & { url: string }, message: RegExp): Promise<void> {
    await assert.rejects(async () => openPostgres(optionsOf(given.url, given)), (error: unknown) => {
      assert.ok(error instanceof StartError, String(error))
      assert.match(error.message, message)
      assert.doesNotMatch(error.message, /of-the-/)
      return true
    })
  }

  test('with the authority as caFile the certificate and its name are checked, and everything is encrypted', async () => {
    await opens({ url, tls })
  })

  test('sslmode and sslrootcert in the URL do the same', async () => {
    await opens({ url: `${url}?sslmode=verify-full&sslrootcert=${authority.ca}` })
    await opens({ url: `${url}?sslmode=require&sslrootcert=${authority.ca}` })
  })

  test('a certificate of somebody else\'s authority is refused in a sentence, under every sslmode that is not no-verify', async () => {
    const untrusted = /localhost.*signed by nobody that is trusted here.*caFile/
    await refused({ url, tls: { caFile: stranger.ca, ...ONLY_CA } }, untrusted)
    await refused({ url, tls: { caFile: null, ...ONLY_CA } }, untrusted)
    for (const mode of ['require', 'verify-ca', 'verify-full']) await refused({ url: `${url}?sslmode=${mode}` }, untrusted)
    await opens({ url: `${url}?sslmode=no-verify` })
  })

  test('a certificate for another name is refused in a sentence', async () => {
    await refused({ url: await at('127.0.0.1', server, 'name'), tls }, /certificate of Postgres at 127\.0\.0\.1.* is for another name/)
  })

  test('a server that demands TLS of this user says so to who comes without', async () => {
    const secret = new URL(url)
    secret.username = 'secret'
    secret.password = 'of-the-user'
    await refused({ url: secret.href }, /refused the user "secret".*TLS.*stores\.postgres\.tls/)
    await opens({ url: secret.href, tls })
  })

  test('a server without TLS is refused in a sentence', async () => {
    await refused({ url: await at('localhost', plain, 'plain'), tls }, /does not speak TLS/)
  })

  test('a client certificate is shown to a server that asks for one', async () => {
    const { cert, key } = authority.sign('certified', [])
    const certified = new URL(url)
    certified.username = 'certified'
    certified.password = ''
    await opens({ url: certified.href, tls: { caFile: authority.ca, certFile: cert, keyFile: key } })
    await refused({ url: certified.href, tls }, /refused the user "certified"/)
  })

  test('a file that is not there is named', async () => {
    await refused(
      { url, tls: { caFile: '/no/such.pem', ...ONLY_CA } },
      /stores\.postgres\.tls\.caFile cannot be read: \/no\/such\.pem \(ENOENT\)/
    )
    await refused({ url: `${url}?sslmode=verify-full&sslrootcert=/no/such.pem` }, /\/no\/such\.pem \(ENOENT\)/)
  })
})
