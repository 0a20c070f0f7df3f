/**
 * How many records each caller, and each peer, has on a route that bounds them: as the store last said, and what this process
 * has claimed since. Of whom nothing is known the store is asked first. Other processes' records are
 * known within a second (background/record-counts.ts), so that a bound may be passed by what all of them claim meanwhile.
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

/** Of callers and peers: those that were not heard of for the longest time are asked for anew. Some MB. */
const KNOWN_MAX = 10_000
/** One statement's. */
const BATCH_MAX = 1_000

interface Known {
  readonly route: string
  /** `caller` or `peer`, and its name. */
  readonly who: string
  keepMs: number
  /** By the store's last word; null: it has not been heard. */
  told: number | null
  /** Not told to the store, and being told just now. */
  since: number
  telling: number
  /** Something has come for it since the store was asked last. */
  isDue: boolean
}

interface Bound { readonly as: Exclude<Refusal, 'full'>, readonly who: string, readonly most: number }

export class RecordCounts {
  readonly #context: RecordCountContext
  readonly #known = new Map<string, Known>()
  #soon: Promise<void> | null = null

  constructor (context: RecordCountContext) {
    this.#context = context
  }

  /** null: there is room. Else what the store makes of it: null where it may go on, and need not be asked again. */
  ask (keyed: KeyedRequest): Promise<Rejected | null> | null {
    const bounds = boundsOf(keyed)
    if (bounds.length === 0 || (this.#knows(keyed, bounds) && this.#beyond(keyed, bounds, 1) === null)) return null
    return this.#asked(keyed)
  }

  async #asked (keyed: KeyedRequest): Promise<Rejected | null> {
    await this.hear(keyed)
    const as = this.beyond(keyed)
    // What it has already is told, taken up again or sent again as ever: it is no further one.
    return as === null || await this.#stands(keyed) ? null : this.refused(as)
  }

  /** The store's word on whom nothing is known of; for no longer than a claim waits, since that would find the store away as well. */
  async hear (keyed: KeyedRequest): Promise<void> {
    if (this.#knows(keyed, boundsOf(keyed))) return
    const { clock, claimWithinMs } = this.#context.deps
    await withTimeout(clock, claimWithinMs, this.#tellSoon().catch(() => {}))
  }

  /** Whose bound so many more would pass; null: there is room. */
  beyond (keyed: KeyedRequest, records = 1): Bound['as'] | null {
    return this.#beyond(keyed, boundsOf(keyed), records)
  }

  /** What is answered for it, and counted. */
  refused (as: Bound['as']): Rejected {
    this.#context.deps.meter.shed('records', as)
    return rejected('too-many-records')
  }

  #knows (keyed: KeyedRequest, bounds: readonly Bound[]): boolean {
    return bounds.every(({ who }) => this.#of(keyed, who).told !== null)
  }

  #beyond (keyed: KeyedRequest, bounds: readonly Bound[], records: number): Bound['as'] | null {
    return bounds.find(({ who, most }) => {
      const { told, since, telling } = this.#of(keyed, who)
      return (told ?? 0) + since + telling + records > most
    })?.as ?? null
  }

  async #stands ({ route, id }: KeyedRequest): Promise<boolean> {
    const { ids, deps: { clock, claimWithinMs } } = this.#context
    return await withTimeout(clock, claimWithinMs, ids.stands(route, id).catch(() => false)) === true
  }

  /** So many were claimed; below zero: they are nobody's any more. */
  count (keyed: KeyedRequest, records = 1): void {
    for (const { who } of boundsOf(keyed)) this.#of(keyed, who).since += records
  }

  /** What is asked for within a turn goes as one. */
  async #tellSoon (): Promise<void> {
    this.#soon ??= new Promise<void>((resolve) => { this.#context.deps.clock.after(0, resolve) }).then(async () => {
      this.#soon = null
      await this.#tellThose(({ told, isDue }) => isDue && told === null)
    })
    await this.#soon
  }

  /** Tells the store what came since, and hears what it has. @throws StoreUnavailable */
  async tell (): Promise<void> {
    await this.#tellThose(({ isDue }) => isDue)
  }

  async #tellThose (are: (known: Known) => boolean): Promise<void> {
    const due = Array.from(this.#known.values()).filter(are)
    for (let at = 0; at < due.length; at += BATCH_MAX) await this.#tellBatch(due.slice(at, at + BATCH_MAX))
  }

  async #tellBatch (batch: readonly Known[]): Promise<void> {
    const { deps: { counts }, ids: { keyed: [keys] } } = this.#context
    const secret = keys?.secret ?? null
    const told = batch.map(({ route, who, since, keepMs }): RecordCount => ({ route, who: keyHash(who, secret), records: since, keepMs }))
    for (const [index, each] of batch.entries()) {
      each.telling += told[index]?.records ?? 0
      each.since = 0
      each.isDue = false
    }
    try {
      const totals = await counts.add(told)
      for (const [index, each] of batch.entries()) each.told = totals[index] ?? each.told
    } catch (error) {
      for (const [index, each] of batch.entries()) {
        each.since += told[index]?.records ?? 0
        each.isDue = true
      }
      throw error
    } finally {
      for (const [index, each] of batch.entries()) each.telling -= told[index]?.records ?? 0
    }
  }

  /** The one that was asked for longest ago makes room: what it had not told is lost, which is a second's. */
  #of ({ route: { name, idempotency: { drop } }, retentionMs }: KeyedRequest, who: string): Known {
    const [id, keepMs] = [`${name}\n${who}`, drop?.windowMs ?? retentionMs]
    const known = this.#known.get(id) ?? { route: name, who, keepMs, told: null, since: 0, telling: 0, isDue: true }
    known.keepMs = keepMs
    known.isDue = true
    this.#known.delete(id)
    this.#known.set(id, known)
    const [oldest] = this.#known.keys()
    if (this.#known.size > KNOWN_MAX && oldest !== undefined) this.#known.delete(oldest)
    return known
  }
}

/** Where callers are not told apart, the peer is the caller; one behind a proxy that does not say who it is has no bound. */
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
