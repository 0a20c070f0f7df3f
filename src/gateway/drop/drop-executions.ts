/**
 * The events of mode drop that this process executes: at most one marked event for each record, and duplicates that are
 * forwarded as such.
 */
import { NOWHERE, UnorderedList } from '../../unordered-list.ts'
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
  /** null: a duplicate, whose mark belongs to another execution. */
  readonly marks: MarkStore | null
  readonly token: Buffer
  readonly attempt = null
  readonly duplicate: boolean
  readonly startedAtMs: number
  readonly #startedAtWallMs: number
  readonly decision = Promise.withResolvers<MarkDecision>()
  /** Whether it went through, for the requests that joined. */
  readonly through = Promise.withResolvers<boolean>()
  /** For the request that started it. */
  readonly result = Promise.withResolvers<Outcome>()
  place = NOWHERE
  sending: Sending | null = null
  sentAtMs: number | null = null
  releaseAnswer = (): void => {}
  /** Given up before the send. The last check before the first byte refuses. */
  cancelled = false
  /** A mark of it may have been written without an acknowledgement. */
  doubted = false

  constructor (keyed: KeyedRequest, marks: MarkStore | null, token: Buffer, clock: Clock) {
    this.keyed = keyed
    this.marks = marks
    this.token = token
    this.duplicate = marks === null
    this.startedAtMs = clock.monotonicMs()
    this.#startedAtWallMs = clock.wallMs()
  }

  /** By the clock on which more time has passed: the monotonic one stands still while the machine is suspended. */
  ageMs (clock: Clock): number {
    return Math.max(clock.monotonicMs() - this.startedAtMs, clock.wallMs() - this.#startedAtWallMs)
  }
}

export class DropExecutions {
  readonly #all = new UnorderedList<DropExecution>('place')
  readonly #joinable = new Map<string, DropExecution>()

  get size (): number { return this.#all.size }

  get (name: string): DropExecution | undefined { return this.#joinable.get(name) }

  enter (execution: DropExecution): void {
    this.#all.add(execution)
    if (!execution.duplicate) this.#joinable.set(execution.keyed.name, execution)
  }

  /** It is still in flight, and no request joins it any more. */
  closeToJoiners (execution: DropExecution): void {
    if (this.#joinable.get(execution.keyed.name) === execution) this.#joinable.delete(execution.keyed.name)
  }

  leave (execution: DropExecution): void {
    this.closeToJoiners(execution)
    this.#all.remove(execution)
  }

  all (): DropExecution[] { return this.#all.all() }
}
