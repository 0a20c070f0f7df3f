/**
 * The events of mode drop that are under way in this process: at most one that is marked for each record, and
 * duplicates that are forwarded as such.
 */
import { UnorderedList } from '../../unordered-list.ts'
import type { Slot } from '../../unordered-list.ts'
import type { Clock } from '../../ports/clock.ts'
import type { MarkResult, MarkStore } from '../../ports/marks.ts'
import type { Sending } from '../../ports/upstream.ts'
import type { KeyedRequest } from '../fingerprint/keyed-request.ts'
import type { Forwarding } from '../forward/forward.ts'
import type { Outcome } from '../shared/outcome.ts'

/** `unprotected`: the store is away, and the route forwards all the same. */
export type MarkDecision = MarkResult | 'unprotected' | 'unavailable'

export class DropExecution implements Forwarding {
  readonly keyed: KeyedRequest
  /** null: a duplicate, whose mark is another's. */
  readonly marks: MarkStore | null
  readonly token: Buffer
  readonly attempt = null
  readonly duplicate: boolean
  readonly startedAtMs: number
  readonly #startedAtWallMs: number
  readonly decision = Promise.withResolvers<MarkDecision>()
  /** Has it gone through? For those who joined. */
  readonly through = Promise.withResolvers<boolean>()
  /** For the one who began it. */
  readonly result = Promise.withResolvers<Outcome>()
  place: Slot<DropExecution> | null = null
  sending: Sending | null = null
  sentAtMs: number | null = null
  releaseAnswer = (): void => {}
  /** Given up before the send: the last look before the first byte refuses. */
  cancelled = false
  /** A mark of it may have been written, and nobody has said so. */
  doubted = false

  constructor (keyed: KeyedRequest, marks: MarkStore | null, token: Buffer, clock: Clock) {
    this.keyed = keyed
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

export class DropExecutions {
  readonly #all = new UnorderedList<DropExecution>()
  readonly #joinable = new Map<string, DropExecution>()

  get size (): number { return this.#all.size }

  get (name: string): DropExecution | undefined { return this.#joinable.get(name) }

  enter (execution: DropExecution): void {
    execution.place = this.#all.add(execution)
    if (!execution.duplicate) this.#joinable.set(execution.keyed.name, execution)
  }

  /** Nobody joins it any more; it is still under way. */
  part (execution: DropExecution): void {
    if (this.#joinable.get(execution.keyed.name) === execution) this.#joinable.delete(execution.keyed.name)
  }

  leave (execution: DropExecution): void {
    this.part(execution)
    if (execution.place !== null) this.#all.remove(execution.place)
    execution.place = null
  }

  all (): DropExecution[] { return this.#all.all() }
}
