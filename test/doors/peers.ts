/**
 * Peers that are slow, stop or want too much, in all four directions and in tunnels, against a gateway in a process of its own: each
 * is ended in time, others are served meanwhile, and the process' memory stays where its limits say.
 */
import { createHash } from 'node:crypto'
import { createServer, request as httpRequest } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { call } from '../harness/call.ts'
import { startProcess } from '../harness/process-gateway.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { Chance } from '../simulation/chance.ts'
import { Collector, INSPECTED } from './collector.ts'
import { listening } from './taps.ts'

export interface PeersResult { readonly plays: readonly PeersPlay[], readonly violations: readonly string[] }
export interface PeersPlay {
  readonly name: string
  readonly peers: number
  /** Requests of others meanwhile, each answered as it should be. */
  readonly served: number
  /**
   * What the process' resident memory rose by, at most, each time behind a collection: what it holds, not what it has
   * not cleared away yet.
   */
  readonly roseBytes: number
}

interface Cleanups { after: (end: () => Promise<void>) => void }

const MIB = 1024 * 1024
const BUFFERED_BYTES = 16 * MIB
/**
 * What is buffered, half a MiB for each of 120 peers on its way through sockets and streams, the embedded store's share of large answers,
 * and what the allocator keeps of all that. One tunnel without back-pressure took 800 MiB.
 */
const ROSE_MAX = 160 * MIB
const IDLE_MS = 1_000
/** Idle limits are looked at about as often as they are long, and a busy machine is late. */
const ENDED_WITHIN_MS = 30_000
const LOOK_EVERY_MS = 100
/** More than the kernel takes of what nobody reads. Some are whole in the gateway's buffers; for the others there is no room. */
const LARGE_BYTES = 7 * MIB
/** What a peer sends, or wants, as long as it is let. */
const GREEDY_BYTES = 64 * MIB
const PEERS = { few: [10, 20], many: [60, 120] } as const

const configOf = (upstream: string): string => `
version: 1
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
log: { level: silent }
limits: { connections: 400, clientIdle: ${IDLE_MS}ms, tunnelIdle: ${IDLE_MS}ms, requestBody: 5s, bufferedBytes: ${BUFFERED_BYTES / MIB}MiB }
upstreams: { origin: { url: "${upstream}", passThrough: 160, idleTimeout: ${IDLE_MS}ms } }
routes:
  - { name: things, match: { path: "/guarded/*", methods: [POST] }, upstream: origin, idempotency: { scope: public, keep: { responseBytesMax: ${LARGE_BYTES / MIB + 1}MiB } } }
  - { name: rest, match: { path: "/*" }, upstream: origin }
`

interface World { readonly gateway: ProcessGateway, readonly chance: Chance }
/** Opens one peer from an address of its own; `closed` when its connection has ended. */
type Peer = (world: World, number: number) => Socket
interface Scenario { readonly name: string, readonly count: readonly [number, number], readonly peer: Peer }

/** Attackers come from others than whoever is to be served. */
const ADDRESSES = 8
const attackerAt = ({ gateway }: World, number: number): Socket => {
  const socket = connect({ port: Number(new URL(gateway.url).port), host: '127.0.0.1', localAddress: `127.0.0.${2 + number % ADDRESSES}` })
  socket.on('error', () => {})
  return socket
}

/** Kept alive, a connection that was answered would be held for its own time. */
const head = (line: string, ...fields: string[]): string =>
  `${[line, 'Host: gateway', ...fields.includes(UPGRADE[0]) ? [] : ['Connection: close'], ...fields].join('\r\n')}\r\n\r\n`
const UPGRADE = [
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='
] as const

/** Writes for as long as it is taken. */
function pour (socket: Duplex, bytes: number, piece = Buffer.alloc(MIB / 4, 'x')): void {
  let left = bytes
  const more = (): void => {
    while (left > 0 && !socket.destroyed) {
      left -= piece.length
      if (!socket.write(piece)) {
        socket.once('drain', more)
        return
      }
    }
  }
  more()
}

/** One byte of the body never comes. */
const stoppedUpload = (path: string): Peer => (world, number) => {
  const socket = attackerAt(world, number)
  const length = world.chance.whole(1, 1024) * 700
  socket.write(head(`POST ${path}/${number} HTTP/1.1`, `Content-Length: ${length}`, `Idempotency-Key: stopped-${number}-${length}`))
  socket.write(Buffer.alloc(world.chance.one([0, 1, Math.floor(length / 2), length - 1]), 'x'))
  return socket.resume()
}

