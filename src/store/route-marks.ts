/**
 * Which store keeps the marks of which route. The database's and Redis' are available once they have been reached. This object
 * owns the stores in this process, one per route.
 */
import { isDeepStrictEqual } from 'node:util'
import type { DropPolicy } from '../core/policy/policy.ts'
import { StoreUnavailable } from '../ports/errors.ts'
import type { Marks, MarkStore } from '../ports/marks.ts'
import { MemoryBloom } from './memory/bloom.ts'
import { MemoryMarks } from './memory/marks.ts'
import type { DatabaseMarks, RedisMarking } from './shared/mark-stores.ts'

export class RouteMarks implements Marks {
  readonly #nowMs: () => number
  /** By route, with the policy that the store was made for. */
  readonly #made = new Map<string, { readonly policy: DropPolicy, readonly store: MarkStore }>()
  #database: DatabaseMarks | null = null
  #redis: RedisMarking | null = null
  readonly #wantsRedis: boolean

  /** `nowMs`: monotonic, for stores in this process. `wantsRedis`: a filter waits for Redis and does not begin here. */
  constructor (nowMs: () => number, wantsRedis: boolean) {
    this.#nowMs = nowMs
    this.#wantsRedis = wantsRedis
  }

  open (database: DatabaseMarks, redis: RedisMarking | null): void {
    this.#database = database
    this.#redis = redis
  }

  of (route: string, policy: DropPolicy): MarkStore {
    const { store } = policy
    if (store.kind === 'database') return this.#database ?? NOT_OPENED
    if (store.kind === 'redis') return this.#redis?.marks ?? NOT_OPENED
    if (store.kind === 'bloom' && this.#wantsRedis && this.#redis === null) return NOT_OPENED
    const made = this.#made.get(route)
    if (made !== undefined && (made.policy === policy || keepsAlike(made.policy, policy))) return made.store
    const fresh = this.#make(route, policy)
    this.#made.set(route, { policy, store: fresh })
    return fresh
  }

  async sweep (limit: number): Promise<number> {
    return await this.#database?.sweep(limit) ?? 0
  }

  #make (route: string, { store, windowMs }: DropPolicy): MarkStore {
    if (store.kind === 'memory') return new MemoryMarks({ capacity: store.capacity, nowMs: this.#nowMs })
    if (store.kind !== 'bloom') return NOT_OPENED
    const { capacity, errorRate } = store
    return this.#redis?.filter({ route, capacity, errorRate, windowMs }) ??
      new MemoryBloom({ capacity, errorRate, windowMs, nowMs: this.#nowMs })
  }
}

function keepsAlike (one: DropPolicy, other: DropPolicy): boolean {
  return one.windowMs === other.windowMs && isDeepStrictEqual(one.store, other.store)
}

/** Not opened yet: nothing was written. */
const NOT_OPENED: MarkStore = {
  name: 'memory',
  mark: () => Promise.reject(new StoreUnavailable('marks', 'mark', false)),
  stands: () => Promise.reject(new StoreUnavailable('marks', 'stands', false)),
  done: () => Promise.reject(new StoreUnavailable('marks', 'done', false)),
  remove: () => Promise.reject(new StoreUnavailable('marks', 'remove', false))
}
