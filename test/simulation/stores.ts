/**
 * The stores of a simulated world, which outlive its processes, and what can befall them: a Redis that is flushed or
 * replaced by one that lags behind, an arbiter that forgets. Both are the memory stores of src/; whatever else can go
 * wrong with them goes wrong on the way (network.ts).
 */
import type { LockStore, RecordStore } from '../../src/ports.ts'
import { MemoryLocks } from '../../src/store/memory-locks.ts'
import { MemoryStore } from '../../src/store/memory.ts'
import type { Timeline } from '../harness/timeline.ts'

interface Write<Store> { readonly atMs: number, readonly apply: (store: Store) => Promise<unknown> }

/** The time of a store: the present, or, while it does again what was done, the past. */
class StoreTime {
  readonly #nowMs: () => number
  #thenMs: number | null = null

  constructor (nowMs: () => number) {
    this.#nowMs = nowMs
  }

  readonly nowMs = (): number => this.#thenMs ?? this.#nowMs()

  /** The memory stores apply a write before they return its promise. */
  again<Store> (writes: ReadonlyArray<Write<Store>>, store: Store): void {
    for (const { atMs, apply } of writes) {
      this.#thenMs = atMs
      apply(store).catch(() => {})
    }
    this.#thenMs = null
  }
}

/** One Redis for all: values are lost by a flush or a failover, subscriptions are made again by themselves. */
export class SimulatedRedis implements LockStore {
  readonly name = 'redis'
  readonly #time: StoreTime
  readonly #wakes: MemoryLocks
  #values: MemoryLocks
  #log: Array<Write<LockStore>> = []

  constructor (timeline: Timeline) {
    this.#time = new StoreTime(() => timeline.nowMs)
    this.#values = new MemoryLocks(this.#time)
    this.#wakes = new MemoryLocks(this.#time)
  }

  lock: LockStore['lock'] = async (id, lock, ttlMs) => this.#write(async locks => locks.lock(id, lock, ttlMs))
  renew: LockStore['renew'] = async (held, ttlMs) => this.#write(async locks => locks.renew(held, ttlMs))
  swap: LockStore['swap'] = async (id, owner, value, ttlMs) => this.#write(async locks => locks.swap(id, owner, value, ttlMs))
  unlock: LockStore['unlock'] = async (id, owner) => this.#write(async locks => locks.unlock(id, owner))
  clear: LockStore['clear'] = async (id, generation) => this.#write(async locks => locks.clear(id, generation))
  forget: LockStore['forget'] = async id => this.#write(async locks => locks.forget(id))
  wake: LockStore['wake'] = id => { this.#wakes.wake(id) }
  watch: LockStore['watch'] = async (id, onWake) => this.#wakes.watch(id, onWake)
  available: LockStore['available'] = () => true
  close: LockStore['close'] = async () => {}

  flush (): void {
    this.#log = []
    this.#values = new MemoryLocks(this.#time)
  }

  /** What was written in the last `lostMs` never was. */
  failOver (lostMs: number): void {
    const untilMs = this.#time.nowMs() - lostMs
    this.#log = this.#log.filter(({ atMs }) => atMs <= untilMs)
    this.#values = new MemoryLocks(this.#time)
    this.#time.again(this.#log, this.#values)
  }

  async #write<Result> (apply: (locks: LockStore) => Promise<Result>): Promise<Result> {
    this.#log.push({ atMs: this.#time.nowMs(), apply })
    return apply(this.#values)
  }
}

/** The arbiter: memory, whose every row can be lost. */
export class SimulatedArbiter {
  readonly records: RecordStore
  readonly #timeline: Timeline
  #store: MemoryStore

  constructor (timeline: Timeline) {
    this.#timeline = timeline
    this.#store = this.#empty()
    this.records = new Proxy(this.#store, {
      get: (_, property) => {
        const member: unknown = Reflect.get(this.#store, property, this.#store)
        return typeof member === 'function' ? member.bind(this.#store) as unknown : member
      }
    })
  }

  /** Outside the promise (protocol §10), but for what Redis still knows. */
  forget (): void {
    this.#store = this.#empty()
  }

  #empty (): MemoryStore {
    return new MemoryStore({ nowMs: () => this.#timeline.wallMs, installation: 'simulated' })
  }
}
