/** Who looks on: an origin that keeps every byte it is sent, and a tap between a proxy and the gateway that keeps what goes by. */
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Server, Socket } from 'node:net'
import { readRequests, valuesOf } from './wire.ts'
import type { WireMessage } from './wire.ts'

export interface Listener { readonly port: number, close: () => Promise<void> }

/** On a free port of 127.0.0.1; an HTTP server too. Its end is that of its connections. */
export async function listening (server: Server): Promise<Listener> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    close: async () => {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    }
  }
}

/** A message, and that it came. */
export interface Arrived extends WireMessage { readonly bad: false }
/** What no strict server takes for a request. */
export interface Garbage { readonly bad: true, readonly bytes: Buffer }

export interface Origin extends Listener {
  /** In the order of their arrival; taken by {@link take}. */
  readonly take: () => Array<Arrived | Garbage>
}

/** By which whoever stands in front of the gateway names each request that it sends. */
export const DOOR = 'x-door'

/** Answers every request with its own X-Door, and a body when it may have one. */
export async function startOrigin (): Promise<Origin> {
  let arrived: Array<Arrived | Garbage> = []
  const server = createServer((socket) => {
    let rest: Buffer = Buffer.alloc(0)
    socket.on('data', (chunk: Buffer) => {
      rest = Buffer.concat([rest, chunk])
      const { messages, end, bytes } = readRequests(rest)
      for (const message of messages) {
        arrived.push({ ...message, bad: false })
        socket.write(answerTo(message))
      }
      if (end === 'bad') {
        arrived.push({ bad: true, bytes: rest })
        socket.destroy()
      }
      rest = rest.subarray(bytes)
    })
  })
  const listener = await listening(server)
  return { ...listener, take: () => { const taken = arrived; arrived = []; return taken } }
}

function answerTo ({ start: [method], headers }: WireMessage): string {
  const body = `for ${valuesOf(headers, DOOR).join()}`
  return `HTTP/1.1 200 OK\r\nX-Door-Answer: ${valuesOf(headers, DOOR).join()}\r\nContent-Type: text/plain\r\nContent-Length: ${body.length}\r\n\r\n${method === 'HEAD' ? '' : body}`
}

/** One connection that went by. */
export interface Passed { readonly sent: Buffer, readonly answered: Buffer }

export interface Tap extends Listener { readonly take: () => Passed[] }

/** Relays bytes; what has gone by on each connection since the last look is taken when nothing is under way. */
export async function startTap (to: number): Promise<Tap> {
  const open = new Set<{ readonly sent: Buffer[], readonly answered: Buffer[], over: boolean }>()
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    const seen = { sent: [] as Buffer[], answered: [] as Buffer[], over: false }
    open.add(seen)
    const onward = connect({ port: to, host: '127.0.0.1', allowHalfOpen: true })
    onward.on('error', () => { socket.destroy() })
    socket.on('error', () => { onward.destroy() })
    socket.on('data', (chunk: Buffer) => { seen.sent.push(chunk) })
    onward.on('data', (chunk: Buffer) => { seen.answered.push(chunk) })
    socket.pipe(onward)
    onward.pipe(socket)
    socket.on('close', () => {
      seen.over = true
      onward.destroy()
    })
    onward.on('close', () => { socket.destroySoon() })
  })
  const listener = await listening(server)
  const take = (): Passed[] => {
    const taken = Array.from(open, (seen) => {
      const sent = Buffer.concat(seen.sent.splice(0))
      const { end, bytes } = readRequests(sent)
      // Its rest may come.
      if (end === 'more' && !seen.over) seen.sent.push(sent.subarray(bytes))
      return { sent, answered: Buffer.concat(seen.answered.splice(0)) }
    })
    for (const seen of open) if (seen.over) open.delete(seen)
    return taken.filter(({ sent, answered }) => sent.length + answered.length > 0)
  }
  return { ...listener, take }
}
