/**
 * The number of records of each caller, and of each peer, on a route that bounds them.
 * It is the store's last total and what this process has claimed since. If no total is known, the store is asked first.
 * Records of other processes are known within a second (background/record-counts.ts).
 * So a bound may be exceeded by what all processes claim in that time.
 */
import { keyHash } from '../../core/record/record-id.ts'
import type { Refusal } from '../../core/limits/limit.ts'
import type { RecordCount } from '../../ports/record-counts.ts'
import type { KeyedRequest } from '../fingerprint/keyed-request.ts'
import type { Ids } from '../shared/ids.ts'
import { rejected } from '../shared/outcome.ts'
import type { Rejected } from '../shared/outcome.ts'
import { withTimeout } from '../shared/timeout.ts'
import type { Deps } from '../shared/deps.ts'

interface RecordCountContext { readonly deps: Deps, readonly ids: Ids }

/** The most callers and peers in memory: some MB. The least recently used one is evicted, and loaded again when it comes back. */
const ENTRIES_MAX = 10_000
/** The most counts in one statement. */
const BATCH_MAX = 1_000

interface CountEntry {
  readonly route: string
  /** `caller` or `peer`, and its name. */
  readonly who: string
  keepMs: number
  /** The store's last total. null: not loaded yet. */
  total: number | null
  /** Records that are not reported to the store yet, and those in the report in flight. */
  unreported: number
  reporting: number
  /** It was used since the last report, so it is in the next one. */
  isDue: boolean
}

interface Bound { readonly as: Exclude<Refusal, 'full'>, readonly who: string, readonly most: number }

export class RecordCounts {
  readonly #context: RecordCountContext
  readonly #entries = new Map<string, CountEntry>()
  #loading: Promise<void> | null = null

  constructor (context: RecordCountContext) {
    this.#context = context
  }

