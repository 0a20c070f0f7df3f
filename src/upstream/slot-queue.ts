/**
 * Whose request is sent next to an upstream that has as many as it takes. Places have shares (core/limits/limit.ts), so that one
 * caller's slow calls leave some to the others; of those who wait for one peers take turns, and of each peer its
 * callers, a caller's own in their order.
 */
import { Limit } from '../core/limits/limit.ts'
import type { Holder, Refusal } from '../core/limits/limit.ts'

interface Waiter { readonly holder: Holder, readonly call: () => void, over: boolean }

/** Of one peer, by caller; whose turn is next stands first. */
type CallerQueues = Map<string, Waiter[]>

export class SlotQueue {
  readonly #limit: Limit
  /**
   * By peer, whose turn is next first. What has no peer is by its caller. One address with thousands of credentials is
   * passed over as one: a look at all who wait is then bounded by the places, since whoever is refused for its share
   * has one.
   */
  readonly #peers = new Map<string, CallerQueues>()
  /** Whoever is called may leave at once, and who left calls: one call goes round for all of them. */
  #calling = false
  #callsAgain = false

  constructor (max: number, share: number) {
    this.#limit = new Limit(max, share)
  }

  get taken (): number { return this.#limit.held }

  /** What is in this one's way now; null: nothing. */
  refusal (holder: Holder): Refusal | null {
    return this.#limit.refusal(1, holder)
  }

  resize (max: number, share: number): void {
    this.#limit.resize(max, share)
    this.#callNext()
  }

  /**
   * Calls when there is a place, at once where there is one. Whoever was called gives it back ({@link leave}). Returns how to
   * stop waiting; false: it was called already.
   */
  enter (holder: Holder, call: () => void): () => boolean {
    const [peer, caller] = namesOf(holder)
    const queue = this.#peers.get(peer)?.get(caller)
    if (queue === undefined && this.#limit.take(1, holder) === null) {
      call()
      return stoppedTooLate
    }
    const waiting: Waiter = { holder, call, over: false }
    if (queue !== undefined) queue.push(waiting)
    else this.#peers.set(peer, (this.#peers.get(peer) ?? new Map<string, Waiter[]>()).set(caller, [waiting]))
    return () => {
      if (waiting.over) return false
      waiting.over = true
      this.#remove(waiting)
      return true
    }
  }

  leave (holder: Holder): void {
    this.#limit.release(1, holder)
    this.#callNext()
  }

  #callNext (): void {
    this.#callsAgain = true
    if (this.#calling) return
    this.#calling = true
    try {
      while (this.#callsAgain) {
        this.#callsAgain = false
        this.#callRound()
      }
    } finally {
      this.#calling = false
    }
  }

  /** In turn, for as long as there are places for any. */
  #callRound (): void {
    for (const [peer, queues] of this.#peers) {
      const next = this.#nextOf(queues)
      if (next === 'full') return
      if (next === null) continue
      // Behind all the others: it has had its turn.
      this.#peers.delete(peer)
      if (queues.size > 0) this.#peers.set(peer, queues)
      next.over = true
      next.call()
    }
  }

  /** One that has its place now; null: none of them may have one. */
  #nextOf (queues: CallerQueues): Waiter | 'full' | null {
    for (const [caller, queue] of queues) {
      const [first] = queue
      if (first === undefined) continue
      const refusal = this.#limit.take(1, first.holder)
      if (refusal === 'full') return refusal
      if (refusal === 'peer') return null
      if (refusal === 'caller') continue
      queue.shift()
      queues.delete(caller)
      if (queue.length > 0) queues.set(caller, queue)
      return first
    }
    return null
  }

  #remove (waiting: Waiter): void {
    const [peer, caller] = namesOf(waiting.holder)
    const queues = this.#peers.get(peer)
    const queue = queues?.get(caller)
    const at = queue?.indexOf(waiting) ?? -1
    if (queues === undefined || queue === undefined || at === -1) return
    queue.splice(at, 1)
    if (queue.length === 0) queues.delete(caller)
    if (queues.size === 0) this.#peers.delete(peer)
  }
}

function namesOf ({ caller, peer }: Holder): readonly [peer: string, caller: string] {
  return [peer ?? caller ?? '', caller ?? '']
}

function stoppedTooLate (): boolean { return false }
