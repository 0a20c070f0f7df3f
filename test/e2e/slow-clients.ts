/**
 * Clients that hold on to a connection: heads and bodies that arrive a byte at a time, readers that stop, connections
 * that only stand there. Each says how its connection ended. They claim nothing and judge nothing.
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import type { Socket } from 'node:net'

export interface Held {
  readonly socket: Socket
  /** Everything that came back, once the connection is closed by the other side. */
  readonly ended: Promise<string>
}

/** One byte a second: never still, never done. */
const DRIP_EVERY_MS = 1_000
const KEYED = (path: string, key: string): string => `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nIdempotency-Key: ${key}\r\n`

/** Connects and says nothing at all. */
export async function silent (url: string): Promise<Held> {
  return hold(url, '')
}

/** A head that never ends. */
export async function slowHead (url: string, key: string): Promise<Held> {
  return dripping(await hold(url, `${KEYED('/things', key)}X-Slow: `))
}

/** The same, behind a request on the same connection that was answered. */
export async function slowSecondHead (url: string, key: string): Promise<Held> {
  const held = await idle(url)
  held.socket.write(`${KEYED('/things', key)}X-Slow: `)
  return dripping(held)
}

/** A declared body that never becomes whole. */
export async function slowBody (url: string, key: string): Promise<Held> {
  return dripping(await hold(url, `${KEYED('/things', key)}Content-Length: 1000000\r\n\r\n`))
}

/** One answered request that asks for nothing of an upstream, and then a kept connection. */
export async function idle (url: string): Promise<Held> {
  const held = await hold(url, 'GET /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n')
  await once(held.socket, 'data')
  return held
}

/** Asks for an answer of so many bytes, reads its beginning and then no more. */
export async function stalledReader (url: string, key: string, bytes: number): Promise<Held> {
  const socket = await connected(url)
  socket.write(`${KEYED('/things', key)}X-Bytes: ${bytes}\r\nContent-Length: 0\r\n\r\n`)
  const [beginning] = await once(socket, 'data') as [Buffer]
  socket.pause()
  // Paused, it sees no end of the stream either; that the connection is gone shows when it tries to read on.
  return { socket, ended: Promise.resolve(beginning.toString('latin1')) }
}

async function hold (url: string, bytes: string): Promise<Held> {
  const socket = await connected(url)
  let text = ''
  socket.on('data', (chunk: Buffer) => { text += chunk.toString('latin1') })
  const ended = once(socket, 'close').then(() => text)
  socket.write(bytes)
  return { socket, ended }
}

function dripping (held: Held): Held {
  const timer = setInterval(() => { if (held.socket.writable) held.socket.write('x') }, DRIP_EVERY_MS)
  held.socket.once('close', () => { clearInterval(timer) })
  return held
}

async function connected (url: string): Promise<Socket> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  await once(socket, 'connect')
  // A reset is one of the ways in which the other side ends it.
  socket.on('error', () => {})
  return socket
}
