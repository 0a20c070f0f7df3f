/**
 * One request of a client, by undici's dispatch, which is cheap enough for hundreds a second. It is sent once.
 * A client that leaves does so at its given time.
 */
import { Pool } from 'undici'
import type { Dispatcher } from 'undici'
import type { RawHeaders } from '../../src/core/record/record.ts'
import type { WireAnswer } from './told.ts'

export interface Ask {
  readonly method: string
  readonly target: string
  readonly fields: RawHeaders
  readonly body: string
  readonly call: string
  /** When the client leaves without an answer. null: it stays. */
  readonly leavesAfterMs: number | null
}

/** `cut`: the connection broke. `left`: the client left. `hung`: neither happened in any explicable time. */
export type Asked = WireAnswer | 'cut' | 'left' | 'hung'

/** Far beyond every bound of the checker. A call without an answer by then never gets one. */
const HUNG_MS = 60_000
const CONNECTIONS = 256

export class Door {
  readonly #pool: Pool

  constructor (port: number) {
    this.#pool = new Pool(`http://127.0.0.1:${port}`, {
      connections: CONNECTIONS,
      pipelining: 1,
      headersTimeout: HUNG_MS,
      bodyTimeout: HUNG_MS,
      keepAliveTimeout: 4_000,
      connect: { timeout: HUNG_MS }
    })
  }

  async ask (ask: Ask): Promise<Asked> {
    const asking = new Asking()
    this.#pool.dispatch(
      { method: ask.method, path: ask.target, body: ask.body, headers: [...ask.fields, 'X-Request-Id', ask.call] },
      asking
    )
    if (ask.leavesAfterMs !== null) asking.leaveAfter(ask.leavesAfterMs)
    return asking.done.promise
  }

  async close (): Promise<void> {
    await this.#pool.destroy()
  }
}

class Asking implements Dispatcher.DispatchHandler {
  readonly done = Promise.withResolvers<Asked>()
  readonly #chunks: Buffer[] = []
  #controller: Dispatcher.DispatchController | null = null
  #status = 0
  #headers: string[] = []
  #left = false
  #timer: NodeJS.Timeout | null = null

  leaveAfter (ms: number): void {
    this.#timer = setTimeout(() => {
      this.#left = true
      this.#controller?.abort(new Error('left'))
    }, ms)
  }

  onRequestStart (controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#left) controller.abort(new Error('left'))
  }

  onResponseStart (controller: Dispatcher.DispatchController, status: number): void {
    this.#status = status
    const { rawHeaders } = controller as Dispatcher.DispatchController & { readonly rawHeaders: readonly Buffer[] }
    this.#headers = rawHeaders.map((bytes) => bytes.toString('latin1'))
  }

  onResponseData (_controller: unknown, chunk: Buffer): void {
    this.#chunks.push(chunk)
  }

  onResponseEnd (): void {
    this.#end({ status: this.#status, headers: this.#headers, body: Buffer.concat(this.#chunks) })
  }

  onResponseError (_controller: unknown, error: Error): void {
    const { code = '' } = error as Error & { readonly code?: string }
    this.#end(this.#left ? 'left' : /HEADERS_TIMEOUT|BODY_TIMEOUT|CONNECT_TIMEOUT/.test(code) ? 'hung' : 'cut')
  }

  #end (asked: Asked): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.done.resolve(asked)
  }
}
