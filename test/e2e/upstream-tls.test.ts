/** Upstreams whose certificates somebody's own authority has signed: what the log says without it, and every way there with it. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import { connect } from 'node:net'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { directory } from '../cli/world.ts'
import { call } from '../harness/call.ts'
import { makeAuthority } from '../harness/certificates.ts'
import type { Authority, Signed } from '../harness/certificates.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { startReloadable } from './reload-world.ts'
import type { Reloadable } from './reload-world.ts'

/** It shares the processors with other tests. */
const LONGEST_MS = 30_000

const fileOf = (port: number, more = '', host = '127.0.0.1'): string => `
version: 1
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
drain: { delay: 0s, timeout: 5s }
upstreams: { api: { url: "https://${host}:${port}"${more} } }
routes:
  - name: guarded
    match: { path: /guarded, methods: [POST] }
    upstream: api
    idempotency: { scope: public }
  - name: dropped
    match: { path: /dropped, methods: [POST] }
    upstream: api
    idempotency: { mode: drop, profile: relay, scope: public, key: { from: ["header:Idempotency-Key"] } }
  - name: hooks
    match: { path: /hooks, methods: [POST] }
    upstream: api
    idempotency: { mode: inbox, profile: relay, scope: public, key: { from: ["header:Idempotency-Key"], required: true }, inbox: { backoff: { first: 100ms, longest: 200ms } } }
  - match: { path: "/*" }
    upstream: api
`

interface TlsServer { readonly port: number, readonly seen: string[] }

