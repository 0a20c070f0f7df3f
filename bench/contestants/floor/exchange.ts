/**
 * A guarded request of the floors, from its head to its answer. It is itself the entry of the lanes and the handler of
 * undici. There is no promise and no closure for a request. The store is one word: where it is claimed, where it is settled.
 */
import { hash, randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Pool } from 'undici'
import type { Dispatcher } from 'undici'
import { headOf, joined, respondAtEndOfTurn, serve } from './http.ts'
import type { Entry, Lane } from './lane.ts'

/** More than any concurrency of the benchmark. */
const CONNECTIONS = 512
const OWNER_BYTES = 16
/** Random bytes are drawn for a thousand owners at once. */
const RANDOM_BYTES = 1_000 * OWNER_BYTES
/** Hop by hop, or written anew by undici. */
const NOT_FORWARDED: ReadonlySet<string> = new Set(['connection', 'content-length'])
const NOTHING: Buffer = Buffer.alloc(0)

export interface Store {
  readonly claims: Lane<Exchange>
  readonly settles: Lane<Exchange>
}

export function serveGuarded (upstreamUrl: string, store: Store): void {
  const upstream = new Pool(upstreamUrl, { connections: CONNECTIONS, pipelining: 1 })
  serve((request, response, body) => { store.claims.push(new Exchange(request, response, body, upstream, store)) })
}

export class Exchange implements Entry, Dispatcher.DispatchHandler {
  /** Of caller and key. */
  readonly name: string
  readonly id: Buffer
  readonly owner: Buffer
  readonly fingerprint: Buffer
  status = 0
  headers = NOTHING
  body = NOTHING
  /** Or about to be: what comes next is its settle. */
  claimed = false
  #answerHeaders: string[] = []
  readonly #pieces: Buffer[] = []
  readonly #request: Dispatcher.DispatchOptions
  readonly #response: ServerResponse
  readonly #upstream: Pool
  readonly #store: Store

  constructor ({ rawHeaders, url = '/' }: IncomingMessage, response: ServerResponse, body: Buffer, upstream: Pool, store: Store) {
    const { forwarded: headers, key, caller } = headOf(rawHeaders, NOT_FORWARDED)
    this.name = hash('sha256', `${caller}\0${key}`, 'hex')
    this.id = Buffer.from(this.name, 'hex')
    this.owner = nextOwner()
    this.fingerprint = hash('sha256', body, 'buffer')
    headers.push('Onceway-Key', this.name)
    this.#request = { method: 'POST', path: url, headers, body }
    this.#response = response
    this.#upstream = upstream
    this.#store = store
  }

  /** Claimed: send. Settled: answer. */
  done (error: Error | null): void {
    if (error !== null) this.#fail(error)
    else if (this.claimed) respondAtEndOfTurn(this)
    else {
      this.claimed = true
      this.#upstream.dispatch(this.#request, this)
    }
  }

  respond (): void {
    this.#response.writeHead(this.status, [...this.#answerHeaders, 'Idempotency-Status', 'executed']).end(this.body)
  }

  onRequestStart (): void {}

  onResponseStart (controller: Dispatcher.DispatchController, status: number): void {
    this.status = status
    for (const bytes of controller.rawHeaders as Buffer[]) this.#answerHeaders.push(bytes.toString('latin1'))
  }

  onResponseData (_controller: Dispatcher.DispatchController, piece: Buffer): void {
    this.#pieces.push(piece)
  }

  onResponseEnd (): void {
    this.body = joined(this.#pieces)
    this.headers = Buffer.from(JSON.stringify(this.#answerHeaders), 'latin1')
    this.#store.settles.push(this)
  }

  onResponseError (_controller: Dispatcher.DispatchController, error: Error): void {
    this.#fail(error)
  }

  #fail (error: Error): void {
    this.#response.writeHead(500).end(String(error))
  }
}

let random = NOTHING

function nextOwner (): Buffer {
  if (random.length === 0) random = randomBytes(RANDOM_BYTES)
  const owner = random.subarray(0, OWNER_BYTES)
  random = random.subarray(OWNER_BYTES)
  return owner
}
