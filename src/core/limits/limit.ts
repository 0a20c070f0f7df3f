/**
 * A bound on what is held at once (bytes, slots), which no single holder can use up. Each caller and each peer may hold a multiple of what
 * is free, derived from `alone`. One holder alone gets that share of the bound, and two get less each. A new one finds room however many
 * came before (dynamic thresholds: Choudhury and Hahne, IEEE/ACM ToN 6(2), 1998). It counts only, and knows neither what is held nor for
 * how long.
 */

/** The holder of something. null: it cannot be told apart, so no share is counted. */
export interface Holder {
  /** A scope's text. */
  readonly caller: string | null
  /** The client's address behind `trustProxies`. For IPv6: the network of one client. */
  readonly peer: string | null
}

export const NOBODY: Holder = { caller: null, peer: null }

/** What refuses: the bound itself, or the share of this caller or this peer. */
export type Refusal = 'full' | 'caller' | 'peer'

export interface TakeOptions {
  /** What a holder may have whatever its share is, if there is room: the smallest useful amount. Absent: 1. */
  readonly least?: number
}

const NO_OPTIONS: TakeOptions = {}

export class Limit {
  #max: number
  /** What one holder may have, as a multiple of what is free. */
  #pull: number
  #held = 0
  readonly #callers = new Holdings()
  readonly #peers = new Holdings()

  /** `alone`: the share of one holder while no other holds anything, 0 < alone <= 1. 1: no shares. */
  constructor (max: number, alone = 1) {
    this.#max = max
    this.#pull = pullOf(alone)
  }

  get held (): number { return this.#held }
  get full (): boolean { return this.#held >= this.#max }
  get free (): number { return Math.max(0, this.#max - this.#held) }
  /** How many callers and peers hold something. For tests. */
  get holders (): number { return this.#callers.holders + this.#peers.holders }

  /** How many callers and peers are remembered. For tests. */
  get remembered (): number { return this.#callers.size + this.#peers.size }

  /** What is held stays held. A smaller bound refuses new requests. */
  resize (max: number, alone = 1): void {
    this.#max = max
    this.#pull = pullOf(alone)
  }

  /** null: taken. Otherwise nothing was taken. */
  take (amount: number, by: Holder = NOBODY, options: TakeOptions = NO_OPTIONS): Refusal | null {
    const refusal = this.refusal(amount, by, options)
    if (refusal === null) this.force(amount, by)
    return refusal
  }

  /** The result that {@link take} would have now. */
  refusal (amount: number, { caller, peer }: Holder = NOBODY, { least = 1 }: TakeOptions = NO_OPTIONS): Refusal | null {
    const free = this.#max - this.#held - amount
    if (free < 0) return 'full'
    if (this.#pull === Infinity) return null
    const most = Math.max(least, this.#pull * free)
    if (caller !== null && this.#callers.of(caller) + amount > most) return 'caller'
    if (peer !== null && this.#peers.of(peer) + amount > most) return 'peer'
    return null
  }

  /** Takes as much as the bound (or `part` of it) has left, from 0 to all. For the gateway's own work, which has no share. */
  takeUpTo (amount: number, part = 1): number {
    const taken = Math.max(0, Math.min(amount, Math.floor(this.#max * part) - this.#held))
    this.#held += taken
    return taken
  }

  /** For an amount that is held already and cannot be refused. The bound then refuses the next one. */
  force (amount: number, { caller, peer }: Holder = NOBODY): void {
    this.#held += amount
    if (caller !== null) this.#callers.add(caller, amount)
    if (peer !== null) this.#peers.add(peer, amount)
  }

  /** `by`: the holder that took it. */
  release (amount: number, { caller, peer }: Holder = NOBODY): void {
    this.#held -= amount
    if (caller !== null) this.#callers.add(caller, -amount)
    if (peer !== null) this.#peers.add(peer, -amount)
  }
}

/**
 * The amount per holder. A holder with nothing stays for a while. A Map entry that comes and goes with every request would cost more than
 * everything else here (1.2 of 75 µs of a replay, Node 24.21).
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

/** The most holders with nothing. At this number they are removed. */
const EMPTY_MAX = 1_024

/** h <= pull * (max - h) is the same as h <= alone * max. */
function pullOf (alone: number): number {
  return alone >= 1 ? Infinity : alone / (1 - alone)
}
