/**
 * An upstream that counts every request that reaches it, and answers as the test says.
 * It has real sockets, so that a test can also reset, stall, or answer garbage.
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'

export interface Seen {
  readonly method: string
  readonly target: string
  readonly rawHeaders: readonly string[]
  readonly headers: IncomingMessage['headers']
  readonly body: Buffer
}

export type Behaviour = (seen: Seen, response: ServerResponse, socket: Socket, count: number) => void | Promise<void>

export interface Witness {
  readonly url: string
  readonly port: number
  readonly seen: Seen[]
  /** Sets its answer from now on. */
  answer: Behaviour
  /** Replaces the whole handling of a request. */
  onHead?: (request: IncomingMessage, response: ServerResponse) => void
  /** Resolves when `count` requests have reached it. */
  reached: (count: number) => Promise<void>
  close: () => Promise<void>
}

/** `201` with a body that differs for each request, so that only a replay can repeat it. */
export const CREATED: Behaviour = (_seen, response, _socket, count) => {
  response.writeHead(201, { 'Content-Type': 'application/json', Location: `/things/${count}`, 'X-Custom': 'kept' })
  response.end(JSON.stringify({ id: count }))
}

export async function startWitness (answer: Behaviour = CREATED, port = 0): Promise<Witness> {
  const waiting = new Set<() => void>()
  const sockets = new Set<Socket>()
  const server = createServer((request, response) => { void receive(request, response) })
  const witness: Witness = { url: '', port: 0, seen: [], answer, reached, close }
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  const bound = (server.address() as AddressInfo).port
  return Object.assign(witness, { port: bound, url: `http://127.0.0.1:${bound}` })

  async function receive (request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (witness.onHead !== undefined) return witness.onHead(request, response)
    const chunks: Buffer[] = []
    try {
      for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
    } catch {
      return
    }
    const seen: Seen = {
      method: request.method ?? '',
      target: request.url ?? '',
      rawHeaders: request.rawHeaders,
      headers: request.headers,
      body: Buffer.concat(chunks)
    }
    witness.seen.push(seen)
    for (const look of Array.from(waiting)) look()
    await witness.answer(seen, response, request.socket, witness.seen.length)
  }

  async function reached (count: number): Promise<void> {
    if (witness.seen.length >= count) return
    await new Promise<void>((resolve) => {
      const look = (): void => {
        if (witness.seen.length < count) return
        waiting.delete(look)
        resolve()
      }
      waiting.add(look)
    })
  }

  async function close (): Promise<void> {
    for (const socket of sockets) socket.destroy()
    server.close()
    await once(server, 'close')
  }
}
