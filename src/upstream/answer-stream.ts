/**
 * The body of an answer that is not buffered. Chunks go from undici to one reader, with back-pressure. A reader that
 * leaves does not end the exchange (E1): `destroy` lets the rest run to its end unread.
 */
import type { Dispatcher } from 'undici'

/** From this many unread bytes on, the upstream is paused. */
const UNREAD_BYTES_MAX = 64 * 1024
/** As much as one read of a socket. So the buffered part is read in the same pieces as the rest. */
const PIECE_BYTES = 64 * 1024

type Waiting = PromiseWithResolvers<IteratorResult<Buffer, undefined>>

export class AnswerStream implements AsyncIterable<Buffer> {
  readonly #controller: Dispatcher.DispatchController
  /** What came before it was known to be a stream. It is read first. */
  #buffered: Buffer
  #unread: Buffer[] = []
  #unreadBytes = 0
  #ended = false
  #failure: Error | null = null
  #discarding = false
  #waiting: Waiting | null = null
  readonly #over = Promise.withResolvers<string | null>()
  /** How the upstream ended the body, read or not. null: complete. Else the code of the break. */
  readonly over = this.#over.promise
  readonly #taken = Promise.withResolvers<undefined>()
  /** Resolves when the buffered part is released: it was read, or it is not wanted. */
  readonly taken = this.#taken.promise

  constructor (controller: Dispatcher.DispatchController, buffered: Buffer) {
    this.#controller = controller
    this.#buffered = buffered
    if (buffered.length === 0) this.#taken.resolve(undefined)
  }

  /** false: the reader is behind. Pause until it has caught up. */
  push (chunk: Buffer): boolean {
    if (this.#discarding) return true
    if (this.#waiting !== null) {
      this.#deliver(this.#waiting, chunk)
      return true
    }
    this.#unread.push(chunk)
    this.#unreadBytes += chunk.length
    return this.#unreadBytes < UNREAD_BYTES_MAX
  }

  end (): void {
    this.#ended = true
    this.#over.resolve(null)
    this.#finish()
  }

  fail (error: Error, brokenBy: string): void {
    this.#failure = error
    this.#over.resolve(brokenBy)
    this.#finish()
  }

  destroy (): void {
    this.#discarding = true
    this.#buffered = Buffer.alloc(0)
    this.#taken.resolve(undefined)
    this.#unread = []
    this.#unreadBytes = 0
    this.#controller.resume()
    this.#finish()
  }

  [Symbol.asyncIterator] (): AsyncIterator<Buffer, undefined> {
    return {
      next: async () => this.#next(),
      return: async () => {
        this.destroy()
        return { done: true, value: undefined }
      }
    }
  }

  async #next (): Promise<IteratorResult<Buffer, undefined>> {
    if (this.#buffered.length > 0) return { done: false, value: this.#takeBuffered() }
    const chunk = this.#unread.shift()
    if (chunk !== undefined) {
      this.#unreadBytes -= chunk.length
      if (this.#unreadBytes === 0) this.#controller.resume()
      return { done: false, value: chunk }
    }
    if (this.#failure !== null) throw this.#failure
    if (this.#ended || this.#discarding) return { done: true, value: undefined }
    this.#waiting = Promise.withResolvers()
    return this.#waiting.promise
  }

  /** A copy. A view that waits for its client would keep the whole buffer in memory. */
  #takeBuffered (): Buffer {
    const piece = Buffer.from(this.#buffered.subarray(0, PIECE_BYTES))
    this.#buffered = this.#buffered.subarray(PIECE_BYTES)
    if (this.#buffered.length === 0) {
      this.#buffered = Buffer.alloc(0)
      this.#taken.resolve(undefined)
    }
    return piece
  }

  #deliver (waiting: Waiting, chunk: Buffer): void {
    this.#waiting = null
    waiting.resolve({ done: false, value: chunk })
  }

  #finish (): void {
    const waiting = this.#waiting
    if (waiting === null) return
    this.#waiting = null
    if (this.#failure !== null) waiting.reject(this.#failure)
    else waiting.resolve({ done: true, value: undefined })
  }
}
