import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { eventually } from '../harness/eventually.ts'
import { Link } from './proxy.ts'
import { stampOf } from './stamps.ts'

/** A server that reports what it received, a link to it, and a client at the other end. */
async function linked (t: TestContext, onUp?: (chunk: Buffer) => void): Promise<{ link: Link, client: Far, servers: Far[] }> {
  const servers: Far[] = []
  const server = createServer({ allowHalfOpen: true }, (socket) => { servers.push(new Far(socket)) })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const link = new Link({ target: (server.address() as AddressInfo).port, ...onUp === undefined ? {} : { onUp } })
  await link.listen()
  t.after(async () => {
    await link.close()
    for (const { socket } of servers) socket.destroy()
    server.close()
  })
  const client = await clientOf(link)
  t.after(() => { client.socket.destroy() })
  return { link, client, servers }
}

async function clientOf (link: Link): Promise<Far> {
  const socket = connect({ port: link.port, host: '127.0.0.1', allowHalfOpen: true })
  await once(socket, 'connect')
  return new Far(socket)
}

/** One end of a connection, and the bytes that it received. */
class Far {
  readonly socket: Socket
  text = ''
  ended = false
  failure: string | null = null
  closed = false

  constructor (socket: Socket) {
    this.socket = socket
    socket.on('data', (chunk: Buffer) => { this.text += chunk.toString() })
    socket.on('end', () => { this.ended = true })
    socket.on('error', (error: NodeJS.ErrnoException) => { this.failure = error.code ?? error.message })
    socket.on('close', () => { this.closed = true })
  }

  async got (text: string): Promise<void> {
    await eventually(() => this.text === text, () => `${JSON.stringify(this.text)} came, and not ${JSON.stringify(text)}`)
  }
}

async function serverOf (servers: readonly Far[]): Promise<Far> {
  await eventually(() => servers.length > 0, 'a connection at the server')
  return servers[0] as Far
}