const stoppedReader = (path: string, ...fields: string[]): Peer => (world, number) => {
  const socket = attackerAt(world, number)
  socket.write(head(
    `${fields.length === 0 ? 'GET' : 'POST'} ${path}/${number} HTTP/1.1`,
    ...fields.map((field) => field.replaceAll('*', String(number)))
  ))
  // Nothing is read, and so the end of it is not seen either: it is looked for.
  return socket.pause()
}

const greedyUpload: Peer = (world, number) => {
  const socket = attackerAt(world, number)
  socket.write(head(`POST /deaf/${number} HTTP/1.1`, `Content-Length: ${GREEDY_BYTES}`))
  pour(socket, GREEDY_BYTES)
  return socket.resume()
}

const pipelining: Peer = (world, number) => {
  const socket = attackerAt(world, number)
  pour(socket, GREEDY_BYTES / 16, Buffer.from('GET /open HTTP/1.1\r\nHost: gateway\r\n\r\n'.repeat(10_000)))
  return socket.pause()
}

const tunnel = (path: string, reads: boolean): Peer => (world, number) => {
  const socket = attackerAt(world, number)
  socket.write(head(`GET ${path}/${number} HTTP/1.1`, ...UPGRADE))
  socket.once('data', () => {
    if (reads) pour(socket, GREEDY_BYTES)
    else socket.pause()
  })
  return socket
}

const asking: Peer = (world, number) => {
  const socket = attackerAt(world, number)
  socket.write(head(`${world.chance.one(['GET', 'DELETE', 'QUERY'])} /silent/${number} HTTP/1.1`))
  return socket.resume()
}

const SCENARIOS: readonly Scenario[] = [
  { name: 'uploads that stop, guarded', count: PEERS.many, peer: stoppedUpload('/guarded/sized') },
  { name: 'uploads that stop, passed through', count: PEERS.many, peer: stoppedUpload('/open') },
  {
    name: 'readers that stop, guarded',
    count: PEERS.many,
    peer: stoppedReader('/guarded/large', 'Idempotency-Key: large-*', 'Content-Length: 0')
  },
  { name: 'readers that stop, passed through', count: PEERS.many, peer: stoppedReader('/endless') },
  { name: 'pipelined requests whose answers nobody reads', count: PEERS.few, peer: pipelining },
  { name: 'an upstream that is silent', count: PEERS.many, peer: asking },
  { name: 'an upstream that does not read', count: PEERS.few, peer: greedyUpload },
  { name: 'tunnels whose upstream does not read', count: PEERS.few, peer: tunnel('/tunnel-deaf', true) },
  { name: 'tunnels whose client does not read', count: PEERS.few, peer: tunnel('/tunnel-endless', false) },
  {
    name: 'tunnels in which nothing moves',
    count: PEERS.many,
    peer: (world, number) => {
      const socket = attackerAt(world, number)
      socket.write(head(`GET /tunnel-deaf/${number} HTTP/1.1`, ...UPGRADE))
      return socket.resume()
    }
  }
]

export async function playPeers (t: Cleanups, { seed }: { readonly seed: number }): Promise<PeersResult> {
  const url = await startPeerOrigin(t)
  const plays: PeersPlay[] = []
  const violations: string[] = []
  const gateway = await startProcess(t, { config: configOf(url), env: INSPECTED })
  const collector = await Collector.of(gateway)
  t.after(async () => { collector.close() })
  // The first requests of a process make its heap what it is.
  await Promise.all(Array.from({ length: 200 }, async (_, number) => askBoth(gateway, `warm-${number}`)))
  for (const [at, { name, count: [least, most], peer }] of SCENARIOS.entries()) {
    const world = { gateway, chance: new Chance(seed, at) }
    const peers = world.chance.whole(least, most)
    const watch = watchOver(gateway, collector, `${seed}-${at}`)
    const sockets = Array.from({ length: peers }, (_, number) => peer(world, number))
    try {
      await endedAll(gateway, sockets)
    } catch (error) {
      violations.push(`seed ${seed}: ${name}: ${String(error)}`)
    }
    for (const socket of sockets) socket.destroy()
    const { served, roseBytes, wrong } = await watch.stop()
    plays.push({ name, peers, served, roseBytes })
    violations.push(...wrong.map((what) => `seed ${seed}: ${name}: ${what}`))
    if (roseBytes > ROSE_MAX) violations.push(`seed ${seed}: ${name}: memory rose by ${Math.round(roseBytes / MIB)} MiB`)
    if (served === 0) violations.push(`seed ${seed}: ${name}: nobody else was served`)
  }
  return { plays, violations }
}

