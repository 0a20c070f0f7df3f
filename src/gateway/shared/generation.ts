/**
 * Which copies in Redis are believed. Redis may come back with what it held before an operator's delete, so every copy names
 * the generation of the installation under which its row was read, and a delete begins a new one in the very transaction that
 * shortens the row's life (ports.ts). Each sign of life says which one it is (a sixth of a lease apart).
 *
 * Why that is enough. A delete at the time T lets its row end at T + 2 leases of the row; nothing of the life before may be
 * replayed after that. A copy is believed for as long as the sign of life that knew its generation was *sent* no longer than
 * half a lease of its row ago: a gateway that has not heard of the delete has sent its last one before T was committed, believes
 * until half a lease later, and remembers what it believed for one lease (replay-cache.ts). That leaves half a lease for the commit
 * of the delete itself to take. And a copy written under a generation was read after it was known: what was read of a row before
 * its delete never gets the generation that the delete began.
 *
 * A gateway without such a recent sign of life gives one before it believes (redis-copies.ts), and what it is told stands.
 * Only where the arbiter cannot be reached a copy of the last generation that was known still replays: a delete needs
 * the database too, so the two meet only in a gateway that has lost a database which others still reach, beside a Redis
 * that came back from before a delete made in just that time. It replays an answer that was given, and executes
 * nothing; when the database is back, or the copy's own life is over, that ends (docs/concepts/guarantees.md).
 */
import type { Clock } from '../../ports/clock.ts'
import type { Copy } from '../../ports/locks.ts'
import { sinceMs } from './clock-reading.ts'
import type { ClockReading } from './clock-reading.ts'

/**
 * believed: replay it. unconfirmed: of the last generation known, which was asked for too long ago: the arbiter is asked again, if it
 * can be reached. outdated: of one that is over: it is in nobody's way any more. unknown: this gateway does not know its
 * generation (yet).
 */
export type Belief = 'believed' | 'unconfirmed' | 'outdated' | 'unknown'

/** Of the row's lease: the age of a sign of life that vouches for a copy. Three heartbeats, where leases are alike. */
const VOUCHES_SHARE = 1 / 2

export class Generation {
  readonly #clock: Clock
  #known: number | null = null
  /** Monotonic: by then it was known. */
  #sinceMs = 0
  #asked: ClockReading = { monotonicMs: 0, offsetMs: 0 }
  /** A sign of life at once, one for all who want one; the heartbeat sets it. Rejects as the arbiter does. */
  sign: () => Promise<void> = async () => {}

  constructor (clock: Clock) {
    this.#clock = clock
  }

  /** A sign of life was answered. `asked`: before it was sent. */
  learn (generation: number, asked: ClockReading): void {
    // Two may be under way; the one that was sent last knows best.
    if (this.#known !== null && asked.monotonicMs < this.#asked.monotonicMs) return
    if (generation !== this.#known) this.#sinceMs = this.#clock.monotonicMs()
    this.#known = generation
    this.#asked = asked
  }

  /** Of a copy of what a statement says that was sent at `askedAtMs`; null: it was not known by then. */
  before (askedAtMs: number): number | null {
    return this.#sinceMs <= askedAtMs ? this.#known : null
  }

  of ({ generation, leaseMs }: Copy): Belief {
    if (this.#known === null || generation > this.#known) return 'unknown'
    if (generation < this.#known) return 'outdated'
    return this.#ageMs() <= leaseMs * VOUCHES_SHARE ? 'believed' : 'unconfirmed'
  }

  /** On whichever clock more time has passed: the monotonic one stands still while the machine is suspended. */
  #ageMs (): number {
    return sinceMs(this.#clock, this.#asked)
  }
}
