/**
 * A request's body on its way through: read no faster than the upstream takes it, and no longer waited for than clients
 * have time. Destroying it ends the reading and leaves the connection: it still may get an answer.
 */
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import type { Cancel, Clock } from '../../ports/clock.ts'

export interface UploadOptions {
  readonly clock: Clock
  /** The longest that nothing more of it may come while the upstream waits for it. */
  readonly idleMs: number
  /** Called when it is wanted for the first time: a client that asked may send. */
  readonly begin: () => void
  /** Called when its client has not gone on in time. */
  readonly stalled: () => void
}

export class Upload extends Readable {
  readonly #raw: IncomingMessage
  readonly #options: UploadOptions
  #begun = false
  /** Monotonic: since when the next piece is waited for; null: it is not. */
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
    if (!this.push(chunk)) this.#raw.pause()
  }

  readonly #onEnd = (): void => {
    this.#stop()
    this.push(null)
  }

  /** The client has gone before it was whole. */
  readonly #onClose = (): void => {
    if (!this.#raw.complete) this.destroy(new Error('CLIENT_GONE'))
  }

  #stop (): void {
    this.#waitsSinceMs = null
    this.#cancel?.()
    this.#cancel = null
  }

  /** One timer, which looks: a body of a thousand pieces does not set it a thousand times. */
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
