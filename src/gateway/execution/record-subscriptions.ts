/**
 * Waits for a record that another process executes: by a wake-up through Redis if there is one, and always by polling.
 * A wake-up is only a reason to look. A waiter subscribes first, then looks, then waits, so that it misses no wake-up.
 * All waiters of a record in this process share one subscription.
 */
import type { Cancel } from '../../ports/clock.ts'
import type { Deps } from '../shared/deps.ts'

export interface RecordSubscription {
  /** Resolves at the next wake-up, or after `ms`. */
  changed: (ms: number) => Promise<void>
  close: () => void
}

interface Subscription { watchers: number, listeners: Set<() => void>, readonly cancelWatch: Promise<Cancel> }

export class RecordSubscriptions {
  readonly #deps: Deps
  readonly #subscriptions = new Map<string, Subscription>()

  constructor (deps: Deps) {
    this.#deps = deps
  }

  async open (id: Buffer, name: string): Promise<RecordSubscription> {
    const subscription = this.#subscriptions.get(name) ?? this.#subscribe(id, name)
    subscription.watchers++
    await subscription.cancelWatch
    return {
      changed: (ms) => this.#changed(subscription, ms),
      close: () => this.#release(name, subscription)
    }
  }

  /** Makes all waiters look now. */
  wakeAll (): void {
    for (const { listeners } of this.#subscriptions.values()) for (const listener of Array.from(listeners)) listener()
  }

  #subscribe (id: Buffer, name: string): Subscription {
    const listeners = new Set<() => void>()
    const cancelWatch = this.#deps.locks.watch(id, () => { for (const listener of Array.from(listeners)) listener() })
    const subscription = { watchers: 0, listeners, cancelWatch }
    this.#subscriptions.set(name, subscription)
    return subscription
  }

  async #changed (subscription: Subscription, ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const cancel = this.#deps.clock.after(ms, resolve)
    subscription.listeners.add(resolve)
    await promise
    cancel()
    subscription.listeners.delete(resolve)
  }

  #release (name: string, subscription: Subscription): void {
    subscription.watchers--
    if (subscription.watchers > 0) return
    if (this.#subscriptions.get(name) === subscription) this.#subscriptions.delete(name)
    void subscription.cancelWatch.then((cancel) => { cancel() })
  }
}
