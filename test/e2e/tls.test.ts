/** TLS of whole processes: certificates that change under load, workers, the admin port and commands that ask it. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { copyFileSync, mkdirSync, renameSync, symlinkSync } from 'node:fs'
import { Agent } from 'node:https'
import { connect as connectPlain } from 'node:net'
import { after, before, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { connect } from 'node:tls'
import { directory, fileIn, say } from '../cli/world.ts'
import { call } from '../harness/call.ts'
import type { CallOptions, Called } from '../harness/call.ts'
import { makeAuthority, textOf } from '../harness/certificates.ts'
import type { Authority, Signed } from '../harness/certificates.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { startPostgres } from '../harness/postgres.ts'
import type { PostgresServer } from '../harness/postgres.ts'
import { startWitness } from '../harness/witness.ts'
import { startReloadable } from './reload-world.ts'
import type { Reloadable } from './reload-world.ts'

const WITHIN_MS = 60_000
const CLIENTS = 8
const TOKEN = 'ow_a-token-of-the-test-for-tls'

describe('TLS of a process', needs('openssl'), () => {
  let authority: Authority
  before(() => { authority = makeAuthority() })
  after(() => { authority.remove() })

  interface World {
    readonly gateway: Reloadable
    /** Replaces the files as Kubernetes does: all of them in one step, by a symbolic link. */
    readonly swap: (signed: Signed) => void
    readonly ask: (url: string, path: string, options?: CallOptions) => Promise<Called>
  }

  async function start (t: TestContext, more: Partial<Record<'text' | 'admin' | 'listen', string>> = {}): Promise<World> {
    const witness = await startWitness()
    t.after(() => witness.close())
    const mounted = directory(t)
    let version = 0
    const swap = ({ cert, key }: Signed): void => {
      const next = `${mounted}/..${++version}`
      mkdirSync(next)
      copyFileSync(cert, `${next}/tls.crt`)
      copyFileSync(key, `${next}/tls.key`)
      symlinkSync(next, `${mounted}/..next`)
      renameSync(`${mounted}/..next`, `${mounted}/..data`)
    }
    swap(authority.sign('gateway', ['127.0.0.1']))
    for (const name of ['tls.crt', 'tls.key']) symlinkSync(`..data/${name}`, `${mounted}/${name}`)
    const tls = `certFile: ${mounted}/tls.crt, keyFile: ${mounted}/tls.key`
    const gateway = await startReloadable(t, `
version: 1
listen: { host: 127.0.0.1, port: 0, tls: { ${tls}${more.listen ?? ''} } }
admin: { host: 127.0.0.1, port: 0, token: ${TOKEN}, tls: { ${tls}${more.admin ?? ''} } }
drain: { delay: 0s, timeout: 5s }
${more.text ?? ''}
upstreams: { api: { url: "${witness.url}" } }
routes:
  - { name: things, match: { path: /things }, upstream: api, idempotency: { scope: public } }
  - match: { path: "/*" }
    upstream: api
`, ['--data-dir', directory(t)])
    const ask: World['ask'] = (url, path, options = {}) =>
      call(url, path, { ...options, tls: { ca: textOf(authority.ca), ...options.tls } })
    return { gateway, swap, ask }
  }

  async function serialAt (url: string): Promise<string> {
    const socket = connect({ host: '127.0.0.1', port: Number(new URL(url).port), ca: textOf(authority.ca) })
    await once(socket, 'secureConnect')
    const { serialNumber } = socket.getPeerCertificate()
    socket.destroy()
    return serialNumber
  }

  const metric = async ({ ask, gateway }: World, series: string): Promise<number> => {
    const { text } = await ask(gateway.adminUrl, '/metrics', { method: 'GET' })
    return Number(text.split('\n').find((line) => line.startsWith(`${series} `))?.split(' ').at(-1))
  }

  const READ = 'onceway_tls_certificate_reads_total{listener="listen",result="ok"}'

  test('a certificate is rotated under load: no request fails, old connections go on, new ones get the new certificate', async (t) => {
    const world = await start(t)
    const { gateway, swap, ask } = world
    const keeping = Array.from({ length: CLIENTS }, () => new Agent({ keepAlive: true, maxSockets: 1 }))
    t.after(() => { for (const agent of keeping) agent.destroy() })
    const [failures, ended] = [[] as string[], [] as string[]]
    let number = 0
    const over = new AbortController()
    const post = async (agent?: Agent): Promise<void> => {
      const headers = { 'Idempotency-Key': `k${++number}` }
      const sent = ask(gateway.url, '/things', { headers, body: 'one', ...agent !== undefined && { agent } })
      const status = await sent.then((answer) => String(answer.status), String)
      if (status !== '201') failures.push(status)
    }
    const load = keeping.flatMap((agent) => [agent, undefined]).map(async (agent) => { while (!over.signal.aborted) await post(agent) })
    await eventually(() => number > CLIENTS * 4, 'the load runs', WITHIN_MS)
    for (const socket of keeping.flatMap(({ sockets }) => Object.values(sockets).flat())) {
      socket?.once('close', () => { ended.push('closed') })
    }
    for (const round of [1, 2]) {
      const before = await serialAt(gateway.url)
      swap(authority.sign('gateway', ['127.0.0.1'], { file: `gateway-${round}` }))
      await eventually(async () => await serialAt(gateway.url) !== before, 'new connections get it', WITHIN_MS)
      await eventually(async () => await metric(world, READ) === round, 'it is counted', WITHIN_MS)
    }
    const expected = await serialAt(gateway.url)
    await eventually(async () => await serialAt(gateway.adminUrl) === expected, 'the admin port has it too', WITHIN_MS)
    over.abort()
    await Promise.all(load)
    assert.deepEqual([failures, ended], [[], []])
    assert.ok(number > 100, `${number} requests`)
  })

  test('a client that connects and says nothing is sent away, and counted', async (t) => {
    const world = await start(t)
    const silent = connectPlain(Number(new URL(world.gateway.url).port), '127.0.0.1').resume()
    t.after(() => { silent.destroy() })
    await once(silent, 'close')
    const failed = 'onceway_tls_handshake_failures_total{listener="listen",reason="timeout"}'
    await eventually(async () => await metric(world, failed) === 1, 'it is counted', WITHIN_MS)
  })

  test('SIGHUP reads the files again, and takes another file and another version', async (t) => {
    const { gateway, ask } = await start(t)
    const other = authority.sign('other', ['127.0.0.1'])
    const text = textOf(gateway.file)
    const listening = (tls: string): string => text.replace(/listen: .*/, `listen: { host: 127.0.0.1, port: 0${tls} }`)
    const moved = listening(`, tls: { certFile: ${other.cert}, keyFile: ${other.key}, minVersion: TLSv1.3 }`)
    assert.equal((await gateway.reload(moved)).msg, 'configuration reloaded')
    await assert.rejects(ask(gateway.url, '/x', { method: 'GET', tls: { maxVersion: 'TLSv1.2' } }))
    assert.notEqual(await serialAt(gateway.url), await serialAt(gateway.adminUrl))
    const [wrongPair, without] = [moved.replace(other.key, authority.sign('third', []).key), listening('')]
    assert.match(JSON.stringify(await gateway.reload(wrongPair)), /listen\.tls\.keyFile: .*third\.key is not the key of .*other\.pem/)
    assert.match(JSON.stringify(await gateway.reload(without)), /listen\.tls cannot change in a running process/)
    assert.equal((await ask(gateway.url, '/x', { method: 'GET' })).status, 201)
  })

  test('commands ask an admin port that speaks TLS, and its cookies are for TLS alone', async (t) => {
    const { gateway, ask } = await start(t)
    const token = fileIn(t, 'token', TOKEN)
    const config = fileIn(t, 'port.yaml', textOf(gateway.file).replace(/(admin: .*port: )0/, `$1${new URL(gateway.adminUrl).port}`))
    const remote = ['records', 'list', '--admin-url', gateway.adminUrl, '--token-file', token]
    assert.equal((await say([...remote, '--ca-file', authority.ca])).exitCode, 0)
    const distrusted = await say(remote)
    assert.equal(distrusted.exitCode, 1)
    assert.match(distrusted.err, /no answer from the gateway at https:.*certificate/)
    assert.equal((await say(['healthcheck', '--config', config])).exitCode, 0)
    assert.equal((await say(['healthcheck', '--url', gateway.adminUrl, '--ca-file', authority.ca])).exitCode, 0)
    assert.equal((await say(['healthcheck', '--url', gateway.adminUrl])).exitCode, 1)
    const plain = await say(['healthcheck', '--url', gateway.adminUrl.replace('https', 'http')])
    assert.equal(plain.exitCode, 1)
    assert.match(plain.err, / \(ECONNRESET\)\. If the admin port has TLS, write https:\/\/\.$/)
    const noAuthority = await say(['healthcheck', '--url', gateway.adminUrl, '--ca-file', token])
    assert.equal(noAuthority.exitCode, 2)
    assert.match(noAuthority.err, /^onceway: \S+token is no certificate in PEM\.$/m)
    assert.equal((await say(['records', 'list', '--ca-file', authority.ca])).exitCode, 2, 'it is for --admin-url')
    const signed = await ask(gateway.adminUrl, '/sign-in', {
      headers: { 'Content-Type': 'application/x-www-form-urlencoded', Origin: gateway.adminUrl },
      body: new URLSearchParams({ token: TOKEN }).toString()
    })
    assert.equal(signed.status, 303, signed.text)
    assert.match(String(signed.headers['set-cookie']), /^__Host-onceway-session=.*; Secure/)
  })

  test('an admin port that requires client certificates', async (t) => {
    const { gateway, ask } = await start(t, { admin: `, clientCertificates: required, clientCaFile: ${authority.ca}` })
    const operator = authority.sign('operator', [])
    await assert.rejects(ask(gateway.adminUrl, '/livez', { method: 'GET' }))
    const own = ['--cert-file', operator.cert, '--key-file', operator.key]
    assert.equal((await say(['healthcheck', '--url', gateway.adminUrl, '--ca-file', authority.ca, ...own])).exitCode, 0)
    const nameless = await say(['healthcheck', '--url', gateway.adminUrl, '--ca-file', authority.ca])
    assert.equal(nameless.exitCode, 1)
    assert.match(nameless.err, /\. If it asks for client certificates, give --cert-file and --key-file\.$/)
  })

  describe('with workers', needs('postgres'), () => {
    let postgres: PostgresServer
    before(async () => { postgres = await startPostgres() })
    after(() => postgres.stop())

    test('each worker takes the new certificate, and the callers of client certificates are the same in all', async (t) => {
      const world = await start(t, {
        text: `workers: 2\nstores: { postgres: { url: "${await postgres.createDatabase('tls')}" } }`,
        listen: `, clientCertificates: optional, clientCaFile: ${authority.ca}`
      })
      const { gateway, swap, ask } = world
      const before = await serialAt(gateway.url)
      swap(authority.sign('gateway', ['127.0.0.1'], { file: 'gateway-for-workers' }))
      await eventually(async () => await metric(world, READ) === 2, 'both have read it', WITHIN_MS)
      const serials = await Promise.all(Array.from({ length: 8 }, () => serialAt(gateway.url)))
      assert.ok(!serials.includes(before))
      const alice = authority.sign('alice', [])
      const tls = { cert: textOf(alice.cert), key: textOf(alice.key) }
      const answers: Called[] = []
      const headers = { 'Idempotency-Key': 'one' }
      for (let count = 0; count < 6; count++) answers.push(await ask(gateway.url, '/things', { headers, body: 'one', tls }))
      assert.deepEqual(answers.map(({ headers }) => headers['idempotency-status']), ['executed', ...Array<string>(5).fill('replayed')])
    })
  })
})
