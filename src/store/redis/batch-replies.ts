/** What becomes of a batch: its reply goes to the lane, and to the breaker. */
import { errorText } from '../../ports/errors.ts'
import type { Batch } from '../shared/lane.ts'
import type { BatchReply, Found, Locking } from './batches.ts'

export type Ended = (operation: string, began: number, error: Error | null, failures: number) => void

/** A batch on its way. */
export class Asked<Order, Result> implements BatchReply<Result> {
  readonly #operation: string
  readonly #waiting: number
  readonly #ended: Ended
  readonly #batch: Batch<Order, Result, Order>

  /** `waiting`: for so many a failure is one. */
  constructor (operation: string, waiting: number, ended: Ended, batch: Batch<Order, Result, Order>) {
    this.#operation = operation
    this.#waiting = waiting
    this.#ended = ended
    this.#batch = batch
  }

  succeed (results: readonly Result[]): void {
    this.#ended(this.#operation, this.#batch.sentAt, null, 0)
    this.#batch.succeed(results)
  }

  fail (error: unknown): void {
    this.#ended(this.#operation, this.#batch.sentAt, errorOf(error), this.#waiting)
    this.#batch.fail(error)
  }
}

/** Of a batch from which some locks were left out. */
export class WithoutLate implements BatchReply<Found> {
  readonly #asked: BatchReply<Found>
  readonly #all: readonly Locking[]
  readonly #since: number

  constructor (asked: BatchReply<Found>, all: readonly Locking[], since: number) {
    this.#asked = asked
    this.#all = all
    this.#since = since
  }

  succeed (results: readonly Found[]): void {
    let at = 0
    this.#asked.succeed(this.#all.map(({ askedAtMs }) => askedAtMs >= this.#since ? results[at++] : undefined))
  }

  fail (error: unknown): void { this.#asked.fail(error) }
}

/** For a batch that is no request's. */
export function awaited<Result> (send: (reply: BatchReply<Result>) => void): Promise<readonly Result[]> {
  return new Promise((resolve, reject) => { send({ succeed: resolve, fail: reject }) })
}

export function errorOf (error: unknown): Error { return error instanceof Error ? error : new Error(errorText(error)) }
