/**
 * The body of a request that passes through. It is read no faster than the upstream takes it, and the client must not
 * stop for too long. `destroy` ends the reading and keeps the connection, so that the client can still get an answer.
 */
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import type { Cancel, Clock } from '../../ports/clock.ts'

export interface UploadOptions {
  readonly clock: Clock
  /** The longest pause of the client while the upstream waits for the body. */
  readonly idleMs: number
  /** Called at the first read. A client that sent Expect: 100-continue may then send. */
  readonly begin: () => void
  /** Called if the client pauses for too long. */
  readonly stalled: () => void
}

export class Upload extends Readable {
  readonly #raw: IncomingMessage
  readonly #options: UploadOptions
  /** What the client has sent so far. */
  bytes = 0
  #begun = false
  /** Monotonic: since when the next piece is awaited. null: none is awaited. */
  #waitsSinceMs: number | null = null
  #cancel: Cancel | null = null

  constructor (raw: IncomingMessage, options: UploadOptions) {
    super()
    this.#raw = raw
    this.#options = options
    raw.pause()
    raw.on('data', this.#onData)
    raw.on('end', this.#onEnd)
    raw.on('close', this.#onClose)
    raw.pause()
  }

  override _read (): void {
    if (!this.#begun) {
      this.#begun = true
      this.#options.begin()
    }
    this.#waitsSinceMs = this.#options.clock.monotonicMs()
    if (this.#cancel === null) this.#look(this.#options.idleMs)
    this.#raw.resume()
  }

  override _destroy (error: Error | null, done: (error: Error | null) => void): void {
    this.#stop()
    this.#raw.off('data', this.#onData)
    this.#raw.off('end', this.#onEnd)
    this.#raw.off('close', this.#onClose)
    done(error)
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#waitsSinceMs = null
    this.bytes += chunk.length
    if (!this.push(chunk)) this.#raw.pause()
  }

  readonly #onEnd = (): void => {
    this.#stop()
    this.push(null)
  }

  /** The client has gone before the body was complete. */
  readonly #onClose = (): void => {
    if (!this.#raw.complete) this.destroy(new Error('CLIENT_GONE'))
  }

  #stop (): void {
    this.#waitsSinceMs = null
    this.#cancel?.()
    this.#cancel = null
  }

  /** One timer checks again and again. So a body of a thousand pieces does not set a thousand timers. */
  #look (inMs: number): void {
    const { clock, idleMs, stalled } = this.#options
    this.#cancel = clock.after(inMs, () => {
      this.#cancel = null
      if (this.destroyed || this.readableEnded) return
      const waitedMs = this.#waitsSinceMs === null ? 0 : clock.monotonicMs() - this.#waitsSinceMs
      if (waitedMs >= idleMs) stalled()
      else this.#look(idleMs - waitedMs)
    })
  }
}
