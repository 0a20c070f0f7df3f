/**
 * A bound on what is held at once — bytes, places — that nobody can hold alone. Each caller and each peer may have so many
 * times what is free as `alone` says: one of them alone comes to that share of the bound, two to less each, and whoever is
 * new finds room however many came before (dynamic thresholds: Choudhury and Hahne, IEEE/ACM ToN 6(2), 1998).
 * Counts only: it knows neither what is held nor for how long.
 */

/** Who holds something. null: nobody that could be told apart, so that no share is counted. */
export interface Holder {
  /** A scope's text. */
  readonly caller: string | null
  /** The client's address behind `trustProxies`; of IPv6 the network that one client has. */
  readonly peer: string | null
}

export const NOBODY: Holder = { caller: null, peer: null }

/** What is in the way: the bound itself, or the share that this caller, or this peer, may have of it. */
export type Refusal = 'full' | 'caller' | 'peer'

export interface TakeOptions {
  /** So much a holder may have whatever its share is, while there is room: the smallest thing that is of use. Absent: 1. */
  readonly least?: number
}

const NO_OPTIONS: TakeOptions = {}

export class Limit {
  #max: number
  /** How many times what is free one holder may have. */
  #pull: number
  #held = 0
  readonly #callers = new Holdings()
  readonly #peers = new Holdings()

  /** `alone`: the share of one holder while nobody else has anything, 0 < alone <= 1; 1: no shares. */
  constructor (max: number, alone = 1) {
    this.#max = max
    this.#pull = pullOf(alone)
  }

  get held (): number { return this.#held }
  get full (): boolean { return this.#held >= this.#max }
  get free (): number { return Math.max(0, this.#max - this.#held) }
  /** Of whom something is counted; for tests. */
  get holders (): number { return this.#callers.holders + this.#peers.holders }

  /** Of whom something is remembered; for tests. */
  get remembered (): number { return this.#callers.size + this.#peers.size }

  /** What is held stays held; a smaller bound stops what comes next. */
  resize (max: number, alone = 1): void {
    this.#max = max
    this.#pull = pullOf(alone)
  }

  /** null: taken. Else nothing was. */
  take (amount: number, by: Holder = NOBODY, options: TakeOptions = NO_OPTIONS): Refusal | null {
    const refusal = this.refusal(amount, by, options)
    if (refusal === null) this.force(amount, by)
    return refusal
  }

  /** What {@link take} would say now. */
  refusal (amount: number, { caller, peer }: Holder = NOBODY, { least = 1 }: TakeOptions = NO_OPTIONS): Refusal | null {
    const free = this.#max - this.#held - amount
    if (free < 0) return 'full'
    if (this.#pull === Infinity) return null
    const most = Math.max(least, this.#pull * free)
    if (caller !== null && this.#callers.of(caller) + amount > most) return 'caller'
    if (peer !== null && this.#peers.of(peer) + amount > most) return 'peer'
    return null
  }

  /** As much of it as the bound (or `part` of it) has left; from 0 to all. For work of the gateway's own, which has no share. */
  takeUpTo (amount: number, part = 1): number {
    const taken = Math.max(0, Math.min(amount, Math.floor(this.#max * part) - this.#held))
    this.#held += taken
    return taken
  }

  /** For what is held already and cannot be refused any more; the bound then stops what comes next. */
  force (amount: number, { caller, peer }: Holder = NOBODY): void {
    this.#held += amount
    if (caller !== null) this.#callers.add(caller, amount)
    if (peer !== null) this.#peers.add(peer, amount)
  }

  /** By the holder that took it. */
  release (amount: number, { caller, peer }: Holder = NOBODY): void {
    this.#held -= amount
    if (caller !== null) this.#callers.add(caller, -amount)
    if (peer !== null) this.#peers.add(peer, -amount)
  }
}

/**
 * What each holds. Who has let go of everything stays in it for a while: to come and go in a Map with every request costs more
 * than all else here (1.2 of 75 µs of a replay, Node 24.21).
 */
class Holdings {
  readonly #accounts = new Map<string, { held: number }>()
  #sweepsAt = EMPTY_MAX

  get holders (): number { return Array.from(this.#accounts.values()).filter(({ held }) => held > 0).length }

  get size (): number { return this.#accounts.size }

  of (who: string): number {
    return this.#accounts.get(who)?.held ?? 0
  }

  add (who: string, amount: number): void {
    const account = this.#accounts.get(who)
    if (account !== undefined) account.held += amount
    else this.#enter(who, amount)
  }

  #enter (who: string, held: number): void {
    if (this.#accounts.size >= this.#sweepsAt) {
      for (const [name, account] of this.#accounts) if (account.held <= 0) this.#accounts.delete(name)
      this.#sweepsAt = this.#accounts.size + EMPTY_MAX
    }
    this.#accounts.set(who, { held })
  }
}

/** Of those who hold nothing, so many are in it at most: then all are gone through. */
const EMPTY_MAX = 1_024

/** h <= pull * (max - h) comes to h <= alone * max. */
function pullOf (alone: number): number {
  return alone >= 1 ? Infinity : alone / (1 - alone)
}
