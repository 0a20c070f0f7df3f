/**
 * A statement of which the row count is wanted, and at most one short column. pg's own query makes an emitter, a result and a
 * promise for each statement, and asks for a description of the rows. This one serves its connection for as long as it lives.
 */
import type { Connection, Submittable } from 'pg'

/** Gets one call, once the server is ready for the next statement or has refused this one. */
export type CountReply = (error: unknown, count: number) => void

/** Of pg's connection: what pg's types do not say. */
interface Wire {
  readonly stream: { readonly cork: () => void, readonly uncork: () => void, readonly write: (bytes: Buffer) => void }
  readonly parsedStatements: Readonly<Record<string, string | undefined>>
  readonly parse: (statement: { readonly name: string, readonly text: string }) => void
}

/** A value that no parameter can carry: nothing was sent. */
export class Unsent extends Error {
  constructor (cause: unknown) {
    super('a value is out of range', { cause })
  }
}

/** Writes the parameters of one statement, each behind its length. All are binary. */
export interface Parameters {
  readonly length: number
  bytes: () => number
  write: (into: Buffer, at: number) => void
}

/**
 * A message of this size is written into a buffer that the connection keeps: a batch of ten answers of five kilobytes. The server has
 * read all of it when it is ready for the next statement.
 */
const KEPT_BYTES = 64 * 1024

/** Bind: its code, its length, no name of a portal, and around the statement's name: one format for all parameters, none for results. */
const BIND_BYTES = 1 + 4 + 1 + 1 + 2 + 2 + 2 + 2
const [BIND, BINARY] = [0x42, 1]
/** Execute without a portal's name or a limit of rows, and Sync. */
const EXECUTE_AND_SYNC = Buffer.from([0x45, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0x53, 0, 0, 0, 4])

/** pg calls these methods for the query that is active (pg/lib/client.js). */
export class CountQuery implements Submittable {
  /** pg notes under this name what has been prepared on the connection. */
  name = ''
  text = ''
  /** The first column of each row that came back. */
  readonly column: string[] = []
  /** pg puts its own here if the URL has a time limit for queries. It must be called, or its timer fails a later statement. */
  callback: ((error: unknown) => void) | undefined = undefined
  #parameters: Parameters | null = null
  #reply: CountReply | null = null
  #count = 0
  #kept: Buffer | null = null

  get isActive (): boolean { return this.#reply !== null }

  begin (name: string, text: string, parameters: Parameters, reply: CountReply): void {
    this.name = name
    this.text = text
    this.column.length = 0
    this.callback = undefined
    this.#parameters = parameters
    this.#reply = reply
    this.#count = 0
  }

  /** Fails the statement. Whatever still comes of it is ignored, so the connection must not be used again. */
  abandon (error: Error): void { this.#end(error) }

  /**
   * Returns an error instead of throwing it, as pg wants it. Only now is the buffer free: after an error, the server may not have read
   * all of the statement before.
   */
  submit (connection: Connection): Error | null {
    const wire = connection as unknown as Wire
    const { name, text } = this
    let message: Buffer
    try {
      message = this.#message()
    } catch (error) {
      return new Unsent(error)
    }
    if (wire.parsedStatements[name] !== undefined) {
      wire.stream.write(message)
      return null
    }
    wire.stream.cork()
    wire.parse({ name, text })
    wire.stream.write(message)
    wire.stream.uncork()
    return null
  }

  #message (): Buffer {
    const parameters = this.#parameters as Parameters
    const bindBytes = BIND_BYTES + Buffer.byteLength(this.name) + parameters.bytes()
    const bytes = this.#buffer(bindBytes + EXECUTE_AND_SYNC.length)
    let at = bytes.writeUInt8(BIND, 0)
    at = bytes.writeInt32BE(bindBytes - 1, at)
    at = bytes.writeUInt8(0, at)
    at += bytes.write(this.name, at)
    at = bytes.writeUInt8(0, at)
    at = bytes.writeInt16BE(1, at)
    at = bytes.writeInt16BE(BINARY, at)
    at = bytes.writeInt16BE(parameters.length, at)
    parameters.write(bytes, at)
    bytes.writeInt16BE(0, bindBytes - 2)
    EXECUTE_AND_SYNC.copy(bytes, bindBytes)
    return bytes
  }

  #buffer (length: number): Buffer {
    if (length > KEPT_BYTES) return Buffer.allocUnsafe(length)
    this.#kept ??= Buffer.allocUnsafeSlow(KEPT_BYTES)
    return this.#kept.subarray(0, length)
  }

  handleDataRow ({ fields: [value] }: { readonly fields: ReadonlyArray<string | null> }): void { this.column.push(value ?? '') }

  /** `INSERT 0 9`, `UPDATE 9`. */
  handleCommandComplete ({ text }: { readonly text: string }): void { this.#count = Number(text.slice(text.lastIndexOf(' ') + 1)) }

  handleReadyForQuery (): void { this.#end(null) }

  handleError (error: unknown): void { this.#end(error) }

  handleRowDescription (): void {}

  handleEmptyQuery (): void {}

  handlePortalSuspended (): void {}

  handleCopyInResponse (): void {}

  handleCopyData (): void {}

  #end (error: unknown): void {
    const reply = this.#reply
    this.#reply = null
    this.#parameters = null
    this.callback?.(error)
    reply?.(error, this.#count)
  }
}
