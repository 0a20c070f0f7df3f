/**
 * The fast path in memory, for tests and simulations: what Redis promises, on a given clock. Several simulated gateways share
 * one object, as they would share one Redis. Never rejects. Never keeps a value beyond its time.
 */
import type { Cancel } from '../../ports/clock.ts'
import type { Lock, LockResult, LockStore, LockValue } from '../../ports/locks.ts'

export interface MemoryLocksOptions {
  /** Milliseconds, origin arbitrary. Times to live count on it. */
  readonly nowMs: () => number
  /** The bound on values. If ended values do not make room, a lock of a new record gets `unavailable`. */
  readonly valuesMax?: number
}

interface Kept { readonly value: LockValue, readonly untilMs: number }

const VALUES_MAX = 100_000

export class MemoryLocks implements LockStore {
  readonly name = 'memory'
  readonly #nowMs: () => number
  readonly #valuesMax: number
  readonly #kept = new Map<string, Kept>()
  readonly #watchers = new Map<string, Set<() => void>>()
  #closed = false

  constructor (options: MemoryLocksOptions) {
    this.#nowMs = options.nowMs
    this.#valuesMax = options.valuesMax ?? VALUES_MAX
  }

  async lock (id: Buffer, lock: Lock, ttlMs: number): Promise<LockResult> {
    const value = this.#find(id)
    if (value === null) return { kind: !this.#closed && this.#keep(id, { kind: 'lock', lock }, ttlMs) ? 'locked' : 'unavailable' }
    return value.kind === 'lock' && value.lock.owner.equals(lock.owner) ? { kind: 'mine' } : value
  }

  async renew (held: ReadonlyArray<{ readonly id: Buffer, readonly owner: Buffer }>, ttlMs: number): Promise<void> {
    for (const { id, owner } of held) {
      const value = this.#find(id)
      if (value?.kind === 'lock' && value.lock.owner.equals(owner)) this.#keep(id, value, ttlMs)
    }
  }

  async swap (id: Buffer, owner: Buffer, value: LockValue, ttlMs: number): Promise<boolean> {
    return this.#isOf(id, owner) && this.#keep(id, value, ttlMs)
  }

  async unlock (id: Buffer, owner: Buffer): Promise<void> {
    if (this.#isOf(id, owner)) this.#kept.delete(nameOf(id))
  }

  async clear (id: Buffer, generation: number): Promise<void> {
    const value = this.#find(id)
    if (value?.kind === 'copy' && value.copy.generation === generation) this.#kept.delete(nameOf(id))
  }

  async forget (id: Buffer): Promise<boolean> {
    this.#kept.delete(nameOf(id))
    return !this.#closed
  }

  /** In a microtask, so that a callback never runs inside the stack of its caller. */
  wake (id: Buffer): void {
    const watchers = [...this.#watchers.get(nameOf(id)) ?? []]
    queueMicrotask(() => {
      for (const onWake of watchers) if (this.#watchers.get(nameOf(id))?.has(onWake) === true) onWake()
    })
  }

  async watch (id: Buffer, onWake: () => void): Promise<Cancel> {
    const name = nameOf(id)
    const watchers = this.#watchers.get(name) ?? new Set()
    // A function of its own: two watches with one callback are two.
    const watcher = () => { onWake() }
    this.#watchers.set(name, watchers.add(watcher))
    return () => {
      watchers.delete(watcher)
      if (watchers.size === 0 && this.#watchers.get(name) === watchers) this.#watchers.delete(name)
    }
  }

  available (): boolean {
    return !this.#closed
  }

  async close (): Promise<void> {
    this.#closed = true
    this.#kept.clear()
    this.#watchers.clear()
  }

  #find (id: Buffer): LockValue | null {
    const kept = this.#kept.get(nameOf(id))
    return kept === undefined || kept.untilMs <= this.#nowMs() ? null : kept.value
  }

  /** A settled copy has no owner. It stays until its end (P10). */
  #isOf (id: Buffer, owner: Buffer): boolean {
    const value = this.#find(id)
    if (value === null || value.kind === 'copy') return false
    return (value.kind === 'lock' ? value.lock.owner : value.copy.owner).equals(owner)
  }

  #keep (id: Buffer, value: LockValue, ttlMs: number): boolean {
    if (this.#kept.size >= this.#valuesMax) this.#dropEnded()
    if (this.#kept.size >= this.#valuesMax && !this.#kept.has(nameOf(id))) return false
    this.#kept.set(nameOf(id), { value, untilMs: this.#nowMs() + ttlMs })
    return true
  }

  #dropEnded (): void {
    const nowMs = this.#nowMs()
    for (const [name, { untilMs }] of this.#kept) if (untilMs <= nowMs) this.#kept.delete(name)
  }
}

function nameOf (id: Buffer): string {
  return id.toString('hex')
}
