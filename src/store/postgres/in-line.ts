/**
 * Standing in line for rows that somebody else holds locked: what lives writes its row as soon as it is let go of, and nobody
 * takes the row for a dead one's in the moment between. The line is seen by all (an advisory lock for each row that is waited
 * for, held until the waiting statement ends), and without a gap: another statement stands in it before the one before it
 * gives up. Only statements that have to wait come here, on connections of their own.
 */
import { hasWaitedInVain } from './faults.ts'

/** Of this use of advisory locks, in a database that others may use too. */
const CLASS = 0x6f_6e_63_65
/** Statements that wait: one, the next one, and one for rows that were locked only now. */
const CALLS_MAX = 3
/** Both kinds of rows that are waited for: leases and workers. */
export const LINE_CONNECTIONS = 2 * CALLS_MAX
/** Of the rest of its line a row that nobody asks about any more is left. Several ticks of the renewals, one round of the workers'. */
const WANTED_MS = 6_000

/** Four bytes of what is drawn or hashed. One who is taken for another waits for nothing worse than the next look. */
const keyOf = (column: string) => `('x' || encode(substr(${column}, 1, 4), 'hex'))::bit(32)`

/** Locks of a statement: the server has room for some thousands, of all its sessions together. */
const PLACES_MAX = 256
/** Where somebody has locked more than that, all rows there are are waited for. */
const ALL = 0

/** `line`, of the rows whose ids are in the first parameter: held until the statement ends. To be counted before any row is locked. */
export const IN_LINE = `line as materialized (
  select pg_advisory_xact_lock_shared(${CLASS}, p.key)
    from (select distinct case when cardinality($1::bytea[]) > ${PLACES_MAX} then ${ALL} else ${keyOf('w.id')}::int end as key from unnest($1::bytea[]) as w (id)) p
   cross join lock_limit
)`

/**
 * Nobody stands in line for this row. Looked up once a statement, and only where there is a row to take: who lives stands there
 * before its lease is over, so one look after the statement's start is enough.
 */
export const nobodyInLine = (column: string) => `not array[${ALL}::oid, ${keyOf(column)}::bigint::oid] && array(
       select l.objid from pg_catalog.pg_locks l
        where l.locktype = 'advisory' and l.classid = ${CLASS} and l.objsubid = 2
          and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database()))`

export interface LineOptions<Item> {
  /**
   * Stands in line for all of them and waits for the first; true for each that need not be waited for any more. Rejects when it
   * has waited in vain.
   */
  readonly wait: (items: readonly Item[]) => Promise<readonly boolean[]>
  readonly idOf: (item: Item) => string
  /** After so long the next statement stands in line: well before the one before it gives up. */
  readonly againMs: number
}

interface Entry<Item> { item: Item, wantedUntilMs: number }

export class Line<Item> {
  readonly #options: LineOptions<Item>
  /** The one that was waited for last is the last. */
  readonly #entries = new Map<string, Entry<Item>>()
  readonly #calls = new Set<{ readonly sinceMs: number, readonly ids: ReadonlySet<string> }>()
  #timer: NodeJS.Timeout | null = null

  constructor (options: LineOptions<Item>) {
    this.#options = options
  }

  /** They stand in line until they are written, or nobody has asked for them for a while. */
  join (items: readonly Item[]): void {
    const wantedUntilMs = performance.now() + WANTED_MS
    for (const item of items) {
      const id = this.#options.idOf(item)
      const entry = this.#entries.get(id)
      if (entry === undefined) this.#entries.set(id, { item, wantedUntilMs })
      else Object.assign(entry, { item, wantedUntilMs })
    }
    if (items.length > 0) this.#go()
  }

  leave (id: string): void { this.#entries.delete(id) }

  close (): void {
    this.#entries.clear()
    this.#rest()
  }

  #go (): void {
    this.#rest()
    const now = performance.now()
    for (const [id, { wantedUntilMs }] of this.#entries) if (wantedUntilMs < now) this.#entries.delete(id)
    if (this.#entries.size === 0 || this.#calls.size >= CALLS_MAX) return
    const calls = Array.from(this.#calls)
    const againAtMs = Math.max(-Infinity, ...calls.map(({ sinceMs }) => sinceMs)) + this.#options.againMs
    const isAlone = Array.from(this.#entries.keys()).some((id) => !calls.some(({ ids }) => ids.has(id)))
    if (isAlone || againAtMs <= now) void this.#call(now)
    this.#timer = setTimeout(() => { this.#go() }, isAlone ? this.#options.againMs : Math.max(1, againAtMs - now)).unref()
  }

  async #call (sinceMs: number): Promise<void> {
    const [[first, entry] = []] = this.#entries
    if (first === undefined || entry === undefined) return
    const items = Array.from(this.#entries.values(), ({ item }) => item)
    const call = { sinceMs, ids: new Set(this.#entries.keys()) }
    this.#calls.add(call)
    // The next one waits for another row: it goes on holding the others' places when this one ends.
    this.#entries.delete(first)
    this.#entries.set(first, entry)
    try {
      const over = await this.#options.wait(items)
      items.forEach((item, index) => { if (over[index] === true) this.#entries.delete(this.#options.idOf(item)) })
    } catch (error) {
      // Not for a lock: a database that is away is asked again by whoever still wants it.
      if (!hasWaitedInVain(error)) for (const id of call.ids) this.#entries.delete(id)
    } finally {
      this.#calls.delete(call)
      this.#go()
    }
  }

  #rest (): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
  }
}
