/**
 * What searches read by: each one its own connection, in one read transaction from its first step to its last. What goes from one stream to
 * another while it is looked for is in one of them. A log of writes is not reused while somebody reads by it, which is for seconds.
 */
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { preparedOnce } from './columns.ts'

/** At once. More are refused before they begin (operator-store.ts), so what is older than so many others was left behind. */
export const SNAPSHOTS_MAX = 16
/** Connections that wait for the next search: to open one and to prepare its statements costs more than a step. */
const IDLE_MAX = 2
/** A reader of a write-ahead log waits for nobody, but for whoever recovers it after a crash. */
const BUSY_TIMEOUT_MS = 2_000

interface Reader { readonly connection: DatabaseSync, readonly prepare: (text: string) => StatementSync }

export class Snapshots {
  readonly #file: string
  readonly #open = new Map<number, Reader>()
  readonly #idle: Reader[] = []

  constructor (file: string) { this.#file = file }

  /** Begins with the first use of its number. */
  of (number: number): Reader['prepare'] {
    const found = this.#open.get(number)
    if (found !== undefined) return found.prepare
    const [oldest] = this.#open.keys()
    if (this.#open.size >= SNAPSHOTS_MAX && oldest !== undefined) this.end(oldest)
    const reader = this.#idle.pop() ?? this.#connect()
    reader.connection.exec('begin')
    this.#open.set(number, reader)
    return reader.prepare
  }

  end (number: number): void {
    const reader = this.#open.get(number)
    if (reader === undefined) return
    this.#open.delete(number)
    if (reader.connection.isTransaction) reader.connection.exec('rollback')
    if (this.#idle.length < IDLE_MAX) this.#idle.push(reader)
    else reader.connection.close()
  }

  close (): void {
    for (const { connection } of [...this.#open.values(), ...this.#idle]) connection.close()
  }

  #connect (): Reader {
    const connection = new DatabaseSync(this.#file, { readOnly: true, timeout: BUSY_TIMEOUT_MS })
    return { connection, prepare: preparedOnce(connection) }
  }
}
