/** A listener that speaks TLS: requests, client certificates, and certificates that change. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent } from 'node:https'
import { connect as connectPlain } from 'node:net'
import { after, before, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { connect } from 'node:tls'
import type { ConnectionOptions } from 'node:tls'
import type { ListenerTlsConfig } from '../../../src/config/config.ts'
import type { IdempotencyPolicy } from '../../../src/core/policy/policy.ts'
import { ListenerCertificates } from '../../../src/process/certificates.ts'
import { call, callRaw } from '../../harness/call.ts'
import type { CallOptions, Called } from '../../harness/call.ts'
import { makeAuthority, textOf } from '../../harness/certificates.ts'
import type { Authority, Signed } from '../../harness/certificates.ts'
import { makeDirectory } from '../../harness/directory.ts'
import { eventually } from '../../harness/eventually.ts'
import { guardedRoute, recordingLog, startGateway } from '../../harness/gateway.ts'
import type { TestGateway } from '../../harness/gateway.ts'
import { needs } from '../../harness/needs.ts'
import { startWitness } from '../../harness/witness.ts'
import type { Witness } from '../../harness/witness.ts'

const ROTATED_WITHIN_MS = 30_000

interface World {
  readonly gateway: TestGateway
  readonly witness: Witness
  readonly files: ListenerTlsConfig
  readonly log: ReturnType<typeof recordingLog>
  readonly faults: string[]
  readonly post: (key: string, client?: Signed, options?: CallOptions) => Promise<Called>
}

describe('a listener that speaks TLS', needs('openssl'), () => {
  let authority: Authority
  let stranger: Authority
  let server: Signed
  before(() => {
    authority = makeAuthority()
    stranger = makeAuthority('of strangers')
    server = authority.sign('gateway', ['127.0.0.1'])
  })
  after(() => { authority.remove(); stranger.remove() })

  interface WorldOptions extends Partial<ListenerTlsConfig> {
    readonly scope?: IdempotencyPolicy['scope']
    readonly trustProxies?: readonly string[]
    /** PEM of the authorities of clients. */
    readonly clientCa?: string
  }

  async function start (t: TestContext, options: WorldOptions = {}): Promise<World> {
    const { scope = CERTIFICATE, trustProxies = [], clientCa, ...changes } = options
    const directory = makeDirectory('listener')
    t.after(() => { directory.remove() })
    const at = (name: string): string => `${directory.path}/${name}`
    copyFileSync(server.cert, at('tls.crt'))
    copyFileSync(server.key, at('tls.key'))
    writeFileSync(at('ca.crt'), clientCa ?? textOf(authority.ca))
    const files: ListenerTlsConfig = {
      certFile: at('tls.crt'),
      keyFile: at('tls.key'),
      minVersion: 'TLSv1.2',
      clientCertificates: null,
      clientCaFile: changes.clientCertificates == null ? null : at('ca.crt'),
      ...changes
    }
    const log = recordingLog()
    const faults: string[] = []
    const meter = { ...NO_METER, handshakeFailed: (_listener: string, fault: string) => { faults.push(fault) } }
    const tls = ListenerCertificates.open('listen', files, { log, meter })
    assert.ok(tls !== null)
    t.after(() => { tls.close() })
    const witness = await startWitness()
    t.after(async () => { await witness.close() })
    const route = guardedRoute(witness.url, { scope })
    const gateway = await startGateway(t, {
      routes: [route, { ...route, name: 'rest', match: { ...route.match, methods: [] }, idempotency: null }],
      rules: 2,
      trustProxies,
      tls
    })
    const post: World['post'] = (key, client, options = {}) =>
      call(gateway.url, '/things', {
        headers: { 'Idempotency-Key': key },
        body: 'one',
        ...options,
        tls: { ...tlsOf(client), ...options.tls }
      })
    return { gateway, witness, files, log, faults, post }
  }

  function tlsOf (client?: Signed): { ca: string, cert?: string, key?: string } {
    return { ca: textOf(authority.ca), ...client !== undefined && { cert: textOf(client.cert), key: textOf(client.key) } }
  }

  test('a request is executed once and replayed, another passes through, and the upstream knows that it was https', async (t) => {
    const { gateway, witness, post } = await start(t, { scope: PUBLIC })
    const answers = [await post('1'), await post('1')]
    assert.deepEqual(answers.map(({ status, headers }) => [status, headers['idempotency-status']]), [[201, 'executed'], [201, 'replayed']])
    const passed = await call(gateway.url, '/other', { method: 'GET', tls: tlsOf(), headers: { 'X-Forwarded-Proto': 'http' } })
    assert.equal(passed.status, 201)
    assert.deepEqual(witness.seen.map(({ headers }) => headers['x-forwarded-proto']), ['https', 'https'])
  })

  test('if a certificate is required, a client without one, or with a foreign or an expired one, gets no connection', async (t) => {
    const { post, witness, faults, log } = await start(t, { clientCertificates: 'required' })
    const expired = authority.sign('late', [], { days: '-1' })
    for (const [client, fault] of [
      [undefined, 'certificate-missing'], [stranger.sign('mallory', []), 'certificate-refused'], [expired, 'certificate-refused']
    ] as const) {
      await assert.rejects(post('1', client))
      await eventually(() => faults.at(-1) === fault, () => `${fault}, and not ${faults.join(', ')}`)
    }
    assert.equal(witness.seen.length, 0)
    assert.equal(log.lines.filter(({ event }) => event === 'tls-handshake-failed').length, 1, 'one line for all of them')
    assert.equal((await post('1', authority.sign('alice', []))).status, 201)
  })

  test('if it is optional, a client without one is told what its route needs, and one that is not valid gets no connection', async (t) => {
    const { post, gateway, faults } = await start(t, { clientCertificates: 'optional' })
    const refused = await post('1')
    assert.deepEqual([refused.status, refused.json.code], [400, 'scope-missing'])
    assert.match(refused.json.detail, /shows no client certificate/)
    assert.equal((await call(gateway.url, '/other', { method: 'GET', tls: tlsOf() })).status, 201)
    await assert.rejects(post('1', stranger.sign('mallory', [])))
    await assert.rejects(post('1', authority.sign('late', [], { days: '-1' })))
    assert.deepEqual(faults.filter((fault) => fault !== 'closed'), ['certificate-refused', 'certificate-refused'])
    assert.equal((await post('1', authority.sign('alice', []))).status, 201)
  })

  test('a renewed certificate is the same caller, with whichever key; the same key under another name is another one', async (t) => {
    const { post } = await start(t, { clientCertificates: 'required' })
    const first = authority.sign('alice', [], { names: 'URI:spiffe://test/alice' })
    const renewed = authority.sign('alice', [], { file: 'alice-renewed', names: 'URI:spiffe://test/alice' })
    const withItsKey = authority.sign('alice', [], { file: 'alice-with-key', names: 'URI:spiffe://test/alice', key: first.key })
    const bob = authority.sign('bob', [], { names: 'URI:spiffe://test/bob', key: first.key })
    const namesake = authority.sign('alice', [], { file: 'namesake', names: 'URI:spiffe://test/other', key: first.key })
    const said: unknown[] = []
    for (const client of [first, renewed, withItsKey, bob, namesake]) said.push((await post('1', client)).headers['idempotency-status'])
    assert.deepEqual(said, ['executed', 'replayed', 'replayed', 'executed', 'executed'])
  })

  test('of two authorities, one cannot name the callers of the other, with an issuer of the same name either', async (t) => {
    const { post } = await start(t, { clientCertificates: 'required', clientCa: `${textOf(authority.ca)}${textOf(stranger.ca)}` })
    const said: unknown[] = []
    for (const root of [authority, stranger]) {
      const issuer = root.below('issues clients')
      const direct = root.sign('carol', [], { file: 'carol-direct' })
      const below = issuer.sign('carol', [])
      // The client sends its issuer too.
      const chain = { ca: textOf(authority.ca), cert: `${textOf(below.cert)}${textOf(issuer.ca)}`, key: textOf(below.key) }
      said.push((await post('1', direct)).headers['idempotency-status'])
      said.push((await post('1', undefined, { tls: chain })).headers['idempotency-status'])
      said.push((await post('1', undefined, { tls: chain })).headers['idempotency-status'])
    }
    assert.deepEqual(said, ['executed', 'executed', 'replayed', 'executed', 'executed', 'replayed'])
  })

  test('by default a certificate counts together with what else names the caller', async (t) => {
    const { post } = await start(t, { clientCertificates: 'optional', scope: { kind: 'credential', anonymous: false, cookies: 'refuse' } })
    const [alice, bob] = ['alice', 'bob'].map((name) => authority.sign(name, [])) as [Signed, Signed]
    const headers = { 'Idempotency-Key': '1', 'X-Api-Key': 'shared' }
    const said: unknown[] = []
    for (const client of [alice, bob, undefined, alice]) said.push((await post('1', client, { headers })).headers['idempotency-status'])
    assert.deepEqual(said, ['executed', 'executed', 'executed', 'replayed'])
  })

  test('the upstream sees the certificate of the connection, and nothing that a client forged', async (t) => {
    const { post, witness } = await start(t, { clientCertificates: 'optional', scope: PUBLIC })
    const forged = {
      'X-Forwarded-Client-Cert': 'Hash=00;Subject="CN=admin"',
      'X-SSL-Client-CN': 'admin',
      'Client-Cert': ':AAAA:',
      'X-SSL-Client-Verify': 'SUCCESS',
      ssl_client_verify: 'SUCCESS',
      'X-Client-Cert-Chain-Verified': 'true'
    }
    await post('1', authority.sign('alice', [], { names: 'URI:spiffe://test/alice' }), { headers: { 'Idempotency-Key': '1', ...forged } })
    await post('2', undefined, { headers: { 'Idempotency-Key': '2', ...forged } })
    const [named, unnamed] = witness.seen.map(({ headers }) => headers)
    assert.match(String(named?.['x-forwarded-client-cert']), /^Hash=[0-9a-f]{64};Subject="CN=alice";URI="spiffe:\/\/test\/alice"$/)
    assert.equal(unnamed?.['x-forwarded-client-cert'], undefined)
    assert.doesNotMatch(JSON.stringify(witness.seen.map(({ headers }) => headers)), /admin|SUCCESS|verified/i)
    assert.deepEqual([named?.['client-cert'], unnamed?.['client-cert']], [undefined, undefined])
  })

  test('the certificate of a trusted proxy names no caller, and the field that it forwards reaches the upstream', async (t) => {
    const { post, witness, gateway } = await start(t, { clientCertificates: 'required', trustProxies: ['127.0.0.1'] })
    const proxy = authority.sign('proxy', [])
    const refused = await post('1', proxy, { headers: { 'Idempotency-Key': '1', 'X-Forwarded-Client-Cert': 'Hash=11' } })
    assert.equal(refused.json.code, 'scope-missing')
    assert.match(refused.json.detail, /proxy in trustProxies/)
    await call(gateway.url, '/other', { method: 'GET', headers: { 'X-Forwarded-Client-Cert': 'Hash=11' }, tls: tlsOf(proxy) })
    assert.equal(witness.seen[0]?.headers['x-forwarded-client-cert'], 'Hash=11')
  })

  test('a lower version of TLS than the configured one gets no connection', async (t) => {
    const { post, faults } = await start(t, { minVersion: 'TLSv1.3', scope: PUBLIC })
    await assert.rejects(post('1', undefined, { tls: { maxVersion: 'TLSv1.2' } }))
    assert.deepEqual(faults, ['protocol'])
    assert.equal((await post('1')).status, 201)
  })

  test('plain HTTP is closed; an idle handshake counts as a connection, and the end of a drain ends it', async (t) => {
    const { gateway, faults } = await start(t, { scope: PUBLIC })
    assert.equal(await callRaw(gateway.url, 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'), '')
    assert.deepEqual(faults, ['plain-http'])
    const idle = connectPlain(Number(new URL(gateway.url).port), '127.0.0.1')
    idle.on('error', () => {})
    const closed = once(idle, 'close')
    await eventually(() => gateway.held().connections === 1, 'the handshake has a place among the connections')
    gateway.cut()
    await closed
    await eventually(() => gateway.held().connections === 0, 'the place is free')
  })

  test('a WebSocket, and a body behind 100-continue', async (t) => {
    const { gateway, witness } = await start(t, { scope: PUBLIC })
    const switched = await raw(gateway, 'GET /socket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
    assert.match(switched, /^HTTP\/1\.1 (101|201) /)
    const head = 'Host: x\r\nIdempotency-Key: c\r\nExpect: 100-continue\r\nContent-Length: 3\r\nConnection: close'
    const continued = await raw(gateway, `POST /things HTTP/1.1\r\n${head}\r\n\r\none`)
    assert.match(continued, /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 201 /)
    assert.ok(witness.seen.some(({ headers }) => headers['idempotency-key'] === 'c'))
  })

  async function raw ({ url }: TestGateway, text: string, options: ConnectionOptions = {}): Promise<string> {
    const socket = connect({ host: '127.0.0.1', port: Number(new URL(url).port), ca: textOf(authority.ca), ...options })
    socket.on('error', () => {})
    socket.write(text)
    let answer = ''
    for await (const chunk of socket) {
      answer += String(chunk)
      if (answer.includes('101 ')) break
    }
    socket.destroy()
    return answer
  }

  test('a new certificate is for new connections, and half of one changes nothing', async (t) => {
    const { gateway, files, log, post } = await start(t, { scope: PUBLIC })
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    t.after(() => { agent.destroy() })
    const before = await serial(gateway)
    await post('1', undefined, { agent })
    const renewed = authority.sign('gateway', ['127.0.0.1'], { file: 'gateway-renewed' })
    copyFileSync(renewed.cert, files.certFile)
    await eventually(() => log.lines.some(({ event }) => event === 'certificate-refused'), 'half a pair is refused', ROTATED_WITHIN_MS)
    assert.equal(await serial(gateway), before)
    copyFileSync(renewed.key, files.keyFile)
    await eventually(() => log.lines.some(({ event }) => event === 'certificate-loaded'), 'the pair is taken', ROTATED_WITHIN_MS)
    assert.notEqual(await serial(gateway), before)
    const reused = await post('1', undefined, { agent })
    assert.equal(reused.headers['idempotency-status'], 'replayed')
    assert.equal(Object.values(agent.freeSockets).flat().length, 1)
    assert.ok(!JSON.stringify(log.lines).includes('PRIVATE KEY'))
  })

  test('files of no use change nothing: authorities that are cut off, an expired certificate, a pipe', async (t) => {
    const { gateway, files, log, post } = await start(t, { scope: PUBLIC, clientCertificates: 'optional' })
    const refused = async (reason: RegExp): Promise<void> => {
      const isSaid = () => log.lines.some((line) => line.event === 'certificate-refused' && reason.test(String(line.reason)))
      await eventually(isSaid, String(reason), ROTATED_WITHIN_MS)
      assert.equal((await post('1', alice)).status, 201)
    }
    const alice = authority.sign('alice', [])
    const [before, both] = [await serial(gateway), textOf(authority.ca) + textOf(stranger.ca)]
    const caFile = files.clientCaFile ?? ''
    writeFileSync(caFile, both.slice(0, -100))
    await refused(/ca\.crt has a certificate that is cut off$/)
    writeFileSync(caFile, both)
    const taken = () => log.lines.filter(({ event }) => event === 'certificate-loaded')
    await eventually(() => taken().length === 1, 'both authorities are taken', ROTATED_WITHIN_MS)
    assert.equal(taken()[0]?.file, caFile)
    const expired = authority.sign('gateway', ['127.0.0.1'], { file: 'expired', days: '-1' })
    copyFileSync(expired.key, files.keyFile)
    copyFileSync(expired.cert, files.certFile)
    await refused(/tls\.crt has expired on \d{4}-/)
    rmSync(files.certFile)
    execFileSync('mkfifo', [files.certFile])
    await refused(/tls\.crt is no regular file$/)
    assert.equal(await serial(gateway), before)
  })

  /** Of the certificate that a new connection gets. */
  async function serial ({ url }: TestGateway): Promise<string> {
    const socket = connect({ host: '127.0.0.1', port: Number(new URL(url).port), ca: textOf(authority.ca) })
    await once(socket, 'secureConnect')
    const { serialNumber } = socket.getPeerCertificate()
    socket.destroy()
    return serialNumber
  }
})

const CERTIFICATE: IdempotencyPolicy['scope'] = { kind: 'parts', parts: [{ kind: 'client-certificate' }] }
const PUBLIC: IdempotencyPolicy['scope'] = { kind: 'credential', anonymous: true, cookies: 'ignore' }
const NO_METER = { handshakeFailed: () => {}, certificate: () => {}, certificateRead: () => {} }
