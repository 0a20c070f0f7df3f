/**
 * The upstream of a soak: it remembers of every key how often it was executed, in one byte each, and gives an answer that
 * follows from the key and the number of the execution, so that a replay can be checked without keeping it.
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Quick, as most upstreams are, and never the same for long. */
const LATENCY_MS_MIN = 2
const LATENCY_MS_MAX = 25
/** Answers from a few bytes to some kilobytes; the prime spreads them over the keys. */
const PADDING_BYTES_MAX = 4_093

export class SoakUpstream {
  readonly url: string
  /** By the number of the key; sticks at 255. */
  readonly executed: Uint8Array
  readonly #lastExecution: Uint32Array
  readonly #server: Server
  #executions = 0

  static async start (keysMax: number): Promise<SoakUpstream> {
    const server = createServer({ keepAliveTimeout: 60_000 })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return new SoakUpstream(server, keysMax)
  }

  private constructor (server: Server, keysMax: number) {
    this.#server = server
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    this.executed = new Uint8Array(keysMax)
    this.#lastExecution = new Uint32Array(keysMax)
    server.on('request', (request: IncomingMessage, response: ServerResponse) => { this.#receive(request, response) })
  }

  get executions (): number { return this.#executions }

  /** What everybody must be told about this key, now and later. */
  answerOf (key: number): Buffer {
    return bodyOf(key, this.#lastExecution[key] ?? 0)
  }

  async stop (): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }

  #receive (request: IncomingMessage, response: ServerResponse): void {
    response.on('error', () => {})
    request.on('error', () => {})
    request.resume()
    request.once('end', () => {
      const key = Number(String(request.headers['idempotency-key']).slice(KEY_PREFIX.length))
      const execution = ++this.#executions
      this.executed[key] = Math.min(255, (this.executed[key] ?? 0) + 1)
      this.#lastExecution[key] = execution
      setTimeout(
        () => { response.writeHead(201, { 'Content-Type': 'application/json' }).end(bodyOf(key, execution)) },
        LATENCY_MS_MIN + Math.random() * (LATENCY_MS_MAX - LATENCY_MS_MIN)
      )
    })
  }
}

export const KEY_PREFIX = 'soak-'

function bodyOf (key: number, execution: number): Buffer {
  return Buffer.from(JSON.stringify({ key, execution, padding: 'x'.repeat(key * 7_919 % PADDING_BYTES_MAX) }))
}
