/**
 * Upgrades (WebSockets). The upstream is asked first. Only its 101 switches the client's connection. Any other answer
 * goes to the client unchanged. After a 101, bytes go both ways with back-pressure, until one side ends or the tunnel
 * is idle for too long. The content is never read.
 */
import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { headerValue, pairs } from '../../core/headers/lines.ts'
import { passedHeaders } from '../../core/headers/headers.ts'
import type { RawHeaders } from '../../core/record/record.ts'
import { NO_ROUTE } from '../../ports/telemetry.ts'
import type { Connections } from '../connection/connection.ts'
import { endWithProblem } from '../connection/connection.ts'
import { notePassed } from './access.ts'
import { Handshake, SWITCHED } from './handshake.ts'
import type { Asked } from './handshake.ts'
import type { Passed } from './passthrough.ts'
import { requestIdOf } from '../shared/request-id.ts'
import type { ServerOptions } from '../shared/options.ts'

/**
 * Only a WebSocket may take its connection over. Other requests with `Upgrade` (curl --http2 and Java's client send it
 * with every POST) are ordinary ones with a body. Node would otherwise stop reading at their head. The same holds for a
 * request with a body or in HTTP/1.0, where Upgrade means nothing (RFC 9110 7.8).
 */
export function isWebSocket ({ method, httpVersion, headers }: IncomingMessage): boolean {
  return method === 'GET' && httpVersion === '1.1' && headers.upgrade?.toLowerCase() === 'websocket' &&
    headers['content-length'] === undefined && headers['transfer-encoding'] === undefined
}

/** The upgrade passes, or it is refused with this problem. */
export type UpgradeDecision =
  | Passed
  | { readonly refused: Parameters<typeof endWithProblem>[1], readonly detail?: string, readonly status?: number }

export class Tunnels {
  readonly #options: ServerOptions
  readonly #connections: Connections
  readonly #decide: (request: IncomingMessage) => UpgradeDecision
  readonly #open = new Set<Socket>()
  /** Connections whose upstream has not answered yet, or answers without a switch. */
  readonly #pending = new Set<Socket>()

  constructor (options: ServerOptions, connections: Connections, decide: (request: IncomingMessage) => UpgradeDecision) {
    this.#options = options
    this.#connections = connections
    this.#decide = decide
  }

  get size (): number { return this.#open.size }

  watch (server: Server): void {
    server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => { this.#take(request, socket as Socket, head) })
  }

  /** Called at the end of the drain. */
  end (): void {
    for (const socket of [...this.#open, ...this.#pending]) socket.destroy()
  }

  #take (request: IncomingMessage, socket: Socket, head: Buffer): void {
    socket.on('error', ignored)
    if (!this.#connections.mayTakeOver(socket)) return
    const startedAtMs = performance.now()
    const id = requestIdOf(request)
    const base = this.#options.problemBaseUri
    const decision = this.#decide(request)
    if ('refused' in decision) {
      const { refused, ...more } = decision
      const status = endWithProblem(socket, refused, { base, requestId: id, ...more })
      this.#options.meter.answered(NO_ROUTE, request.method, status, performance.now() - startedAtMs)
      return
    }
    this.#pass({ request, client: socket, id, passed: decision, startedAtMs }, head)
  }

  #pass (asked: Asked, head: Buffer): void {
    const { client } = asked
    this.#pending.add(client)
    client.once('close', () => { this.#pending.delete(client) })
    const handshake = new Handshake(this.#options, asked, head, (headers, upstream, early) => {
      this.#pending.delete(client)
      this.#join(asked, upstream, headers, early)
    })
    handshake.begin()
  }

  #join (asked: Asked, upstream: Duplex, headers: RawHeaders, head: Buffer): void {
    const { client } = asked
    const { gateway: { deps: { meter } }, limits: { tunnelIdleMs } } = this.#options
    upstream.on('error', ignored)
    if (client.destroyed) {
      upstream.destroy()
      return
    }
    this.#open.add(client)
    client.write(switchingHead(headers), 'latin1')
    this.#noteAtEnd(asked, head.length)
    if (head.length > 0) upstream.write(head)
    const ends = [[client, upstream as Socket], [upstream as Socket, client]] as const
    for (const [socket, other] of ends) {
      // A read or write in either direction restarts Node's timer. A blocked write does not.
      socket.setTimeout(tunnelIdleMs, () => {
        if (!client.destroyed) meter.idled('tunnel')
        client.destroy()
        upstream.destroy()
      })
      // A side that has ended ignores everything after that (RFC 6455 7.1.1). All that it sent is flushed.
      socket.once('end', () => { other.destroySoon() })
    }
    client.once('close', () => {
      this.#open.delete(client)
      upstream.destroy()
    })
    upstream.once('close', () => {
      // The last bytes of the upstream still go to the client.
      if (upstream.readableEnded) client.destroySoon()
      else client.destroy()
    })
    // pipe() applies back-pressure.
    client.pipe(upstream)
    upstream.pipe(client)
  }

  /** Bytes of earlier requests on the connection, and of the handshake, are not those of the tunnel. */
  #noteAtEnd ({ request, client, id, passed, startedAtMs }: Asked, earlyBytes: number): void {
    const [readBefore, writtenBefore] = [client.bytesRead - earlyBytes, client.bytesWritten]
    client.once('close', () => {
      notePassed(this.#options, request, id, passed.route, {
        status: SWITCHED,
        ms: performance.now() - startedAtMs,
        requestBytes: client.bytesRead - readBefore,
        responseBytes: client.bytesWritten - writtenBefore
      })
    })
  }
}

function switchingHead (headers: RawHeaders): string {
  let head = `HTTP/1.1 101 Switching Protocols\r\nUpgrade: ${headerValue(headers, 'upgrade') ?? 'websocket'}\r\nConnection: Upgrade\r\n`
  for (const [name, value] of pairs(passedHeaders(101, headers))) head += `${name}: ${value}\r\n`
  return `${head}\r\n`
}

function ignored (): void {}