  /** null: there is room, as far as known here. Else the store decides: a refusal, or null if the request may go on. */
  check (keyed: KeyedRequest): Promise<Rejected | null> | null {
    const bounds = boundsOf(keyed)
    if (bounds.length === 0 || (this.#isLoaded(keyed, bounds) && this.#exceeded(keyed, bounds, 1) === null)) return null
    return this.#checkInStore(keyed)
  }

  async #checkInStore (keyed: KeyedRequest): Promise<Rejected | null> {
    await this.load(keyed)
    const as = this.exceeded(keyed)
    // A record that exists already adds none: its retries are served at the bound too.
    return as === null || await this.#exists(keyed) ? null : this.shed(as)
  }

  /**
   * Loads missing totals from the store. It waits no longer than a claim does: a claim would find the store down as well. null: none is
   * missing.
   */
  load (keyed: KeyedRequest): Promise<unknown> | null {
    if (this.#isLoaded(keyed, boundsOf(keyed))) return null
    const { clock, claimWithinMs } = this.#context.deps
    return withTimeout(clock, claimWithinMs, this.#loadSoon().catch(() => {}))
  }

  /** The bound that `records` more would exceed. null: there is room. */
  exceeded (keyed: KeyedRequest, records = 1): Bound['as'] | null {
    return this.#exceeded(keyed, boundsOf(keyed), records)
  }

  /** The answer to a refused request, which is counted as shed. */
  shed (as: Bound['as']): Rejected {
    this.#context.deps.meter.shed('records', as)
    return rejected('too-many-records')
  }

  #isLoaded (keyed: KeyedRequest, bounds: readonly Bound[]): boolean {
    return bounds.every(({ who }) => this.#entryOf(keyed, who).total !== null)
  }

  #exceeded (keyed: KeyedRequest, bounds: readonly Bound[], records: number): Bound['as'] | null {
    return bounds.find(({ who, most }) => {
      const { total, unreported, reporting } = this.#entryOf(keyed, who)
      return (total ?? 0) + unreported + reporting + records > most
    })?.as ?? null
  }

  async #exists ({ route, id }: KeyedRequest): Promise<boolean> {
    const { ids, deps: { clock, claimWithinMs } } = this.#context
    return await withTimeout(clock, claimWithinMs, ids.exists(route, id).catch(() => false)) === true
  }

  /** Counts claimed records. Negative: records that went away. */
  count (keyed: KeyedRequest, records = 1): void {
    for (const { who } of boundsOf(keyed)) this.#entryOf(keyed, who).unreported += records
  }

  /** Loads that are requested within one turn of the event loop go in one statement. */
  async #loadSoon (): Promise<void> {
    this.#loading ??= new Promise<void>((resolve) => { this.#context.deps.clock.after(0, resolve) }).then(async () => {
      this.#loading = null
      await this.#reportThose(({ total, isDue }) => isDue && total === null)
    })
    await this.#loading
  }

  /** Reports new records to the store, and takes its totals. @throws StoreUnavailable */
  async report (): Promise<void> {
    await this.#reportThose(({ isDue }) => isDue)
  }

  async #reportThose (isIncluded: (entry: CountEntry) => boolean): Promise<void> {
    const due = Array.from(this.#entries.values()).filter(isIncluded)
    for (let at = 0; at < due.length; at += BATCH_MAX) await this.#reportBatch(due.slice(at, at + BATCH_MAX))
  }

  async #reportBatch (batch: readonly CountEntry[]): Promise<void> {
    const { deps: { counts }, ids: { schemeKeys: [keys] } } = this.#context
    const secret = keys?.secret ?? null
    const counted = batch.map(({ route, who, unreported, keepMs }): RecordCount => ({
      route,
      who: keyHash(who, secret),
      records: unreported,
      keepMs
    }))
    for (const [index, each] of batch.entries()) {
      each.reporting += counted[index]?.records ?? 0
      each.unreported = 0
      each.isDue = false
    }
    try {
      const totals = await counts.add(counted)
      for (const [index, each] of batch.entries()) each.total = totals[index] ?? each.total
    } catch (error) {
      for (const [index, each] of batch.entries()) {
        each.unreported += counted[index]?.records ?? 0
        each.isDue = true
      }
      throw error
    } finally {
      for (const [index, each] of batch.entries()) each.reporting -= counted[index]?.records ?? 0
    }
  }

  /** Evicts the least recently used entry if there are too many. Its unreported records of up to a second are lost. */
  #entryOf ({ route: { name, idempotency: { drop } }, retentionMs }: KeyedRequest, who: string): CountEntry {
    const [id, keepMs] = [`${name}\n${who}`, drop?.windowMs ?? retentionMs]
    const entry = this.#entries.get(id) ?? { route: name, who, keepMs, total: null, unreported: 0, reporting: 0, isDue: true }
    entry.keepMs = keepMs
    entry.isDue = true
    this.#entries.delete(id)
    this.#entries.set(id, entry)
    const [oldest] = this.#entries.keys()
    if (this.#entries.size > ENTRIES_MAX && oldest !== undefined) this.#entries.delete(oldest)
    return entry
  }
}

/** If callers are not told apart, the peer counts as the caller. A peer that is unknown behind a proxy has no bound. */
function boundsOf ({
  route: { idempotency: { recordsPerCaller, recordsPerPeer } },
  reservation: { holder: { caller, peer } }
}: KeyedRequest): readonly Bound[] {
  if (recordsPerCaller === null && recordsPerPeer === null) return NO_BOUNDS
  const ofPeer = Math.min(recordsPerPeer ?? Infinity, caller === null ? recordsPerCaller ?? Infinity : Infinity)
  return [
    ...(recordsPerCaller !== null && caller !== null ? [{ as: 'caller' as const, who: `caller ${caller}`, most: recordsPerCaller }] : []),
    ...(ofPeer !== Infinity && peer !== null ? [{ as: 'peer' as const, who: `peer ${peer}`, most: ofPeer }] : [])
  ]
}

const NO_BOUNDS: readonly Bound[] = []
