/**
 * A statement of which the row count is wanted, and at most one short column. pg's own query makes an emitter, a result and a
 * promise for each statement, and asks for a description of the rows. This one serves its connection for as long as it lives.
 */
import type { Connection, Submittable } from 'pg'

/** Gets one call, once the server is ready for the next statement or has refused this one. */
export type CountReply = (error: unknown, count: number) => void

/** Of pg's connection: what pg's types do not say. */
interface Wire {
  readonly stream: { readonly cork: () => void, readonly uncork: () => void }
  readonly parsedStatements: Readonly<Record<string, string | undefined>>
  readonly parse: (statement: { readonly name: string, readonly text: string }) => void
  readonly bind: (values: { readonly statement: string, readonly values: readonly BoundValue[] }) => void
  readonly execute: (portal: object) => void
  readonly sync: () => void
}

export type BoundValue = Buffer | string | null

/** pg calls these methods for the query that is active (pg/lib/client.js). */
export class CountQuery implements Submittable {
  /** pg notes under this name what has been prepared on the connection. */
  name = ''
  text = ''
  /** The first column of each row that came back. */
  readonly column: string[] = []
  /** pg puts its own here if the URL has a time limit for queries. It must be called, or its timer fails a later statement. */
  callback: ((error: unknown) => void) | undefined = undefined
  #values: readonly BoundValue[] = []
  #reply: CountReply | null = null
  #count = 0

  get isActive (): boolean { return this.#reply !== null }

  begin (name: string, text: string, values: readonly BoundValue[], reply: CountReply): void {
    this.name = name
    this.text = text
    this.column.length = 0
    this.callback = undefined
    this.#values = values
    this.#reply = reply
    this.#count = 0
  }

  /** Fails the statement. Whatever still comes of it is ignored, so the connection must not be used again. */
  abandon (error: Error): void { this.#end(error) }

  submit (connection: Connection): null {
    const wire = connection as unknown as Wire
    const { name, text } = this
    wire.stream.cork()
    try {
      if (wire.parsedStatements[name] === undefined) wire.parse({ name, text })
      wire.bind({ statement: name, values: this.#values })
      wire.execute(NO_PORTAL)
      wire.sync()
    } finally {
      wire.stream.uncork()
    }
    return null
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
    this.#values = []
    this.callback?.(error)
    reply?.(error, this.#count)
  }
}

const NO_PORTAL = {}
