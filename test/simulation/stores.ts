/**
 * The Redis of a simulated world, which outlives its processes, and what can befall it: it is flushed, replaced by one that
 * lags behind, or comes back from an old snapshot. It is the memory store of src/; whatever else can go wrong with it goes
 * wrong on the way (network.ts).
 */
import type { LockStore } from '../../src/ports/locks.ts'
import { MemoryLocks } from '../../src/store/memory/locks.ts'
import type { Timeline } from '../harness/timeline.ts'
import { StoreTime } from './store-time.ts'
import type { Write } from './store-time.ts'

/** One Redis for all: values are lost by a flush or a failover, subscriptions are made again by themselves. */
export class SimulatedRedis implements LockStore {
  readonly name = 'redis'
  readonly #time: StoreTime
  readonly #wakes: MemoryLocks
  #values: MemoryLocks
  #log: Array<Write<LockStore> & { readonly flushes?: true }> = []

  constructor (timeline: Timeline) {
    this.#time = new StoreTime(() => timeline.nowMs)
    this.#values = new MemoryLocks(this.#time)
    this.#wakes = new MemoryLocks(this.#time)
  }

  lock: LockStore['lock'] = async (id, lock, ttlMs) => this.#write(async (locks) => locks.lock(id, lock, ttlMs))
  renew: LockStore['renew'] = async (held, ttlMs) => this.#write(async (locks) => locks.renew(held, ttlMs))
  swap: LockStore['swap'] = async (id, owner, value, ttlMs) => this.#write(async (locks) => locks.swap(id, owner, value, ttlMs))
  unlock: LockStore['unlock'] = async (id, owner) => this.#write(async (locks) => locks.unlock(id, owner))
  clear: LockStore['clear'] = async (id, generation) => this.#write(async (locks) => locks.clear(id, generation))
  forget: LockStore['forget'] = async (id) => this.#write(async (locks) => locks.forget(id))
  wake: LockStore['wake'] = (id) => { this.#wakes.wake(id) }
  watch: LockStore['watch'] = async (id, onWake) => this.#wakes.watch(id, onWake)
  available: LockStore['available'] = () => true
  close: LockStore['close'] = async () => {}

  flush (): void {
    // Noted: a snapshot may be older.
    this.#log.push({ atMs: this.#time.nowMs(), apply: async () => {}, flushes: true })
    this.#values = new MemoryLocks(this.#time)
  }

  /** What was written in the last `lostMs` never was: a failover, or (for longer) an old snapshot. What has ended since stays away. */
  failOver (lostMs: number): void {
    const untilMs = this.#time.nowMs() - lostMs
    this.#log = this.#log.filter(({ atMs }) => atMs <= untilMs)
    this.#values = new MemoryLocks(this.#time)
    this.#time.again(this.#log.slice(this.#log.findLastIndex(({ flushes }) => flushes) + 1), this.#values)
  }

  async #write<Result> (apply: (locks: LockStore) => Promise<Result>): Promise<Result> {
    this.#log.push({ atMs: this.#time.nowMs(), apply })
    return apply(this.#values)
  }
}
