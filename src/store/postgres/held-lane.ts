/**
 * A lane (store/shared/lane.ts) that keeps connections of its own. The usual batch is one statement of which the row count says that
 * everything was written. It makes no promise. Whatever else a batch may need is asynchronous code on the same connection.
 */
import { Lane, type Batch, type LaneLimits, type LaneOptions } from '../shared/lane.ts'
import type { Connection } from './connection.ts'
import type { Connections } from './connections.ts'
import type { CountReply } from './count-query.ts'
import type { OwnStatement } from './fields.ts'
import type { Session } from './statements.ts'

export interface HeldLaneOptions<Item, Result, Reply> extends LaneLimits<Item>, Pick<LaneOptions<Item, Result, Reply>, 'succeed' | 'fail'> {
  readonly connections: Connections
  readonly statement: OwnStatement<Item>
  /** Whether the statement is for these items. */
  readonly isUsual: (items: readonly Item[]) => boolean
  /** Of each item, if all were written. */
  readonly written: (item: Item) => Result
  /** All were written. false: more is to be done all the same, by `finish`. Absent: nothing is. */
  readonly isWhole?: (column: readonly string[]) => boolean
  /** Not all were written, or more is to be done. `column`: the first column of each row that was. */
  readonly finish: (session: Session, items: readonly Item[], count: number, column: readonly string[]) => Promise<Result[]>
  /** The whole batch, if the one before it on this connection wrote nothing. Absent: such a batch is a usual one. */
  readonly afterNothing?: (session: Session, items: readonly Item[]) => Promise<Written<Result>>
  /** The whole batch, in a session that other clients share, or if the statement is not for these items. */
  readonly otherwise: (session: Session, items: readonly Item[]) => Promise<Result[]>
}

export interface Written<Result> {
  /** In the order of the items. */
  readonly results: Result[]
  readonly wroteNothing: boolean
}

/** As for connections of the pool, which knows nothing of the age of those that are held. */
const LIFETIME_MS_MAX = 1_800_000

/** A connection, and the batch that it serves. */
class Held<Item, Result, Reply> {
  readonly connection: Connection
  readonly reply: CountReply
  batch: Batch<Item, Result, Reply> | null = null
  /** Its last batch. A new connection may lead to a standby, which a write finds out and a look does not. */
  wroteNothing = false

  constructor (connection: Connection, counted: (held: Held<Item, Result, Reply>, error: unknown, count: number) => void) {
    this.connection = connection
    this.reply = (error, count) => { counted(this, error, count) }
  }
}

export class HeldLane<Item, Result, Reply> {
  readonly #options: HeldLaneOptions<Item, Result, Reply>
  readonly #lane: Lane<Item, Result, Reply>
  readonly #idle: Array<Held<Item, Result, Reply>> = []
  #closed = false

  constructor (options: HeldLaneOptions<Item, Result, Reply>) {
    this.#options = options
    this.#lane = new Lane({ ...options, run: (batch) => { this.#run(batch) } })
    options.connections.heldBy(this)
  }

  get idleConnections (): number { return this.#idle.length }
  get waiting (): number { return this.#lane.waiting }

  enter (item: Item, reply: Reply): void { this.#lane.enter(item, reply) }

  /** Releases the idle connections now, and the others when they are idle. */
  close (): void {
    this.#closed = true
    for (const { connection } of this.#idle.splice(0)) connection.release()
  }

  #run (batch: Batch<Item, Result, Reply>): void {
    const held = this.#takeIdle()
    if (held === null) void this.#connect(batch)
    else this.#begin(held, batch)
  }

  /** A connection that the server has ended meanwhile costs nothing. */
  #takeIdle (): Held<Item, Result, Reply> | null {
    for (let held = this.#idle.pop(); held !== undefined; held = this.#idle.pop()) {
      if (held.connection.isUsable) return held
      held.connection.release()
    }
    return null
  }

  async #connect (batch: Batch<Item, Result, Reply>): Promise<void> {
    const { connections, statement } = this.#options
    let connection: Connection
    try {
      connection = await connections.connect(statement.many.name)
    } catch (error) {
      batch.fail(error)
      return
    }
    this.#begin(new Held(connection, (held, error, count) => { this.#counted(held, error, count) }), batch)
  }

  #begin (held: Held<Item, Result, Reply>, batch: Batch<Item, Result, Reply>): void {
    const { statement, isUsual, afterNothing, otherwise } = this.#options
    const { connection } = held
    if (!connection.isOwn || !isUsual(batch.items)) void this.#finish(held, batch, otherwise(connection, batch.items))
    else if (held.wroteNothing && afterNothing !== undefined) {
      void this.#finish(held, batch, this.#afterNothing(held, afterNothing(connection, batch.items)))
    } else {
      held.batch = batch
      connection.count(statement, batch.items, held.reply)
    }
  }

  async #afterNothing (held: Held<Item, Result, Reply>, work: Promise<Written<Result>>): Promise<Result[]> {
    held.wroteNothing = false
    const { results, wroteNothing } = await work
    held.wroteNothing = wroteNothing
    return results
  }

  #counted (held: Held<Item, Result, Reply>, error: unknown, count: number): void {
    const { batch, connection } = held
    if (batch === null) return
    held.batch = null
    held.wroteNothing = error === null && count === 0
    if (error !== null) {
      this.#keep(held)
      batch.fail(error)
    } else if (count === batch.items.length && this.#options.isWhole?.(connection.column) !== false) {
      this.#keep(held)
      batch.succeedEach(this.#options.written)
    } else {
      void this.#finish(held, batch, this.#options.finish(connection, batch.items, count, Array.from(connection.column)))
    }
  }

  async #finish (held: Held<Item, Result, Reply>, batch: Batch<Item, Result, Reply>, work: Promise<Result[]>): Promise<void> {
    try {
      const results = await work
      this.#keep(held)
      batch.succeed(results)
    } catch (error) {
      this.#keep(held)
      batch.fail(error)
    }
  }

  #keep (held: Held<Item, Result, Reply>): void {
    const { connection } = held
    if (this.#closed || !connection.isUsable) connection.release()
    else if (connection.ageMs > LIFETIME_MS_MAX) connection.discard()
    else this.#idle.push(held)
  }
}
