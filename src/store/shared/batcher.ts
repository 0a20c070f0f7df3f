/** A lane (lane.ts) whose callers wait for promises. */
import { StoreOverloaded } from '../../ports/errors.ts'
import { Lane, type Batch, type LaneLimits } from './lane.ts'

export interface BatcherOptions<Item, Result> extends LaneLimits<Item> {
  /** One transaction. Resolves with one result per item, in the order of the items. Rejects as a whole. */
  readonly run: (items: Item[]) => Promise<Result[]>
}

interface Waiter<Result> { readonly resolve: (result: Result) => void, readonly reject: (error: unknown) => void }

async function awaited<Item, Result> (
  run: BatcherOptions<Item, Result>['run'],
  batch: Batch<Item, Result, Waiter<Result>>
): Promise<void> {
  try {
    batch.succeed(await run(batch.items))
  } catch (error) {
    batch.fail(error)
  }
}

export class Batcher<Item, Result> {
  readonly #lane: Lane<Item, Result, Waiter<Result>>
  readonly #name: string

  constructor (options: BatcherOptions<Item, Result>) {
    this.#name = options.name
    this.#lane = new Lane({
      ...options,
      run: (batch) => { void awaited(options.run, batch) },
      succeed: ({ resolve }, result) => { resolve(result) },
      fail: ({ reject }, error) => { reject(error) }
    })
  }

  /** Items that wait for a batch. */
  get waiting (): number {
    return this.#lane.waiting
  }

  get idle (): boolean {
    return this.#lane.idle
  }

  /**
   * Resolves with the item's own result. Rejects with StoreOverloaded (never sent), or with the error of `run`. If that error
   * is no proven rollback, every item of the batch gets it and counts as in doubt.
   */
  push (item: Item): Promise<Result> {
    if (this.#lane.isFull) return Promise.reject(new StoreOverloaded(this.#name))
    return new Promise((resolve, reject) => { this.#lane.enter(item, { resolve, reject }) })
  }
}
