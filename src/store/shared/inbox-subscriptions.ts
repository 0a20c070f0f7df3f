/** Wake-ups of the inbox's workers: through Redis, through nothing, or through a store that is not opened yet. */
import { createHash } from 'node:crypto'
import type { Cancel } from '../../ports/clock.ts'
import type { InboxSubscriptions } from '../../ports/inbox.ts'
import type { LockStore } from '../../ports/locks.ts'

/** The id that workers watch. No record has it. */
const WORK = createHash('sha256').update('onceway inbox: there is work').digest()

export function subscriptionsThrough (locks: Pick<LockStore, 'wake' | 'watch'>): InboxSubscriptions {
  return {
    wake: () => { locks.wake(WORK) },
    watch: async (onWake) => locks.watch(WORK, onWake)
  }
}

/** For one process: no other delivers from this store. */
export const NO_SUBSCRIPTIONS: InboxSubscriptions = { wake: () => {}, watch: () => Promise.resolve(() => {}) }

/**
 * A worker subscribes once, for its whole life. If it subscribes before the database is reached, it must be woken later all the
 * same.
 */
export class LazyInboxSubscriptions implements InboxSubscriptions {
  readonly #reached = Promise.withResolvers<InboxSubscriptions>()
  #subscriptions = NO_SUBSCRIPTIONS

  open (subscriptions: InboxSubscriptions): void {
    this.#subscriptions = subscriptions
    this.#reached.resolve(subscriptions)
  }

  wake (): void {
    this.#subscriptions.wake()
  }

  watch (onWake: () => void): Promise<Cancel> {
    let cancelled = false
    let cancel: Cancel = () => {}
    void this.#reached.promise.then((subscriptions) => subscriptions.watch(onWake)).then((stop) => {
      if (cancelled) stop()
      else cancel = stop
    })
    return Promise.resolve(() => {
      cancelled = true
      cancel()
    })
  }
}
