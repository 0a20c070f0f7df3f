/**
 * How many records each caller, and each peer, has on a route that bounds them: as the store last said, and what this process
 * has claimed since. Nobody waits for the store: other processes' records, and those of a caller that was not heard of yet, are
 * known within a second (background/counting.ts), so that a bound may be passed by what all of them claim meanwhile.
 */
import { keyHash } from '../core/identity.ts'
import type { Refusal } from '../core/limit.ts'
import type { RecordCount } from '../ports.ts'
import type { Visit } from './execution.ts'
import type { Gateway } from './gateway.ts'
import { rejected } from './outcome.ts'
import type { Rejected } from './outcome.ts'
import { within } from './patience.ts'

/** Of callers and peers: those that were not heard of for the longest time are asked for anew. Some MB. */
const KNOWN_MAX = 10_000
/** One statement's. */
const BATCH_MAX = 1_000

interface Known {
  readonly route: string
  /** `caller` or `peer`, and its name. */
  readonly who: string
  keepMs: number
  /** By the store's last word. */
  told: number
  /** Not told to the store, and being told just now. */
  since: number
  telling: number
  /** Something has come for it since the store was asked last. */
  isDue: boolean
}

interface Bound { readonly as: Exclude<Refusal, 'full'>, readonly who: string, readonly most: number }

export class RecordCounts {
  readonly #gateway: Gateway
  readonly #known = new Map<string, Known>()

  constructor (gateway: Gateway) {
    this.#gateway = gateway
  }

  /** null: there is room for so many more. */
  refusal (visit: Visit, records = 1): Rejected | null {
    for (const { as, who, most } of boundsOf(visit)) {
      const { told, since, telling } = this.#of(visit, who)
      if (told + since + telling + records <= most) continue
      this.#gateway.world.meter.shed('records', as)
      return rejected('too-many-records')
    }
    return null
  }

  /** What it has already is told, taken up again or sent again as ever: it is no further one. */
  async stands ({ route, id }: Visit): Promise<boolean> {
    const { ids, world: { clock, claimWithinMs } } = this.#gateway
    return await within(clock, claimWithinMs, ids.stands(route, id).catch(() => false)) === true
  }

  /** So many were claimed; below zero: they are nobody's any more. */
  count (visit: Visit, records = 1): void {
    for (const { who } of boundsOf(visit)) this.#of(visit, who).since += records
  }

  /** Tells the store what came since, and hears what it has. @throws StoreUnavailable */
  async tell (): Promise<void> {
    const due = Array.from(this.#known.values()).filter(({ isDue }) => isDue)
    for (let at = 0; at < due.length; at += BATCH_MAX) await this.#tellBatch(due.slice(at, at + BATCH_MAX))
  }

  async #tellBatch (batch: readonly Known[]): Promise<void> {
    const { world: { counts }, ids: { keyed: [keys] } } = this.#gateway
    const secret = keys?.secret ?? null
    const told = batch.map(({ route, who, since, keepMs }): RecordCount => ({ route, who: keyHash(who, secret), records: since, keepMs }))
    for (const each of batch) [each.telling, each.since, each.isDue] = [each.since, 0, false]
    try {
      const totals = await counts.add(told)
      for (const [index, each] of batch.entries()) each.told = totals[index] ?? each.told
    } catch (error) {
      for (const each of batch) [each.since, each.isDue] = [each.since + each.telling, true]
      throw error
    } finally {
      for (const each of batch) each.telling = 0
    }
  }

  /** The one that was asked for longest ago makes room: what it had not told is lost, which is a second's. */
  #of ({ route: { name, idempotency: { drop } }, retentionMs }: Visit, who: string): Known {
    const [id, keepMs] = [`${name}\n${who}`, drop?.windowMs ?? retentionMs]
    const known = this.#known.get(id) ?? { route: name, who, keepMs, told: 0, since: 0, telling: 0, isDue: true }
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
