/** An upstream on raw sockets: it does what the test says, and keeps every byte that it received. */
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import type { TestContext } from 'node:test'

export interface Scripted {
  readonly url: string
  readonly port: number
  /** Bytes of every connection in order of acceptance, as latin1. */
  readonly received: string[]
  /** Requests whose head and body were whole. */
  readonly requests: () => number
}

export interface Script {
  readonly onAccept?: (socket: Socket) => void
  /** A whole request has been read. `count`: of all connections. */
  readonly onRequest?: (socket: Socket, count: number) => void
}

export async function startScripted (t: TestContext, script: Script): Promise<Scripted> {
  const sockets = new Set<Socket>()
  const received: string[] = []
  let requests = 0
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    const index = received.push('') - 1
    let rest = ''
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    socket.on('data', (chunk) => {
      received[index] += chunk.toString('latin1')
      rest += chunk.toString('latin1')
      for (let length = wholeLength(rest); length !== null; length = wholeLength(rest)) {
        rest = rest.slice(length)
        script.onRequest?.(socket, ++requests)
      }
    })
    script.onAccept?.(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(async () => {
    for (const socket of sockets) socket.destroy()
    server.close()
    await once(server, 'close')
  })
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, port, received, requests: () => requests }
}

/** Length of the first whole request, or null. Requests are framed by Content-Length. */
export function wholeLength (bytes: string): number | null {
  const end = bytes.indexOf('\r\n\r\n')
  if (end === -1) return null
  const length = /\r\ncontent-length: *(\d+)/i.exec(bytes.slice(0, end))
  const total = end + 4 + Number(length?.[1] ?? 0)
  return bytes.length >= total ? total : null
}