async function startTls (t: TestContext, { cert, key }: Signed): Promise<TlsServer> {
  const seen: string[] = []
  const server = createServer({ cert: readFileSync(cert), key: readFileSync(key) }, (request, response) => {
    seen.push(`${request.method} ${request.url}`)
    request.resume().on('end', () => { response.writeHead(201).end('done') })
  })
  server.on('upgrade', (request, socket) => {
    seen.push(`upgrade ${request.url}`)
    socket.end('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => { server.closeAllConnections(); server.close() })
  return { port: (server.address() as AddressInfo).port, seen }
}

const post = (gateway: Reloadable, path: string, key: string) => call(gateway.url, path, {
  headers: { 'Idempotency-Key': key },
  body: 'one'
})

/** The first line of the answer, and what came behind its head. */
async function upgrade ({ url }: Reloadable): Promise<string> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.write(`GET /tunnel HTTP/1.1\r\nHost: ${hostname}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n`)
  let text = ''
  for await (const chunk of socket) text += String(chunk)
  return text
}

describe('an upstream with a certificate of one\'s own authority', needs('openssl'), () => {
  let authority: Authority
  let stranger: Authority
  let signed: Signed
  before(() => {
    authority = makeAuthority()
    stranger = makeAuthority()
    signed = authority.sign('upstream', ['127.0.0.1', 'localhost'])
  })
  after(() => { authority.remove(); stranger.remove() })

  test('without the authority: 502, nothing is sent, and the log says why, and what helps; a reload that names it is enough', async (t) => {
    const server = await startTls(t, signed)
    const gateway = await startReloadable(t, fileOf(server.port), ['--data-dir', directory(t)])
    const { status, json } = await post(gateway, '/guarded', 'first')
    assert.deepEqual([status, (json as { code: string }).code], [502, 'upstream-unreachable'])
    const why = /^(UNABLE_TO_VERIFY_LEAF_SIGNATURE|UNABLE_TO_GET_ISSUER_CERT_LOCALLY|SELF_SIGNED_CERT_IN_CHAIN): .*upstreams\.api\.ca or caFile, or by NODE_EXTRA_CA_CERTS$/
    assert.match(String((await gateway.logged(({ route }) => route === 'guarded'))['reason']), why)
    assert.equal((await call(gateway.url, '/passed', { method: 'GET' })).status, 502)
    assert.match(String((await gateway.logged(({ msg }) => msg === 'pass-through failed'))['fault']), why)
    await post(gateway, '/dropped', 'first')
    assert.match(String((await gateway.logged(({ route }) => route === 'dropped'))['reason']), why)
    assert.equal((await post(gateway, '/hooks', 'first')).status, 202)
    assert.match(String((await gateway.logged(({ result }) => result === 'again'))['error']), why)
    assert.match(await upgrade(gateway), /^HTTP\/1\.1 502 /)
    assert.deepEqual(server.seen, [], 'nothing was sent')

    const reloaded = await gateway.reload(fileOf(server.port, `, caFile: "${authority.ca}"`))
    assert.equal(reloaded.msg, 'configuration reloaded')
    assert.equal((await post(gateway, '/guarded', 'first')).status, 201)
    assert.equal((await post(gateway, '/dropped', 'second')).status, 201)
    assert.equal((await call(gateway.url, '/passed', { method: 'GET' })).status, 201)
    assert.match(await upgrade(gateway), /^HTTP\/1\.1 101 [\s\S]*hello$/)
    await eventually(() => server.seen.includes('POST /hooks'), 'the message is delivered', LONGEST_MS)

    // The connections that stand are those of the upstream as it was configured then.
    await gateway.reload(fileOf(server.port, `, caFile: "${stranger.ca}"`))
    const before = server.seen.length
    assert.equal((await post(gateway, '/guarded', 'third')).status, 502)
    assert.equal(server.seen.length, before)
  })

  test('the authority can stand in the file itself, beside others', async (t) => {
    const server = await startTls(t, signed)
    const pem = `${readFileSync(stranger.ca, 'utf8')}${readFileSync(authority.ca, 'utf8')}`
    const gateway = await startReloadable(t, fileOf(server.port, `, ca: ${JSON.stringify(pem)}`), ['--data-dir', directory(t)])
    assert.equal((await post(gateway, '/guarded', 'first')).status, 201)
  })

  test('NODE_EXTRA_CA_CERTS does it for every upstream', async (t) => {
    const server = await startTls(t, signed)
    const gateway = await startReloadable(t, fileOf(server.port), ['--data-dir', directory(t)], { NODE_EXTRA_CA_CERTS: authority.ca })
    assert.equal((await post(gateway, '/guarded', 'first')).status, 201)
  })

  test('a certificate for another name: refused, and the log says so', async (t) => {
    const server = await startTls(t, authority.sign('elsewhere', ['elsewhere.example']))
    const gateway = await startReloadable(t, fileOf(server.port, `, caFile: "${authority.ca}"`), ['--data-dir', directory(t)])
    assert.equal((await post(gateway, '/guarded', 'first')).status, 502)
    assert.match(
      String((await gateway.logged(({ route }) => route === 'guarded'))['reason']),
      /^ERR_TLS_CERT_ALTNAME_INVALID: .* for another name/
    )
    assert.deepEqual(server.seen, [])
  })

  test('what is no certificate, and a file that is not there, are mistakes with their place; a reload with one changes nothing', async (t) => {
    const server = await startTls(t, signed)
    const gateway = await startReloadable(t, fileOf(server.port, `, caFile: "${authority.ca}"`), ['--data-dir', directory(t)])
    const nonsense = join(directory(t), 'nonsense.pem')
    writeFileSync(nonsense, 'hunter2')
    for (const [more, mistake] of [
      [`, caFile: "${nonsense}"`, /upstreams\.api\.caFile: \S+nonsense\.pem is no certificate in PEM/],
      [', ca: "-----BEGIN CERTIFICATE-----\\nhunter2\\n-----END CERTIFICATE-----"', /upstreams\.api\.ca: is no certificate in PEM/],
      [', caFile: /no/such/file.pem', /upstreams\.api\.caFile: \/no\/such\/file\.pem cannot be read \(ENOENT\)/]
    ] as const) {
      const line = await gateway.reload(fileOf(server.port, more))
      assert.equal(line.level, 'error')
      assert.match(JSON.stringify(line['mistakes']), mistake)
      assert.match(JSON.stringify(line['mistakes']), /onceway\.yaml:6:/)
      assert.ok(!JSON.stringify(line).includes('hunter2'))
    }
    assert.equal((await post(gateway, '/guarded', 'first')).status, 201)
  })
})
