/**
 * Waiting in line for rows that a stranger holds locked. A living owner writes its row as soon as the lock is released, and no
 * lapse takes the row in the moment between. Every session sees the line: an advisory lock per row that is waited for, held
 * until the waiting statement ends. It has no gap: the next statement joins before the one before it gives up. Only statements
 * that must wait come here, on connections of their own.
 */
import { hasWaitedInVain } from './faults.ts'

/** The class of these advisory locks. Others may use advisory locks in the same database. */
const CLASS = 0x6f_6e_63_65
/** Statements that wait: one, the next one, and one for rows that were locked only now. */
const CALLS_MAX = 3
/** For both kinds of rows that are waited for: leases and workers. */
export const LINE_CONNECTIONS = 2 * CALLS_MAX
/**
 * A row that no caller asks about any more leaves the line after this. Several ticks of the renewals, one round of the workers.
 */
const WANTED_MS = 6_000

/** Four random or hashed bytes. A collision costs a wait until the next look. */
const keyOf = (column: string) => `('x' || encode(substr(${column}, 1, 4), 'hex'))::bit(32)`

/** Locks per statement: the server has room for some thousands, of all its sessions together. */
const PLACES_MAX = 256
/** If more rows than that are locked, the line is for all rows. */
const ALL = 0

/**
 * `line`: for the rows whose ids are in the first parameter, held until the statement ends. Count it before any row is locked.
 */
export const IN_LINE = `line as materialized (
  select pg_advisory_xact_lock_shared(${CLASS}, p.key)
    from (select distinct case when cardinality($1::bytea[]) > ${PLACES_MAX} then ${ALL} else ${keyOf('w.id')}::int end as key from unnest($1::bytea[]) as w (id)) p
   cross join lock_limit
)`

/**
 * No one waits in line for this row. Evaluated once per statement, and only if there is a row to take. A living owner is in
 * line before its lease is over, so one look after the statement's start is enough.
 */
export const nobodyInLine = (column: string) => `not array[${ALL}::oid, ${keyOf(column)}::bigint::oid] && array(
       select l.objid from pg_catalog.pg_locks l
        where l.locktype = 'advisory' and l.classid = ${CLASS} and l.objsubid = 2
          and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database()))`

export interface LineOptions<Item> {
  /**
   * Joins the line for all of them and waits for the first. Returns true for each that need not wait any more. Rejects if the
   * wait was in vain.
   */
  readonly wait: (items: readonly Item[]) => Promise<readonly boolean[]>
  readonly idOf: (item: Item) => string
  /** After this long the next statement joins the line, well before the one before it gives up. */
  readonly againMs: number
}

interface Entry<Item> { item: Item, wantedUntilMs: number }

export class Line<Item> {
  readonly #options: LineOptions<Item>
  /** The item that was waited for last is the last. */
  readonly #entries = new Map<string, Entry<Item>>()
  readonly #calls = new Set<{ readonly sinceMs: number, readonly ids: ReadonlySet<string> }>()
  #timer: NodeJS.Timeout | null = null

  constructor (options: LineOptions<Item>) {
    this.#options = options
  }

  /** They stay in line until they are written, or no caller has asked for them for a while. */
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
    // The next statement waits for another row and keeps the others' places when this one ends.
    this.#entries.delete(first)
    this.#entries.set(first, entry)
    try {
      const over = await this.#options.wait(items)
      items.forEach((item, index) => { if (over[index] === true) this.#entries.delete(this.#options.idOf(item)) })
    } catch (error) {
      // Not a lock: if the database is away, the callers ask again.
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
