/** The events of mode drop that are under way in this process: at most one that is marked for each record, and duplicates that are forwarded as such. */
import { Bag } from '../bag.ts'
import type { Place } from '../bag.ts'
import type { Clock, MarkResult, MarkStore, Sending } from '../ports.ts'
import type { Visit } from './execution.ts'
import type { Forwarding } from './forward.ts'
import type { Outcome } from './outcome.ts'

/** `unprotected`: the store is away, and the route forwards all the same. */
export type MarkVerdict = MarkResult | 'unprotected' | 'unavailable'

export class Dropping implements Forwarding {
  readonly visit: Visit
  /** null: a duplicate, whose mark is another's. */
  readonly marks: MarkStore | null
  readonly token: Buffer
  readonly attempt = null
  readonly duplicate: boolean
  readonly startedAtMs: number
  readonly #startedAtWallMs: number
  readonly verdict = Promise.withResolvers<MarkVerdict>()
  /** Has it gone through? For those who joined. */
  readonly through = Promise.withResolvers<boolean>()
  /** For the one who began it. */
  readonly ending = Promise.withResolvers<Outcome>()
  place: Place<Dropping> | null = null
  sending: Sending | null = null
  sentAtMs: number | null = null
  bufferedBytes = 0
  /** Given up before the send: the last look before the first byte refuses. */
  cancelled = false
  /** A mark of it may have been written, and nobody has said so. */
  doubted = false

  constructor (visit: Visit, marks: MarkStore | null, token: Buffer, clock: Clock) {
    this.visit = visit
    this.marks = marks
    this.token = token
    this.duplicate = marks === null
    this.startedAtMs = clock.monotonicMs()
    this.#startedAtWallMs = clock.wallMs()
  }

  /** On whichever clock more time has passed: the monotonic one stands still while the machine is suspended. */
  ageMs (clock: Clock): number {
    return Math.max(clock.monotonicMs() - this.startedAtMs, clock.wallMs() - this.#startedAtWallMs)
  }
}

export class Droppings {
  readonly #all = new Bag<Dropping>()
  readonly #joinable = new Map<string, Dropping>()

  get size (): number { return this.#all.size }

  get (name: string): Dropping | undefined { return this.#joinable.get(name) }

  enter (dropping: Dropping): void {
    dropping.place = this.#all.add(dropping)
    if (!dropping.duplicate) this.#joinable.set(dropping.visit.name, dropping)
  }

  /** Nobody joins it any more; it is still under way. */
  part (dropping: Dropping): void {
    if (this.#joinable.get(dropping.visit.name) === dropping) this.#joinable.delete(dropping.visit.name)
  }

  leave (dropping: Dropping): void {
    this.part(dropping)
    if (dropping.place !== null) this.#all.remove(dropping.place)
    dropping.place = null
  }

  all (): Dropping[] { return this.#all.all() }
}
