/**
 * Upgrades (WebSockets). The upstream is asked first. Only its 101 switches the client's connection. Any other answer
 * goes to the client unchanged. After a 101, bytes go both ways with back-pressure, until one side ends or the tunnel
 * is idle for too long. The content is never read.
 */
import { ServerResponse } from 'node:http'
import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { headerValue, pairs } from '../../core/headers/lines.ts'
import { passedHeaders } from '../../core/headers/headers.ts'
import type { RawHeaders } from '../../core/record/record.ts'
import type { Passage, PassFault, PassListener } from '../../ports/pass-through.ts'
import type { Connections } from '../connection/connection.ts'
import { destroyAfterLinger, endWithProblem, relaySocketEvents } from '../connection/connection.ts'
import { informer } from '../respond/informational.ts'
import { codeOf, noteFault, passRequest } from './passthrough.ts'
import type { Passed } from './passthrough.ts'
import { requestIdOf } from '../shared/request-id.ts'
import type { ServerOptions } from '../shared/options.ts'
import { idleLimitOf } from '../respond/send-budget.ts'
import { startIdleTimer, writeChunk } from '../respond/write.ts'

/**
 * Only a WebSocket may take its connection over. Other requests with `Upgrade` (curl --http2 and Java's client send it
 * with every POST) are ordinary ones with a body. Node would otherwise stop reading at their head. The same holds for a
 * request with a body or in HTTP/1.0, where Upgrade means nothing (RFC 9110 7.8).
 */
export function isWebSocket ({ method, httpVersion, headers }: IncomingMessage): boolean {
  return method === 'GET' && httpVersion === '1.1' && headers.upgrade?.toLowerCase() === 'websocket' &&
    headers['content-length'] === undefined && headers['transfer-encoding'] === undefined
}

/** A frame or two that came too early. A client that waits for its 101 sends none. */
const EARLY_BYTES_MAX = 64 * 1024

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
    const id = requestIdOf(request)
    const base = this.#options.problemBaseUri
    const decision = this.#decide(request)
    if ('refused' in decision) {
      const { refused, ...more } = decision
      return endWithProblem(socket, refused, { base, requestId: id, ...more })
    }
    this.#pass(request, socket, head, id, decision)
  }

  #pass (request: IncomingMessage, client: Socket, head: Buffer, id: string, passed: Passed): void {
    this.#pending.add(client)
    client.once('close', () => { this.#pending.delete(client) })
    const handshake = new Handshake(this.#options, request, client, head, id, passed, (headers, upstream, early) => {
      this.#pending.delete(client)
      this.#join(client, upstream, headers, early)
    })
    handshake.begin()
  }

  #join (client: Socket, upstream: Duplex, headers: RawHeaders, head: Buffer): void {
    const { gateway: { deps: { meter } }, limits: { tunnelIdleMs } } = this.#options
    upstream.on('error', ignored)
    if (client.destroyed) {
      upstream.destroy()
      return
    }
    this.#open.add(client)
    client.write(switchingHead(headers), 'latin1')
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
}

type Switched = (headers: RawHeaders, upstream: Duplex, early: Buffer) => void

/** One upgrade until the upstream has answered. `switched` is called if the answer is a 101. */
class Handshake implements PassListener {
  readonly #options: ServerOptions
  readonly #request: IncomingMessage
  readonly #client: Socket
  readonly #id: string
  readonly #passed: Passed
  readonly #onSwitched: Switched
  readonly #response: ServerResponse
  readonly #stopRelaying: () => void
  readonly informed: PassListener['informed']
  /** What the client sent before the upstream answered. */
  readonly #early: Buffer[]
  #earlyBytes: number
  #switched = false
  #passage: Passage | null = null

  constructor (
    options: ServerOptions,
    request: IncomingMessage,
    client: Socket,
    head: Buffer,
    id: string,
    passed: Passed,
    switched: Switched
  ) {
    this.#options = options
    this.#request = request
    this.#client = client
    this.#id = id
    this.#passed = passed
    this.#onSwitched = switched
    this.#early = [head]
    this.#earlyBytes = head.length
    this.#response = new ServerResponse(request)
    this.#response.assignSocket(client)
    this.#response.shouldKeepAlive = false
    this.#response.on('error', ignored)
    this.#stopRelaying = relaySocketEvents(client, () => this.#response)
    this.informed = informer(request, this.#response)
  }

  begin (): void {
    const request = { ...passRequest(this.#options, this.#request, this.#id, this.#passed), body: null, upgrade: 'websocket' }
    this.#passage = this.#options.passing.pass(request, this)
    this.#client.on('data', this.#onEarly)
    this.#client.once('end', this.#onEnd)
    this.#client.once('close', this.#onEnd)
  }

  answered (status: number, headers: RawHeaders): void {
    // A client that has ended its side may still read.
    this.#client.off('end', this.#onEnd)
    this.#response.writeHead(status, [...passedHeaders(status, headers), 'Connection', 'close'])
    this.#response.flushHeaders()
  }

  data (chunk: Buffer): boolean {
    if (this.#response.destroyed) return true
    return writeChunk(this.#response, chunk, idleLimitOf(this.#options), () => { this.#passage?.resume() })
  }

  ended (): void {
    startIdleTimer(this.#response, idleLimitOf(this.#options))
    this.#response.end(() => {
      this.#client.end()
      destroyAfterLinger(this.#client)
    })
  }

  failed (fault: PassFault): void {
    this.#stopReading()
    noteFault(this.#options, this.#id, this.#passed.route.upstream.name, fault)
    if (this.#response.headersSent) this.#client.destroy()
    else endWithProblem(this.#client, codeOf(fault), { base: this.#options.problemBaseUri, requestId: this.#id })
  }

  switched (headers: RawHeaders, upstream: Duplex): void {
    this.#switched = true
    this.#stopReading()
    this.#stopRelaying()
    this.#client.pause()
    this.#response.detachSocket(this.#client)
    this.#onSwitched(headers, upstream, Buffer.concat(this.#early))
  }

  /** Reads on, up to a bound, so that the end of a silent client is seen. */
  readonly #onEarly = (chunk: Buffer): void => {
    this.#early.push(chunk)
    this.#earlyBytes += chunk.length
    if (this.#earlyBytes >= EARLY_BYTES_MAX) this.#client.pause()
  }

  readonly #onEnd = (): void => {
    this.#stopReading()
    if (!this.#switched) this.#passage?.abort()
    this.#client.destroy()
  }

  #stopReading (): void {
    this.#client.off('data', this.#onEarly)
    this.#client.off('end', this.#onEnd)
    this.#client.off('close', this.#onEnd)
  }
}

function switchingHead (headers: RawHeaders): string {
  let head = `HTTP/1.1 101 Switching Protocols\r\nUpgrade: ${headerValue(headers, 'upgrade') ?? 'websocket'}\r\nConnection: Upgrade\r\n`
  for (const [name, value] of pairs(passedHeaders(101, headers))) head += `${name}: ${value}\r\n`
  return `${head}\r\n`
}

function ignored (): void {}