describe('the proxy of the chaos run', () => {
  test('passes everything on, in both directions, and ends as its ends do', async (t) => {
    const { client, servers } = await linked(t)
    client.socket.write('ask')
    const server = await serverOf(servers)
    await server.got('ask')
    server.socket.end('answer')
    await client.got('answer')
    await eventually(() => client.ended, 'the end at the client')
    client.socket.end('more')
    await server.got('askmore')
    await eventually(() => server.ended, 'the end at the server')
  })

  test('delays what passes, and keeps its order when the delay ends', async (t) => {
    const seen: string[] = []
    const { link, client, servers } = await linked(t, (chunk) => { seen.push(chunk.toString()) })
    const server = await serverOf(servers)
    link.delay(100)
    const sentAtMs = performance.now()
    client.socket.write('first ')
    await eventually(() => seen.length === 1, 'the first chunk at the proxy')
    link.delay(0)
    client.socket.write('second')
    await server.got('first second')
    // Not before its time. How long after depends on the machine.
    assert.ok(performance.now() - sentAtMs >= 100)
  })

  test('cuts with a reset at both ends', async (t) => {
    const { link, client, servers } = await linked(t)
    const server = await serverOf(servers)
    link.cut(1)
    await eventually(() => client.closed && server.closed, 'the end of both connections')
    assert.deepEqual([client.failure, server.failure], ['ECONNRESET', 'ECONNRESET'])
    await eventually(() => link.connections === 0, 'nothing left at the proxy')
  })

  test('half-closes one direction and leaves the other one open', async (t) => {
    const { link, client, servers } = await linked(t)
    const server = await serverOf(servers)
    link.halfClose('up', 1)
    await eventually(() => server.ended, 'the end at the server')
    server.socket.write('still here')
    await client.got('still here')
    assert.equal(client.ended, false)
  })

  test('a black hole swallows both directions and new connections, and delivers when it ends', async (t) => {
    const { link, client, servers } = await linked(t)
    const server = await serverOf(servers)
    link.hold()
    client.socket.write('held')
    server.socket.write('back')
    const second = await clientOf(link)
    t.after(() => { second.socket.destroy() })
    second.socket.write('second')
    const third = await clientOf(await untroubled(t))
    t.after(() => { third.socket.destroy() })
    assert.deepEqual([server.text, client.text, servers.length], ['', '', 1])
    link.release()
    await server.got('held')
    await client.got('back')
    await eventually(() => servers[1]?.text === 'second', 'the second connection at the server')
  })

  test('delivers what came into a black hole even if its sender has left', async (t) => {
    const { link, client, servers } = await linked(t)
    const server = await serverOf(servers)
    link.hold()
    client.socket.end('last words')
    await eventually(() => client.socket.writableFinished, 'everything written')
    link.release()
    await server.got('last words')
    await eventually(() => server.ended, 'the end at the server')
  })

  test('whoever waits behind a black hole learns when it ends that the other side has gone', async (t) => {
    const { link, client, servers } = await linked(t)
    const server = await serverOf(servers)
    link.hold()
    client.socket.write('is anybody there?')
    server.socket.resetAndDestroy()
    await untroubled(t)
    link.release()
    await eventually(() => client.ended || client.closed, 'the end at the client')
  })

  test('refuses connections, and listens on the same port again', async (t) => {
    const { link, client } = await linked(t)
    const { port } = link
    await link.refuse()
    await eventually(() => client.closed, 'the end of the connection')
    await assert.rejects(clientOf(link), { code: 'ECONNREFUSED' })
    await link.listen()
    assert.equal(link.port, port)
    const again = await clientOf(link)
    again.socket.destroy()
  })

  test('cuts the sender off at once and delivers its statement later', async (t) => {
    const { link, client, servers } = await linked(t)
    client.socket.write('begin;')
    const server = await serverOf(servers)
    await server.got('begin;')
    link.late(1, 20, 50)
    client.socket.write('commit;')
    await eventually(() => client.failure === 'ECONNRESET', 'the reset')
    await server.got('begin;commit;')
  })

  test('a target that has moved is found by the next connection', async (t) => {
    const { link } = await linked(t)
    const other = createServer((socket) => { new Far(socket).socket.end('other') })
    t.after(() => { other.close() })
    other.listen(0, '127.0.0.1')
    await once(other, 'listening')
    link.aim((other.address() as AddressInfo).port)
    const client = await clientOf(link)
    await client.got('other')
    client.socket.destroy()
  })

  test('shows the bytes when they come, before any black hole', async (t) => {
    const seen: string[] = []
    const { link, client, servers } = await linked(t, (chunk) => { seen.push(chunk.toString()) })
    await serverOf(servers)
    link.hold()
    client.socket.write('POST /')
    await eventually(() => seen.length > 0, 'the bytes at the proxy')
    assert.deepEqual(seen, ['POST /'])
    assert.equal(servers[0]?.text, '')
  })
})

/** Another link and server. When bytes came through there, they had time to come through here. */
async function untroubled (t: TestContext): Promise<Link> {
  const { link, client, servers } = await linked(t)
  client.socket.write('through')
  await (await serverOf(servers)).got('through')
  return link
}

test('a request is stamped by its head, whatever the spelling of its fields, and only where it begins', () => {
  const head = Buffer.from(
    'POST /hold/things HTTP/1.1\r\nhost: x\r\nX-Request-Id: call-9\r\nOnceway-Key: r-9\r\nIdempotency-Attempt: 3\r\n\r\n{"amount":1}'
  )
  assert.deepEqual(stampOf(head, 5, 'gateway-1'), { atMs: 5, call: 'call-9', record: 'r-9', attempt: 3, from: 'gateway-1' })
  const again = Buffer.from('PATCH / HTTP/1.1\r\nx-request-id: call-9\r\nonceway-key: r-9\r\nidempotency-attempt: 4\r\nOnceway-Replay: true\r\n\r\n')
  assert.deepEqual(stampOf(again, 5, 'gateway-1'), { atMs: 5, call: 'call-9', record: 'r-9', attempt: 4, from: 'gateway-1', replay: true })
  assert.equal(stampOf(Buffer.from('{"POST ":1}'), 5, 'gateway-1'), null)
})
