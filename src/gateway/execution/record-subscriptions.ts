/**
 * Waiting for a record that another process executes: a wake-up through Redis where there is one, polling always. A
 * wake-up is only a reason to look; whoever waits subscribes first, then looks, then waits, so that none is missed.
 * One subscription per record and process, however many wait.
 */
import type { Cancel } from '../../ports/clock.ts'
import type { Deps } from '../shared/deps.ts'

export interface RecordSubscription {
  /** Resolves at the next wake-up, or after `ms`. */
  changed: (ms: number) => Promise<void>
  close: () => void
}

interface Subscription { watchers: number, listeners: Set<() => void>, readonly standing: Promise<Cancel> }

export class RecordSubscriptions {
  readonly #deps: Deps
  readonly #subscriptions = new Map<string, Subscription>()

  constructor (deps: Deps) {
    this.#deps = deps
  }

  async open (id: Buffer, name: string): Promise<RecordSubscription> {
    const subscription = this.#subscriptions.get(name) ?? this.#subscribe(id, name)
    subscription.watchers++
    await subscription.standing
    return {
      changed: (ms) => this.#changed(subscription, ms),
      close: () => this.#leave(name, subscription)
    }
  }

  /** Everybody who waits looks now. */
  wakeAll (): void {
    for (const { listeners } of this.#subscriptions.values()) for (const listener of Array.from(listeners)) listener()
  }

  #subscribe (id: Buffer, name: string): Subscription {
    const listeners = new Set<() => void>()
    const standing = this.#deps.locks.watch(id, () => { for (const listener of Array.from(listeners)) listener() })
    const subscription = { watchers: 0, listeners, standing }
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

  #leave (name: string, subscription: Subscription): void {
    subscription.watchers--
    if (subscription.watchers > 0) return
    if (this.#subscriptions.get(name) === subscription) this.#subscriptions.delete(name)
    void subscription.standing.then((cancel) => { cancel() })
  }
}
