/**
 * Upgrades (WebSockets). The upstream is asked first: only its own 101 switches the client's connection, any other answer goes to the
 * client as it is. Then bytes go through in both directions, no faster than either side takes them, until one of them ends
 * or nothing has moved for too long. Never looks into what goes through.
 */
import { ServerResponse } from 'node:http'
import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { headerValue, pairs } from '../../core/headers/lines.ts'
import { passedHeaders } from '../../core/headers/headers.ts'
import type { RawHeaders } from '../../core/record/record.ts'
import type { PassListener } from '../../ports/pass-through.ts'
import type { Connections } from '../connection/connection.ts'
import { cutSoon, endWith, heed } from '../connection/connection.ts'
import { informer } from '../respond/informational.ts'
import { codeOf, passRequest, tellFault } from './passthrough.ts'
import type { Passed } from './passthrough.ts'
import { requestIdOf } from '../shared/request-id.ts'
import type { ServerOptions } from '../shared/options.ts'
import { patienceOf } from '../respond/unread.ts'
import { endStalled, leaveStalled } from '../respond/write.ts'

/**
 * Only a WebSocket may take its connection over. Any other request that names an `Upgrade` (curl --http2 and Java's client
 * do with every POST) is an ordinary one with a body: Node would otherwise stop reading at its head. So is one that brings a
 * body or comes in HTTP/1.0, where an Upgrade means nothing (RFC 9110 7.8).
 */
export function isWebSocket ({ method, httpVersion, headers }: IncomingMessage): boolean {
  return method === 'GET' && httpVersion === '1.1' && headers.upgrade?.toLowerCase() === 'websocket' &&
    headers['content-length'] === undefined && headers['transfer-encoding'] === undefined
}

/** A frame or two that came too soon; a client that waits for its 101 has none. */
const EARLY_BYTES_MAX = 64 * 1024

/** Which way an upgrade goes; a sentence: none, and why. */
export type UpgradeWay = Passed | { readonly refused: Parameters<typeof endWith>[1], readonly detail?: string, readonly status?: number }

export class Tunnels {
  readonly #options: ServerOptions
  readonly #connections: Connections
  readonly #wayOf: (request: IncomingMessage) => UpgradeWay
  readonly #open = new Set<Socket>()
  /** Whose upstream has not answered, or is answering otherwise. */
  readonly #asking = new Set<Socket>()

  constructor (options: ServerOptions, connections: Connections, wayOf: (request: IncomingMessage) => UpgradeWay) {
    this.#options = options
    this.#connections = connections
    this.#wayOf = wayOf
  }

  get size (): number { return this.#open.size }

  watch (server: Server): void {
    server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => { this.#take(request, socket as Socket, head) })
  }

  /** The drain is over. */
  end (): void {
    for (const socket of [...this.#open, ...this.#asking]) socket.destroy()
  }

  #take (request: IncomingMessage, socket: Socket, head: Buffer): void {
    socket.on('error', ignored)
    if (!this.#connections.mayTakeOver(socket)) return
    const id = requestIdOf(request)
    const base = this.#options.problemBaseUri
    const way = this.#wayOf(request)
    if ('refused' in way) {
      const { refused, ...more } = way
      return endWith(socket, refused, { base, requestId: id, ...more })
    }
    this.#pass(request, socket, head, id, way)
  }

  #pass (request: IncomingMessage, client: Socket, head: Buffer, id: string, way: Passed): void {
    const { passing, problemBaseUri: base } = this.#options
    const response = new ServerResponse(request)
    response.assignSocket(client)
    response.shouldKeepAlive = false
    response.on('error', ignored)
    const leaveAnswer = heed(client, () => response)
    this.#asking.add(client)
    client.once('close', () => { this.#asking.delete(client) })
    let switched = false
    // Who says something before the upstream has answered is read only so far. Who says nothing is seen to go.
    const early = [head]
    let earlyBytes = head.length
    const onEarly = (chunk: Buffer): void => {
      early.push(chunk)
      earlyBytes += chunk.length
      if (earlyBytes >= EARLY_BYTES_MAX) client.pause()
    }
    const leave = (): void => {
      client.off('data', onEarly)
      client.off('end', onEnd)
      client.off('close', onEnd)
    }
    const onEnd = (): void => {
      leave()
      if (!switched) passage.abort()
      client.destroy()
    }
    const listener: PassListener = {
      informed: informer(request, response),
      answered: (status, headers) => {
        // Whoever has ended may still read.
        client.off('end', onEnd)
        response.writeHead(status, [...passedHeaders(status, headers), 'Connection', 'close'])
        response.flushHeaders()
      },
      data: (chunk) => {
        if (response.destroyed || response.write(chunk)) return true
        endStalled(response, patienceOf(this.#options))
        response.once('drain', () => {
          leaveStalled(response)
          passage.resume()
        })
        return false
      },
      ended: () => {
        endStalled(response, patienceOf(this.#options))
        response.end(() => {
          client.end()
          cutSoon(client)
        })
      },
      failed: (fault) => {
        leave()
        tellFault(this.#options, id, way.route.upstream.name, fault)
        if (response.headersSent) client.destroy()
        else endWith(client, codeOf(fault), { base, requestId: id })
      },
      switched: (headers, upstream) => {
        switched = true
        leave()
        leaveAnswer()
        this.#asking.delete(client)
        client.pause()
        response.detachSocket(client)
        this.#join(client, upstream, headers, Buffer.concat(early))
      }
    }
    const passage = passing.pass({ ...passRequest(this.#options, request, id, way), body: null, upgrade: 'websocket' }, listener)
    client.on('data', onEarly)
    client.once('end', onEnd)
    client.once('close', onEnd)
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
      // Node's own: a read or a write of either direction starts its time anew; one that is blocked does not.
      socket.setTimeout(tunnelIdleMs, () => {
        if (!client.destroyed) meter.idled('tunnel')
        client.destroy()
        upstream.destroy()
      })
      // Whoever has ended listens to nothing more (RFC 6455 7.1.1), and has said what it said.
      socket.once('end', () => { other.destroySoon() })
    }
    client.once('close', () => {
      this.#open.delete(client)
      upstream.destroy()
    })
    upstream.once('close', () => {
      // What it said last is still to be read.
      if (upstream.readableEnded) client.destroySoon()
      else client.destroy()
    })
    // With back-pressure.
    client.pipe(upstream)
    upstream.pipe(client)
  }
}

function switchingHead (headers: RawHeaders): string {
  let head = `HTTP/1.1 101 Switching Protocols\r\nUpgrade: ${headerValue(headers, 'upgrade') ?? 'websocket'}\r\nConnection: Upgrade\r\n`
  for (const [name, value] of pairs(passedHeaders(101, headers))) head += `${name}: ${value}\r\n`
  return `${head}\r\n`
}

function ignored (): void {}
