/**
 * Pages of a search over several sorted streams: claimed and settled records, open and ended messages, two audits. Each stream is read in
 * steps, so that a filter that matches nothing costs no more than the time limit, and the next page goes on where the time was over.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Order, Page, Position } from '../../ports/operator.ts'

export interface Found<Row> { readonly row: Row, readonly position: Position }

export interface Step<Row> {
  /** In the order of the search. */
  readonly found: ReadonlyArray<Found<Row>>
  /** Up to here everything has been looked at. null: to the end. */
  readonly reached: Position | null
}

export interface StepOrder {
  /** Begins behind this row. */
  readonly from: Position | null
  /** Rows to look at. */
  readonly size: number
  /** Rows to find. With so many the step has reached the last of them. */
  readonly wanted: number
  readonly withinMs: number
}

export type Stream<Row> = (order: StepOrder) => Promise<Step<Row>>

/** A step took longer than it may. Nothing is known of what it looked at. */
export class StepTimeOver extends Error {
  constructor (options?: ErrorOptions) {
    super('the search took too long', options)
  }
}

export interface SearchOrder {
  readonly order: Order
  readonly limit: number
  readonly after: Position | null
  /** In the database. The rests between its steps do not count. Together they take at most as long. */
  readonly withinMs: number
}

/** Enough for a page of a common filter. */
const SIZE_FIRST = 1_000
/**
 * Some milliseconds of one core. With 32,000 rows a step, and rests as long, the slowest requests beside it took twice as long as without
 * a search, with 4,000 rows 1.4 times.
 */
const SIZE_MAX = 4_000
const SIZE_GROWTH = 4
/** A step that took a part of the time limit is not followed by a larger one. */
const FAST_SHARE = 1 / 20
/** A timer is no finer. */
const REST_MIN_MS = 1

/**
 * A position is one row's: no two of one search have the same. The streams are of one snapshot. Otherwise a row that goes from one to
 * another is missed, in whatever order they are read: a message that was delivered can be replayed, and one that waits can be delivered.
 */
export async function searchStreams<Row> (streams: ReadonlyArray<Stream<Row>>, search: SearchOrder): Promise<Page<Row>> {
  const pace = new Pace(search.withinMs)
  const readers = streams.map((stream) => new Reader(stream, search, pace))
  const rows: Row[] = []
  let last = search.after
  for (;;) {
    const next = first(readers, search.order)
    if (next === null) return { rows, next: null, isWhole: true }
    // Whether anything is left is not worth another step.
    if (rows.length === search.limit) return { rows, next: last, isWhole: true }
    const found = next.head
    if (found !== null) {
      rows.push(found.row)
      last = found.position
      next.drop()
    } else if (!await next.step(search.limit - rows.length + 1)) {
      return { rows, next: furthest(last, next.reached, search.order), isWhole: false }
    }
  }
}

/**
 * The time of one search. After each step the database rests for as long as it took. Otherwise a search that finds little keeps a core busy
 * for two seconds (`npm run bench:search -- --load`).
 */
class Pace {
  /** How long the last step took. */
  tookMs = 0
  #leftMs: number

  constructor (withinMs: number) { this.#leftMs = withinMs }

  /** null: the time is over. */
  async step<Result> (work: (withinMs: number) => Promise<Result>): Promise<Result | null> {
    const withinMs = Math.floor(this.#leftMs)
    if (withinMs <= 0) return null
    if (this.tookMs >= REST_MIN_MS) await sleep(this.tookMs)
    const began = performance.now()
    try {
      return await work(withinMs)
    } catch (error) {
      if (error instanceof StepTimeOver) return null
      throw error
    } finally {
      this.tookMs = performance.now() - began
      this.#leftMs -= this.tookMs
    }
  }
}

class Reader<Row> {
  /** Up to here everything is in the buffer. null: nothing is yet. */
  reached: Position | null
  isOver = false
  readonly #stream: Stream<Row>
  readonly #search: SearchOrder
  readonly #pace: Pace
  #buffer: ReadonlyArray<Found<Row>> = []
  #at = 0
  #size = SIZE_FIRST

  constructor (stream: Stream<Row>, search: SearchOrder, pace: Pace) {
    this.#stream = stream
    this.#search = search
    this.#pace = pace
    this.reached = search.after
  }

  get head (): Found<Row> | null { return this.#buffer[this.#at] ?? null }

  drop (): void { this.#at++ }

  /** false: the time is over. */
  async step (wanted: number): Promise<boolean> {
    const step = await this.#pace.step((withinMs) =>
      this.#stream({ from: this.reached, size: Math.max(this.#size, wanted), wanted, withinMs }))
    if (step === null) return false
    this.#buffer = step.found
    this.#at = 0
    this.isOver = step.reached === null
    this.reached = step.reached
    if (this.#pace.tookMs < this.#search.withinMs * FAST_SHARE) this.#size = Math.min(SIZE_MAX, this.#size * SIZE_GROWTH)
    return true
  }
}

/** The reader that has the next row, or that must be read before it is known. null: all are at their end. */
function first<Row> (readers: ReadonlyArray<Reader<Row>>, order: Order): Reader<Row> | null {
  return readers.filter((reader) => reader.head !== null || !reader.isOver).reduce<Reader<Row> | null>(
    (best, reader) => best === null || compare(edge(reader), edge(best), order) < 0 ? reader : best,
    null
  )
}

/** What is not in the buffer lies behind this. */
function edge<Row> ({ head, reached }: Reader<Row>): Position | null {
  return head?.position ?? reached
}

/** null: before everything. */
export function compare (one: Position | null, other: Position | null, order: Order): number {
  if (one === null || other === null) return (one === null ? 0 : 1) - (other === null ? 0 : 1)
  const ascending = comparePositions(one, other)
  return order === 'oldest' ? ascending : -ascending
}

/** Times are digits. As numbers they took most of a search over many streams. */
function comparePositions (one: Position, other: Position): number {
  if (one.at === other.at) return one.id.compare(other.id)
  return (one.at.length - other.at.length || (one.at < other.at ? -1 : 1))
}

function furthest (one: Position | null, other: Position | null, order: Order): Position | null {
  return compare(one, other, order) >= 0 ? one : other
}
