/**
 * How many records each caller, and each peer, has on a route that bounds them: as the store last said, and what this process
 * has claimed since. Of whom nothing is known the store is asked first. Other processes' records are
 * known within a second (background/counting.ts), so that a bound may be passed by what all of them claim meanwhile.
 */
import { keyHash } from '../core/identity.ts'
import type { Refusal } from '../core/limit.ts'
import type { RecordCount } from '../ports.ts'
import type { Visit } from './execution.ts'
import type { Ids } from './ids.ts'
import { rejected } from './outcome.ts'
import type { Rejected } from './outcome.ts'
import { within } from './patience.ts'
import type { World } from './world.ts'

interface RecordCountParts { readonly world: World, readonly ids: Ids }

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
  readonly #gateway: RecordCountParts
  readonly #known = new Map<string, Known>()
  #soon: Promise<void> | null = null

  constructor (gateway: RecordCountParts) {
    this.#gateway = gateway
  }

  /** null: there is room. Else what the store makes of it: null where it may go on, and need not be asked again. */
  ask (visit: Visit): Promise<Rejected | null> | null {
    const bounds = boundsOf(visit)
    if (bounds.length === 0 || (this.#knows(visit, bounds) && this.#beyond(visit, bounds, 1) === null)) return null
    return this.#asked(visit)
  }

  async #asked (visit: Visit): Promise<Rejected | null> {
    await this.hear(visit)
    const as = this.beyond(visit)
    // What it has already is told, taken up again or sent again as ever: it is no further one.
    return as === null || await this.#stands(visit) ? null : this.refused(as)
  }

  /** The store's word on whom nothing is known of; for no longer than a claim waits, since that would find the store away as well. */
  async hear (visit: Visit): Promise<void> {
    if (this.#knows(visit, boundsOf(visit))) return
    const { clock, claimWithinMs } = this.#gateway.world
    await within(clock, claimWithinMs, this.#tellSoon().catch(() => {}))
  }

  /** Whose bound so many more would pass; null: there is room. */
  beyond (visit: Visit, records = 1): Bound['as'] | null {
    return this.#beyond(visit, boundsOf(visit), records)
  }

  /** What is answered for it, and counted. */
  refused (as: Bound['as']): Rejected {
    this.#gateway.world.meter.shed('records', as)
    return rejected('too-many-records')
  }

  #knows (visit: Visit, bounds: readonly Bound[]): boolean {
    return bounds.every(({ who }) => this.#of(visit, who).told !== null)
  }

  #beyond (visit: Visit, bounds: readonly Bound[], records: number): Bound['as'] | null {
    return bounds.find(({ who, most }) => {
      const { told, since, telling } = this.#of(visit, who)
      return (told ?? 0) + since + telling + records > most
    })?.as ?? null
  }

  async #stands ({ route, id }: Visit): Promise<boolean> {
    const { ids, world: { clock, claimWithinMs } } = this.#gateway
    return await within(clock, claimWithinMs, ids.stands(route, id).catch(() => false)) === true
  }

  /** So many were claimed; below zero: they are nobody's any more. */
  count (visit: Visit, records = 1): void {
    for (const { who } of boundsOf(visit)) this.#of(visit, who).since += records
  }

  /** What is asked for within a turn goes as one. */
  async #tellSoon (): Promise<void> {
    this.#soon ??= new Promise<void>(resolve => { this.#gateway.world.clock.after(0, resolve) }).then(async () => {
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
    const { world: { counts }, ids: { keyed: [keys] } } = this.#gateway
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
  #of ({ route: { name, idempotency: { drop } }, retentionMs }: Visit, who: string): Known {
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
function boundsOf ({ route: { idempotency: { recordsPerCaller, recordsPerPeer } }, holding: { holder: { caller, peer } } }: Visit): readonly Bound[] {
  if (recordsPerCaller === null && recordsPerPeer === null) return NO_BOUNDS
  const ofPeer = Math.min(recordsPerPeer ?? Infinity, caller === null ? recordsPerCaller ?? Infinity : Infinity)
  return [
    ...(recordsPerCaller !== null && caller !== null ? [{ as: 'caller' as const, who: `caller ${caller}`, most: recordsPerCaller }] : []),
    ...(ofPeer !== Infinity && peer !== null ? [{ as: 'peer' as const, who: `peer ${peer}`, most: ofPeer }] : [])
  ]
}

const NO_BOUNDS: readonly Bound[] = []
