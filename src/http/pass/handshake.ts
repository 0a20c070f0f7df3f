/** One upgrade, until the upstream has answered it. */
import { ServerResponse } from 'node:http'
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { passedHeaders } from '../../core/headers/headers.ts'
import type { RawHeaders } from '../../core/record/record.ts'
import type { Passage, PassFault, PassListener } from '../../ports/pass-through.ts'
import { destroyAfterLinger, endWithProblem, relaySocketEvents } from '../connection/connection.ts'
import { NO_ANSWER } from '../connection/counted-response.ts'
import { informer } from '../respond/informational.ts'
import { idleLimitOf } from '../respond/send-budget.ts'
import { startIdleTimer, writeChunk } from '../respond/write.ts'
import type { ServerOptions } from '../shared/options.ts'
import { notePassed } from './access.ts'
import { codeOf, noteFault, passRequest } from './passthrough.ts'
import type { Passed } from './passthrough.ts'

/** A frame or two that came too early. A client that waits for its 101 sends none. */
const EARLY_BYTES_MAX = 64 * 1024
export const SWITCHED = 101

/** An upgrade that a client asks for, and the route that it passes by. */
export interface Asked {
  readonly request: IncomingMessage
  readonly client: Socket
  readonly id: string
  readonly passed: Passed
  readonly startedAtMs: number
}

type Switched = (headers: RawHeaders, upstream: Duplex, early: Buffer) => void

/** `switched` is called if the answer is a 101. */
export class Handshake implements PassListener {
  readonly #options: ServerOptions
  readonly #asked: Asked
  readonly #client: Socket
  readonly #onSwitched: Switched
  readonly #response: ServerResponse
  readonly #stopRelaying: () => void
  readonly informed: PassListener['informed']
  /** What the client sent before the upstream answered. */
  readonly #early: Buffer[]
  #earlyBytes: number
  #switched = false
  #counted = false
  #responseBytes = 0
  #passage: Passage | null = null

  constructor (options: ServerOptions, asked: Asked, head: Buffer, switched: Switched) {
    const { request, client } = asked
    this.#options = options
    this.#asked = asked
    this.#client = client
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
    const { request, id, passed } = this.#asked
    this.#passage = this.#options.passing.pass(
      { ...passRequest(this.#options, request, id, passed), body: null, upgrade: 'websocket' },
      this
    )
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
    this.#responseBytes += chunk.length
    return writeChunk(this.#response, chunk, idleLimitOf(this.#options), () => { this.#passage?.resume() })
  }

  ended (): void {
    startIdleTimer(this.#response, idleLimitOf(this.#options))
    this.#response.end(() => {
      this.#count(this.#response.statusCode)
      this.#client.end()
      destroyAfterLinger(this.#client)
    })
  }

  failed (fault: PassFault): void {
    this.#stopReading()
    const { id, passed } = this.#asked
    noteFault(this.#options, id, passed.route.upstream.name, fault)
    if (this.#response.headersSent) {
      this.#count(this.#response.statusCode)
      this.#client.destroy()
    } else {
      this.#count(endWithProblem(this.#client, codeOf(fault), { base: this.#options.problemBaseUri, requestId: id }))
    }
  }

  /** Once, with the status that the client got. The line of a tunnel is written at its end. */
  #count (status: number): void {
    if (this.#counted) return
    this.#counted = true
    const { request, id, passed, startedAtMs } = this.#asked
    const ms = performance.now() - startedAtMs
    this.#options.meter.answered(passed.route.name, request.method, status, ms)
    if (status === SWITCHED) return
    notePassed(this.#options, request, id, passed.route, { status, ms, requestBytes: 0, responseBytes: this.#responseBytes })
  }

  switched (headers: RawHeaders, upstream: Duplex): void {
    this.#switched = true
    this.#count(this.#client.destroyed ? NO_ANSWER : SWITCHED)
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
    this.#count(this.#response.headersSent ? this.#response.statusCode : NO_ANSWER)
    if (!this.#switched) this.#passage?.abort()
    this.#client.destroy()
  }

  #stopReading (): void {
    this.#client.off('data', this.#onEarly)
    this.#client.off('end', this.#onEnd)
    this.#client.off('close', this.#onEnd)
  }
}

function ignored (): void {}