/** Until the gateway holds no more of them than of whoever asks beside. */
async function endedAll (gateway: ProcessGateway, peers: readonly Socket[]): Promise<void> {
  await Promise.all(peers.map(async (peer) => { await connected(peer) }))
  let now = Number.NaN
  let looks = 0
  for (const endsAt = performance.now() + ENDED_WITHIN_MS; performance.now() < endsAt; looks++) {
    const metrics = await metricsOf(gateway)
    now = metrics('onceway_connections')
    // Before the first look is answered, the gateway has accepted all that were there.
    if (looks > 0 && now <= OTHERS && metrics('onceway_tunnels') === 0 && metrics('onceway_passing') <= OTHERS) return
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS))
  }
  throw new Error(`${now} connections are still held after ${ENDED_WITHIN_MS} ms`)
}

/** By the kernel at least; or ended again already. */
async function connected (peer: Socket): Promise<void> {
  if (!peer.connecting) return
  await new Promise<void>((resolve) => { peer.once('connect', () => { resolve() }).once('close', () => { resolve() }) })
}

/** Connections of those that are to be served. */
const OTHERS = 4

async function metricsOf (gateway: ProcessGateway): Promise<(name: string) => number> {
  const { text } = await call(gateway.adminUrl, '/metrics', { method: 'GET' })
  return (name) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1] ?? Number.NaN)
}

function watchOver (
  gateway: ProcessGateway,
  collector: Collector,
  name: string
): { readonly stop: () => Promise<{ readonly served: number, readonly roseBytes: number, readonly wrong: string[] }> } {
  let [served, least, most] = [0, Infinity, 0]
  const watch = { over: false }
  const wrong: string[] = []
  const watching = (async () => {
    for (let number = 0; !watch.over; number++) {
      await collector.collect()
      const resident = (await metricsOf(gateway))('process_resident_memory_bytes')
      if (number === 0) least = resident
      most = Math.max(most, resident)
      const said = await askBoth(gateway, `beside-${name}-${number}`)
      if (said === '200 201') served++
      else wrong.push(`another client was answered ${said}`)
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS))
    }
  })()
  return {
    stop: async () => {
      watch.over = true
      await watching
      return { served, roseBytes: Math.max(0, most - least), wrong: wrong.slice(0, 3) }
    }
  }
}

/** The statuses of a request that passes through, and of a guarded one. */
async function askBoth ({ url }: ProcessGateway, key: string): Promise<string> {
  const open = await ask(url, 'GET', '/open/other')
  return `${open} ${await ask(url, 'POST', '/guarded/other', key)}`
}

async function ask (url: string, method: string, path: string, key?: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(`${url}${path}`, {
      method,
      agent: false,
      headers: key === undefined ? {} : { 'Idempotency-Key': key }
    }, (answer) => {
      answer.resume()
      answer.on('end', () => { resolve(answer.statusCode ?? 0) })
      answer.on('error', reject)
    })
    request.on('error', reject)
    request.end(key === undefined ? undefined : 'x')
  })
}

// ---------------------------------------------------------------- an upstream of all kinds

const LARGE = Buffer.alloc(LARGE_BYTES, 'l')

async function startPeerOrigin (t: Cleanups): Promise<string> {
  const server = createServer((request, response) => { answer(request, response) })
  server.on('upgrade', (request: IncomingMessage, socket: Duplex) => {
    socket.on('error', () => {})
    const accept = createHash('sha1').update(`${request.headers['sec-websocket-key'] ?? ''}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest(
      'base64'
    )
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`)
    socket.pause()
    if (request.url?.startsWith('/tunnel-endless/') === true) pour(socket, GREEDY_BYTES)
  })
  const { port, close } = await listening(server)
  t.after(close)
  return `http://127.0.0.1:${port}`
}

function answer (request: IncomingMessage, response: ServerResponse): void {
  const [, first = '', second = ''] = (request.url ?? '').split('/')
  response.on('error', () => {})
  request.on('error', () => {})
  if (first === 'deaf') {
    request.pause()
    return
  }
  request.resume()
  if (first === 'silent') return
  request.on('end', () => {
    if (first === 'endless') {
      response.writeHead(200)
      pour(response as unknown as Duplex, GREEDY_BYTES)
    } else {
      response.writeHead(first === 'guarded' ? 201 : 200)
      response.end(second === 'large' ? LARGE : 'done')
    }
  })
}
