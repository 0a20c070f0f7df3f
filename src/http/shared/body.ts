/** Reads the whole body of a guarded request before anything is claimed (E0). Size, memory and time are limited. */
import type { IncomingMessage } from 'node:http'
import { BodyBuffer } from '../../core/limits/body-buffer.ts'
import type { Reserving } from '../../core/limits/body-buffer.ts'
import type { BodyReader, BodyResult } from '../../gateway/body/read-whole.ts'
import type { Deadlines, Timed } from '../../gateway/shared/deadlines.ts'
import type { Clock } from '../../ports/clock.ts'

/** RFC 9112 6.3: either field frames a body. A length of zero means none. */
export function hasBody ({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

/** Nothing of the body is outstanding. For a request without a body Node sets `complete` only after the handler was called. */
export function isRead (raw: IncomingMessage): boolean {
  return raw.complete || !hasBody(raw)
}

export interface BodyBounds {
  readonly bytesMax: number
  /** Asked before bytes are kept. */
  readonly budget: Reserving
  readonly timeoutMs: number
  /** The longest pause of the client. */
  readonly idleMs: number
  readonly clock: Clock
  readonly deadlines: Deadlines
}

export interface BodyListener extends BodyReader {
  /** The declared size is accepted. A client that sent Expect: 100-continue may send. */
  bodyBegins: () => void
}

/** The result comes after the call has returned. */
export function readBody (raw: IncomingMessage, bounds: BodyBounds, reader: BodyListener): void {
  const declared = raw.headers['content-length']
  if (declared !== undefined && Number(declared) > bounds.bytesMax) return endSoon(reader, { kind: 'too-large' })
  // The client has gone while its credential was checked. 'close' is not emitted again, and what has come is not given out any more.
  if (raw.destroyed && !raw.readableEnded) return endSoon(reader, { kind: 'gone' })
  reader.bodyBegins()
  new BodyReading(raw, bounds, reader).begin()
}

/** The same, as a promise. */
export async function bodyOf (raw: IncomingMessage, bodyBegins: () => void, bounds: BodyBounds): Promise<BodyResult> {
  return new Promise((resolve) => { readBody(raw, bounds, { bodyBegins, bodyRead: resolve }) })
}

function endSoon (reader: BodyReader, result: BodyResult): void {
  process.nextTick(() => { reader.bodyRead(result) })
}

const READING = Symbol('the reading of its body')
type Read = IncomingMessage & { [READING]: BodyReading }

/** The body that is being read from a request. Its listeners are the same functions for all requests, and find it by their request. */
class BodyReading implements Timed {
  readonly #raw: IncomingMessage
  readonly #bounds: BodyBounds
  readonly #reader: BodyReader
  readonly #body: BodyBuffer
  readonly #endsAtMs: number
  #cameAtMs: number
  #over = false
  place = -1

  constructor (raw: IncomingMessage, bounds: BodyBounds, reader: BodyReader) {
    this.#raw = raw
    this.#bounds = bounds
    this.#reader = reader
    this.#body = new BodyBuffer(bounds.bytesMax, bounds.budget)
    this.#cameAtMs = bounds.clock.monotonicMs()
    this.#endsAtMs = this.#cameAtMs + bounds.timeoutMs
  }

  begin (): void {
    const raw = this.#raw as Read
    raw[READING] = this
    raw.on('data', onData)
    raw.on('end', onEnd)
    raw.on('error', onGone)
    raw.on('close', onGone)
    this.#bounds.deadlines.watch(this)
  }

  get dueMs (): number { return Math.min(this.#endsAtMs, this.#cameAtMs + this.#bounds.idleMs) }

  due (): void { this.fail('too-slow') }

  add (chunk: Buffer): void {
    this.#cameAtMs = this.#bounds.clock.monotonicMs()
    const added = this.#body.add(chunk)
    if (added !== 'taken') this.fail(added === 'large' ? 'too-large' : 'no-room')
  }

  end (): void {
    if (!this.#over) this.#end({ kind: 'body', body: this.#body.whole() })
  }

  /** 'close' follows 'end' in the same tick. A complete body cannot fail. */
  fail (kind: Exclude<BodyResult['kind'], 'body'>): void {
    if (this.#over) return
    this.#raw.off('data', onData)
    this.#end({ kind })
  }

  /** The listeners are collected with the request. To remove them one by one would cost more than they do. */
  #end (result: BodyResult): void {
    this.#over = true
    this.#bounds.deadlines.remove(this)
    this.#reader.bodyRead(result)
  }
}

function onData (this: IncomingMessage, chunk: Buffer): void { (this as Read)[READING].add(chunk) }
function onEnd (this: IncomingMessage): void { (this as Read)[READING].end() }
function onGone (this: IncomingMessage): void { (this as Read)[READING].fail('gone') }
