/**
 * Which copies in Redis are believed. Redis may come back with its contents of before an operator's delete.
 * So every copy names the generation of the installation under which its row was read.
 * A delete begins a new generation in the transaction that shortens the row's life (ports.ts).
 * Each heartbeat returns the current generation. Heartbeats are a sixth of a lease apart.
 *
 * Why that is enough. A delete at time T lets its row end at T + 2 leases. Nothing of that life may be replayed later.
 * A copy is believed while the heartbeat that knew its generation was *sent* at most half a lease ago.
 * A gateway that has not heard of the delete sent its last heartbeat before T was committed.
 * It believes copies for half a lease after that, and keeps what it believed for one lease (replay-cache.ts).
 * Half a lease is left for the commit of the delete itself.
 * A copy gets a generation only if its row was read after that generation was known.
 * So a row that was read before its delete never gets the generation that the delete began.
 *
 * A gateway without such a recent heartbeat sends one before it believes a copy (redis-copies.ts).
 * If the arbiter cannot be reached, a copy of the last known generation is still replayed.
 * A delete needs the database too. So a deleted answer replays only under two conditions at once:
 * - This gateway has lost a database that others still reach.
 * - Redis came back with a state from before a delete that was made in that time.
 * Even then the gateway replays an answer that was given once, and executes nothing.
 * It ends when the database is back, or when the copy's own life is over (docs/concepts/guarantees.md).
 */
import type { Clock } from '../../ports/clock.ts'
import type { Copy } from '../../ports/locks.ts'
import { sinceMs } from './clock-reading.ts'
import type { ClockReading } from './clock-reading.ts'

/**
 * - believed: replay it.
 * - unconfirmed: it has the last known generation, but the last heartbeat is too old. The arbiter is asked again if it can be reached.
 * - outdated: its generation is over. It is ignored.
 * - unknown: this gateway does not know its generation (yet).
 */
export type Belief = 'believed' | 'unconfirmed' | 'outdated' | 'unknown'

/** The share of the row's lease for which a heartbeat vouches for a copy. Three heartbeats, if all leases are alike. */
const BELIEVED_SHARE = 1 / 2

export class Generation {
  readonly #clock: Clock
  #known: number | null = null
  /** Monotonic: when the known generation was learned. */
  #sinceMs = 0
  #heartbeatAt: ClockReading = { monotonicMs: 0, offsetMs: 0 }
  /** Sends a heartbeat at once, one for all concurrent callers. background/heartbeat.ts sets it. Rejects as the arbiter does. */
  heartbeat: () => Promise<void> = async () => {}

  constructor (clock: Clock) {
    this.#clock = clock
  }

  /** A heartbeat was answered. `asked`: read before it was sent. */
  learn (generation: number, asked: ClockReading): void {
    // Two may be in flight. The one that was sent last is right.
    if (this.#known !== null && asked.monotonicMs < this.#heartbeatAt.monotonicMs) return
    if (generation !== this.#known) this.#sinceMs = this.#clock.monotonicMs()
    this.#known = generation
    this.#heartbeatAt = asked
  }

  /** The generation for a copy of a row that was read by a statement sent at `askedAtMs`. null: it was not known by then. */
  knownAt (askedAtMs: number): number | null {
    return this.#sinceMs <= askedAtMs ? this.#known : null
  }

  beliefIn ({ generation, leaseMs }: Copy): Belief {
    if (this.#known === null || generation > this.#known) return 'unknown'
    if (generation < this.#known) return 'outdated'
    return this.#ageMs() <= leaseMs * BELIEVED_SHARE ? 'believed' : 'unconfirmed'
  }

  #ageMs (): number {
    return sinceMs(this.#clock, this.#heartbeatAt)
  }
}
