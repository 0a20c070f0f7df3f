/**
 * Upgrades: the client's connection is switched by the upstream's own 101, and by nothing else; then bytes go no faster
 * than they are read.
 */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingMessage, RequestListener } from 'node:http'
import { connect } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { UpstreamPolicy } from '../../../src/core/policy/policy.ts'
import { call, callRaw } from '../../harness/call.ts'
import { eventually } from '../../harness/eventually.ts'
import { guardedRoute, startGateway } from '../../harness/gateway.ts'
import type { TestGateway, TestGatewayOptions } from '../../harness/gateway.ts'

const ASKED = 'GET /chat HTTP/1.1\r\nHost: gateway\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: one, two\r\n'
const GO_ON = `${ASKED}\r\n`
const SWITCHED = `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${createHash('sha1').update('dGhlIHNhbXBsZSBub25jZQ==258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64')}\r\nX-Own: yes\r\n\r\n`

type Upgraded = (request: IncomingMessage, socket: Duplex) => void

interface World extends TestGateway { readonly upgrades: IncomingMessage[] }

async function start (
  t: TestContext,
  upgraded: Upgraded,
  options: Partial<TestGatewayOptions> = {},
  upstream: Partial<UpstreamPolicy> = {},
  plain: RequestListener = (_request, response) => { response.end('plain') }
): Promise<World> {
  const upgrades: IncomingMessage[] = []
  const sockets = new Set<Socket>()
  const server = createServer(plain)
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
  })
  server.on('upgrade', (request: IncomingMessage, socket: Duplex) => {
    upgrades.push(request)
    upgraded(request, socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const route = guardedRoute(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, {}, { connectTimeoutMs: 200, ...upstream })
  const gateway = await startGateway(t, { ...options, routes: [{ ...route, idempotency: null, match: { ...route.match, methods: [] } }] })
  t.after(async () => {
    await gateway.close()
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { ...gateway, upgrades }
}

function opened (t: TestContext, { url }: TestGateway, bytes = GO_ON): Socket {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.on('error', () => {})
  t.after(() => { socket.destroy() })
  socket.write(bytes)
  return socket
}

async function read (socket: Socket, enough: (text: string) => boolean): Promise<string> {
  let text = ''
  const take = (chunk: Buffer): void => { text += chunk.toString('latin1') }
  socket.on('data', take)
  await eventually(() => enough(text) || socket.closed, () => `read ${JSON.stringify(text)}`)
  socket.off('data', take)
  return text
}

test('the client gets the upstream\'s own 101 with its fields, no subprotocol that nobody chose, and then bytes in both directions', async (t) => {
  const world = await start(t, (_request, socket) => {
    socket.write(SWITCHED)
    socket.on('data', (chunk: Buffer) => { socket.write(`echo ${chunk.toString()}`) })
  })
  // What is sent behind the head belongs to the tunnel.
  const socket = opened(t, world, `${GO_ON}early`)
  const head = await read(socket, (text) => text.includes('echo early'))
  assert.match(head, /^HTTP\/1\.1 101 Switching Protocols\r\n/)
  assert.match(head, /\r\nX-Own: yes\r\n/i)
  assert.doesNotMatch(head, /sec-websocket-protocol/i)
  socket.write('later')
  assert.match(await read(socket, (text) => text.includes('later')), /echo later/)
  assert.deepEqual([world.held().tunnels, world.held().passing], [1, 1])
  assert.equal(world.upgrades[0]?.headers['sec-websocket-protocol'], 'one, two')
  assert.equal(world.upgrades[0]?.headers['via'], '1.1 onceway')
  socket.destroy()
  await eventually(() => world.held().tunnels === 0 && world.held().passing === 0, 'its places are free again')
})

test('nothing is switched before the upstream has answered', async (t) => {
  const upgraded = Promise.withResolvers<Duplex>()
  const world = await start(t, (_request, socket) => { upgraded.resolve(socket) })
  const socket = opened(t, world)
  const upstream = await upgraded.promise
  let text = ''
  socket.on('data', (chunk: Buffer) => { text += chunk.toString() })
  await call(world.url, '/plain', { method: 'GET' })
  assert.equal(text, '')
  upstream.write(SWITCHED)
  await eventually(() => text.startsWith('HTTP/1.1 101'), 'it is switched')
})

for (const [status, answer] of [
  ['401', 'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm="chat"\r\nContent-Length: 4\r\n\r\nwho?'],
  ['426', 'HTTP/1.1 426 Upgrade Required\r\nSec-WebSocket-Version: 8\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nold!\r\n0\r\n\r\n'],
  ['302', 'HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n']
] as const) {
  test(`a ${status} of the upstream stays one`, async (t) => {
    const world = await start(t, (_request, socket) => { socket.end(answer) })
    const told = await callRaw(world.url, GO_ON)
    assert.match(told, new RegExp(`^HTTP/1\\.1 ${status} `))
    const [, field = ''] = answer.split('\r\n')
    assert.ok(told.toLowerCase().includes(field.toLowerCase()), told)
    if (status !== '302') assert.match(told, /who\?|old!/)
    await eventually(() => world.held().connections === 0 && world.held().passing === 0, 'nothing is held')
  })
}

test('an upstream that breaks off instead is 502, one that is full 503', async (t) => {
  const broken = await start(t, (_request, socket) => { socket.destroy() })
  assert.match(await callRaw(broken.url, GO_ON), /^HTTP\/1\.1 502 [^]*"code":"upstream-failed"/)
  const full = await start(t, (_request, socket) => { socket.write(SWITCHED) }, {}, { passThroughMax: 1 })
  const first = opened(t, full)
  await read(first, (text) => text.includes('\r\n\r\n'))
  assert.match(await callRaw(full.url, GO_ON), /^HTTP\/1\.1 503 [^]*"code":"overloaded"/)
})

// What its client had sent meanwhile was never read, and so neither was its end: its place was held for ever.
const LATER_MS = 100
for (const [what, host, upgraded] of [
  ['refused at once', 'no/host', () => {}],
  ['broken off by the upstream', 'gateway', (_request: IncomingMessage, socket: Duplex) => {
    setTimeout(() => { socket.destroy() }, LATER_MS)
  }],
  ['refused by the upstream', 'gateway', (_request: IncomingMessage, socket: Duplex) => {
    setTimeout(() => { socket.end('HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n') }, LATER_MS)
  }]
] as const) {
  test(`an upgrade that comes to nothing gives its connection back, whatever its client sends and whether or not it ends: ${what}`, async (t) => {
    const world = await start(t, upgraded)
    const told: string[] = []
    const sockets = Array.from({ length: 10 }, (_, number) => {
      const socket = connect({ port: Number(new URL(world.url).port), host: '127.0.0.1', allowHalfOpen: true })
      socket.on('error', () => {})
      t.after(() => { socket.destroy() })
      socket.write(GO_ON.replace('Host: gateway', `Host: ${host}`))
      setTimeout(() => { socket.write('bytes of a tunnel that is not there') }, LATER_MS / 2)
      socket.once('data', (chunk: Buffer) => {
        told.push(chunk.toString('latin1').slice(0, 12))
        if (number % 2 === 0) socket.end()
      })
      return socket
    })
    await eventually(
      () => told.length === sockets.length && world.held().connections === 0,
      () => `all are told, and no place is held: ${told}, ${world.held().connections}`
    )
  })
}

test('a client that goes before the upstream has answered takes its request from it', async (t) => {
  const world = await start(t, () => {})
  for (const goes of [(socket: Socket) => { socket.end() }, (socket: Socket) => { socket.resetAndDestroy() }]) {
    const socket = opened(t, world)
    await eventually(() => world.held().passing === 1, 'it is under way')
    goes(socket)
    await eventually(
      () => world.held().passing === 0 && world.held().connections === 0,
      () => `nothing is held: ${JSON.stringify(world.held())}`
    )
  }
})

test('what a client says before the upstream has answered goes on in front of what it says then', async (t) => {
  const world = await start(t, (_request, socket) => {
    setTimeout(() => { socket.write(SWITCHED) }, LATER_MS)
    socket.on('data', (chunk: Buffer) => { socket.write(`<${chunk.toString()}>`) })
  })
  const socket = opened(t, world)
  setTimeout(() => { socket.write('early') }, LATER_MS / 2)
  await read(socket, (text) => text.includes('<early>'))
  socket.write('late')
  await read(socket, (text) => text.includes('<late>'))
})

test('a tunnel in which nothing moves ends at both sides; one in which something does goes on', async (t) => {
  const ended: Duplex[] = []
  const world = await start(t, (_request, socket) => {
    socket.write(SWITCHED)
    socket.on('end', () => { ended.push(socket) })
    socket.on('data', (chunk: Buffer) => { socket.write(chunk) })
  }, { server: { tunnelIdleMs: 300 } })
  const [still, busy] = [opened(t, world), opened(t, world)]
  await Promise.all([still, busy].map(async (socket) => read(socket, (text) => text.includes('\r\n\r\n'))))
  still.resume()
  busy.resume()
  const beating = setInterval(() => { busy.write('.') }, 20)
  t.after(() => { clearInterval(beating) })
  await eventually(() => still.closed && ended.length === 1, 'the one in which nothing moves')
  assert.deepEqual([busy.closed, world.held().tunnels], [false, 1])
})

test('no byte goes faster than it is read, in either direction', async (t) => {
  // More than the kernel holds for two connections, each way.
  const MIB = 1024 * 1024
  const WANTED = 64 * MIB
  let poured = 0
  const pour = (socket: Duplex): void => {
    const piece = Buffer.alloc(MIB / 8)
    const more = (): void => {
      while (poured < WANTED) {
        poured += piece.length
        if (!socket.write(piece)) {
          socket.once('drain', more)
          return
        }
      }
    }
    more()
  }
  for (const direction of ['down', 'up']) {
    poured = 0
    const world = await start(t, (_request, socket) => {
      socket.write(SWITCHED)
      if (direction === 'down') pour(socket)
      else socket.pause()
    })
    const socket = opened(t, world)
    await once(socket, 'data')
    socket.pause()
    if (direction === 'up') pour(socket)
    let before = -1
    await eventually(async () => {
      const stands = poured === before
      before = poured
      await new Promise((resolve) => setTimeout(resolve, 200))
      return stands
    }, 'it has stopped')
    assert.ok(poured < WANTED / 2, `${direction}: ${poured} bytes went out`)
    socket.destroy()
    await world.close()
  }
})

test('an upgrade behind a request that has no answer yet is not answered in its place', async (t) => {
  const world = await start(t, (_request, socket) => { socket.write(SWITCHED) })
  const told = await callRaw(world.url, `GET /plain HTTP/1.1\r\nHost: gateway\r\n\r\n${GO_ON}`)
  assert.match(told, /^HTTP\/1\.1 200 [^]*plain/)
  assert.doesNotMatch(told, /101/)
  assert.equal(world.upgrades.length, 0)
})

test('only a WebSocket takes its connection over: anything else that names an Upgrade is an ordinary request', async (t) => {
  const world = await start(t, () => { throw new Error('nobody asked for it') })
  for (const head of [
    'GET /a HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: websocket',
    'GET /a HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, close\r\nUpgrade: h2c',
    'POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: Upgrade, close\r\nUpgrade: websocket'
  ]) {
    assert.match(await callRaw(world.url, `${head}\r\n\r\n`), /^HTTP\/1\.1 200 [^]*plain/, head)
  }
  assert.equal(world.upgrades.length, 0)
})

/** More than sockets, and the streams between them, hold. */
const LARGE = 24 * 1024 * 1024
const TOO_LARGE = `HTTP/1.1 200 OK\r\nContent-Length: ${LARGE}\r\n\r\n`
const large: Upgraded = (_request, socket) => {
  socket.write(TOO_LARGE)
  socket.end(Buffer.alloc(LARGE))
}

// Node had let go of the socket: such an answer went on as far as the buffers, and its place was held for ever.
test('another answer than 101 comes whole, however large it is', async (t) => {
  const world = await start(t, large)
  const socket = opened(t, world)
  let bytes = 0
  socket.on('data', (chunk: Buffer) => { bytes += chunk.length })
  await once(socket, 'close')
  assert.ok(bytes > LARGE, `${bytes} bytes came`)
  await eventually(() => world.held().passing === 0 && world.held().connections === 0, 'nothing is held')
})

test('a client that does not read such an answer is ended, and one that goes takes it from the upstream', async (t) => {
  const world = await start(t, large, { server: { clientIdleMs: 300 } })
  const [reads, goes] = [opened(t, world), opened(t, world)]
  for (const socket of [reads, goes]) {
    await once(socket, 'data')
    socket.pause()
  }
  goes.destroy()
  await eventually(
    () => world.held().passing === 0 && world.held().connections === 0,
    () => `nothing is held: ${JSON.stringify(world.held())}`
  )
})

test('an upgrade, or a CONNECT, behind an answer that is being written does not hold it up', async (t) => {
  const world = await start(t, () => {}, {}, {}, (_request, response) => { response.end(Buffer.alloc(LARGE)) })
  for (const behind of [GO_ON, 'CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n']) {
    const socket = opened(t, world, `GET /large HTTP/1.1\r\nHost: gateway\r\n\r\n${behind}`)
    let bytes = 0
    socket.on('data', (chunk: Buffer) => { bytes += chunk.length })
    await once(socket, 'close')
    assert.ok(bytes > LARGE, `${bytes} bytes came`)
    await eventually(() => world.held().passing === 0 && world.held().connections === 0, 'nothing is held')
  }
  assert.equal(world.upgrades.length, 0)
})

test('nor does it save a client that does not read from its end', async (t) => {
  const world = await start(t, () => {}, { server: { clientIdleMs: 300 } }, {}, (_request, response) => {
    response.end(Buffer.alloc(LARGE))
  })
  const socket = opened(t, world, `GET /large HTTP/1.1\r\nHost: gateway\r\n\r\n${GO_ON}`)
  await once(socket, 'data')
  socket.pause()
  await eventually(
    () => world.held().passing === 0 && world.held().connections === 0,
    () => `nothing is held: ${JSON.stringify(world.held())}`
  )
})

// It has been ended from here, and is still read for a while: see destroyAfterLinger.
test('an upgrade behind the last answer of its connection is not sent', async (t) => {
  const world = await start(t, (_request, socket) => { socket.write(SWITCHED) })
  const socket = connect({ port: Number(new URL(world.url).port), host: '127.0.0.1', allowHalfOpen: true })
  socket.on('error', () => {})
  t.after(() => { socket.destroy() })
  let text = ''
  socket.on('data', (chunk: Buffer) => { text += chunk.toString('latin1') })
  // As many as are taken: behind them it ends.
  socket.write('GET /plain HTTP/1.1\r\nHost: gateway\r\n\r\n'.repeat(65))
  await once(socket, 'end')
  assert.equal(text.match(/HTTP\/1\.1 200/g)?.length, 65)
  socket.write(GO_ON)
  await eventually(() => world.held().connections === 0, 'no place is held')
  assert.equal(world.upgrades.length, 0)
})

test('the end of a drain ends whoever still waits for the upstream\'s word', async (t) => {
  // Nothing else ends them meanwhile.
  const MINUTE_MS = 60_000
  const world = await start(
    t,
    () => {},
    { server: { clientIdleMs: MINUTE_MS, tunnelIdleMs: MINUTE_MS } },
    { idleMs: MINUTE_MS, timeoutMs: MINUTE_MS }
  )
  const socket = opened(t, world).resume()
  await eventually(() => world.upgrades.length === 1, 'the upstream has it')
  world.cut()
  await eventually(
    () => socket.closed && world.held().passing === 0 && world.held().connections === 0,
    () => `nothing is held: ${JSON.stringify(world.held())}`
  )
})

test('who says much before the upstream has answered is read only so far', async (t) => {
  const upgraded = Promise.withResolvers<Duplex>()
  const world = await start(t, (_request, socket) => { upgraded.resolve(socket) })
  const socket = opened(t, world)
  let taken = false
  socket.write(Buffer.alloc(LARGE), () => { taken = true })
  const upstream = await upgraded.promise
  await new Promise((resolve) => setTimeout(resolve, 5 * LATER_MS))
  assert.equal(taken, false)
  upstream.write(SWITCHED)
  upstream.resume()
  await eventually(() => taken, 'all of it is taken')
})

/** Sockets of this process as they come to be, the gateway's among them. */
function watchSockets (t: TestContext): (by: (socket: Socket) => boolean) => Socket {
  const sockets: Socket[] = []
  const take = (message: unknown): void => { sockets.push((message as { readonly socket: Socket }).socket) }
  const channels = ['net.client.socket', 'net.server.socket']
  for (const channel of channels) subscribe(channel, take)
  t.after(() => { for (const channel of channels) unsubscribe(channel, take) })
  return (by) => {
    const [socket, ...more] = sockets.filter(by)
    assert.ok(socket !== undefined && more.length === 0)
    return socket
  }
}

/** Of these some wait in a stream before whoever fills it is told to wait: the end behind them is seen meanwhile. */
const PIECE = 16 * 1024

for (const direction of ['down', 'up'] as const) {
  test(`what was said before the end of a tunnel arrives before the end does, however late it is read: ${direction}`, async (t) => {
    const find = watchSockets(t)
    const upgraded = Promise.withResolvers<Socket>()
    const world = await start(t, (_request, socket) => {
      socket.write(SWITCHED)
      socket.pause()
      upgraded.resolve(socket as Socket)
    })
    const client = opened(t, world)
    await once(client, 'data')
    client.pause()
    const upstream = await upgraded.promise
    const [from, to] = direction === 'down' ? [upstream, client] : [client, upstream]
    const between = find(({ localPort, remotePort }) => localPort === to.remotePort && remotePort === to.localPort)
    const before = between.bytesWritten
    let said = 0
    // Until the kernel takes no more of it, and the rest is in the gateway's hands.
    while (between.writableLength < 2 * PIECE) {
      from.write(Buffer.alloc(PIECE))
      said += PIECE
      await eventually(
        () => between.bytesWritten === before + said,
        () => `${between.bytesWritten - before} of ${said} bytes are on their way`
      )
    }
    from.end('the end')
    to.once('end', () => { to.end() })
    said += 'the end'.length
    await eventually(() => between.writableEnded || between.destroyed, 'the gateway has seen the end')
    assert.ok(between.writableLength > 0 || between.destroyed, 'the last of it still waits there')
    const heard: Buffer[] = []
    to.on('data', (chunk: Buffer) => { heard.push(chunk) })
    to.resume()
    await eventually(() => to.readableEnded || to.closed, 'the end arrives')
    const all = Buffer.concat(heard)
    assert.deepEqual([all.length, all.subarray(-'the end'.length).toString()], [said, 'the end'])
    await eventually(
      () => world.held().tunnels === 0 && world.held().passing === 0 && world.held().connections === 0,
      () => `nothing is held: ${JSON.stringify(world.held())}`
    )
  })
}

// A reset is no end: nothing would tell the other side, until nothing had moved for too long.
for (const who of ['client', 'upstream'] as const) {
  test(`a tunnel whose ${who} goes with a reset is closed at the other side`, async (t) => {
    const upgraded = Promise.withResolvers<Socket>()
    const world = await start(t, (_request, socket) => {
      socket.write(SWITCHED)
      upgraded.resolve(socket.resume() as Socket)
    })
    const client = opened(t, world)
    await once(client, 'data')
    client.resume()
    const upstream = await upgraded.promise
    const [goes, other] = who === 'client' ? [client, upstream] : [upstream, client]
    other.once('end', () => { other.end() })
    goes.resetAndDestroy()
    await eventually(() => other.closed, 'the other side is closed')
    await eventually(
      () => world.held().tunnels === 0 && world.held().passing === 0 && world.held().connections === 0,
      () => `nothing is held: ${JSON.stringify(world.held())}`
    )
  })
}
