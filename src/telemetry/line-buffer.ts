/**
 * Lines of the log that are gathered and written in large pieces. A line is put together in the buffer itself, field by field: as a string
 * it would be forty strings first. Every character is ASCII, so a character is a byte.
 */
import type { DestinationStream } from 'pino'

export interface Buffered extends DestinationStream { readonly flush: (done: (() => void) | null) => void }

export function isBuffered (destination: DestinationStream): destination is Buffered {
  return 'flush' in destination
}

/** Lines wait no longer than this. */
export const WRITE_WITHIN_MS = 100
/** Room for a line behind the last whole piece. A longer line makes the buffer grow. */
const LINE_BYTES = 4 * 1024
const ZERO = 0x30
const POINT = 0x2e
const DASH = 0x2d

export class LineBuffer {
  readonly #destination: DestinationStream
  readonly #bytesMax: number
  #bytes: Buffer
  /** Where the next byte goes, and where the line that is being put together begins. */
  #at = 0
  #lineAt = 0
  #timer: NodeJS.Timeout | null = null

  /** `bytesMax`: of one piece. A longer line is a piece by itself. */
  constructor (destination: DestinationStream, bytesMax: number) {
    this.#destination = destination
    this.#bytesMax = bytesMax
    this.#bytes = Buffer.allocUnsafeSlow(bytesMax + LINE_BYTES)
  }

  /** ASCII. */
  text (text: string): this {
    if (this.#at + text.length > this.#bytes.length) this.#grow(text.length)
    this.#at += this.#bytes.write(text, this.#at, 'latin1')
    return this
  }

  /** A whole number, as JSON. */
  integer (value: number): this {
    if (!Number.isSafeInteger(value) || value < 0) return this.text(String(value))
    let digits = 1
    for (let rest = value; rest >= 10; rest = Math.floor(rest / 10)) digits++
    if (this.#at + digits > this.#bytes.length) this.#grow(digits)
    this.#at += digits
    for (let at = this.#at - 1, rest = value; digits > 0; digits--, at--, rest = Math.floor(rest / 10)) this.#bytes[at] = ZERO + rest % 10
    return this
  }

  /** To the hundredth. It uses whole numbers, because the text of a fraction costs several times as much. */
  hundredths (value: number): this {
    const whole = Math.round(Math.abs(value) * 100)
    if (!Number.isSafeInteger(whole)) return this.text(String(value))
    if (value < 0 && whole > 0) this.#byte(DASH)
    this.integer(Math.floor(whole / 100)).#byte(POINT)
    return this.integer(Math.floor(whole / 10) % 10).integer(whole % 10)
  }

  /** The line is complete, with its line end. */
  end (): void {
    if (this.#at > this.#bytesMax && this.#lineAt > 0) {
      const lineBytes = this.#at - this.#lineAt
      this.#send(this.#lineAt, true)
      this.#bytes.copyWithin(0, this.#lineAt, this.#at)
      this.#at = lineBytes
    }
    this.#lineAt = this.#at
    this.#timer ??= setTimeout(() => { this.write() }, WRITE_WITHIN_MS).unref()
  }

  /** `flush` false: the code that ends the process flushes the destination. */
  write (flush = true): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    if (this.#lineAt === 0) return
    const bytes = this.#lineAt
    this.#at = 0
    this.#lineAt = 0
    this.#send(bytes, flush)
  }

  #send (bytes: number, flush: boolean): void {
    this.#destination.write(this.#bytes.toString('latin1', 0, bytes))
    if (flush && isBuffered(this.#destination)) this.#destination.flush(null)
  }

  #byte (byte: number): void {
    if (this.#at === this.#bytes.length) this.#grow(1)
    this.#bytes[this.#at++] = byte
  }

  #grow (bytes: number): void {
    const grown = Buffer.allocUnsafeSlow(this.#at + bytes + LINE_BYTES)
    this.#bytes.copy(grown, 0, 0, this.#at)
    this.#bytes = grown
  }
}
