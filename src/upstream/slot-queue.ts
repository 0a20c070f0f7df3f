/**
 * Decides which waiting request gets the next free slot of an upstream. Slots have shares (core/limits/limit.ts), so
 * slow calls of one caller leave some to the others. Waiting peers take turns, and so do the callers of a peer. The
 * requests of a caller keep their order.
 */
import { Limit } from '../core/limits/limit.ts'
import type { Holder, Refusal } from '../core/limits/limit.ts'

interface Waiter { readonly holder: Holder, readonly call: () => void, over: boolean }

/** The queues of one peer by caller. The next caller is first. */
type CallerQueues = Map<string, Waiter[]>

export class SlotQueue {
  readonly #limit: Limit
  /**
   * By peer, the next peer first. Without a peer the caller takes its place. An address with thousands of credentials
   * is skipped as a whole. So a round is bounded by the slots, because every peer that is refused for its share has
   * one.
   */
  readonly #peers = new Map<string, CallerQueues>()
  /** A called request may leave at once, and leaving calls the next one. One loop handles all of these calls. */
  #calling = false
  #callsAgain = false

  constructor (max: number, share: number) {
    this.#limit = new Limit(max, share)
  }

  get taken (): number { return this.#limit.held }

  /** Counted when it is asked for. */
  get waiting (): number {
    let waiting = 0
    for (const queues of this.#peers.values()) for (const queue of queues.values()) waiting += queue.length
    return waiting
  }

  /** Why this caller or peer cannot have a slot now. null: it can. */
  refusal (holder: Holder): Refusal | null {
    return this.#limit.refusal(1, holder)
  }

  resize (max: number, share: number): void {
    this.#limit.resize(max, share)
    this.#callNext()
  }

  /** true: a slot was free and nobody of this caller waits for one, so the holder has it. It gives it back with {@link leave}. */
  enterNow (holder: Holder): boolean {
    const [peer, caller] = namesOf(holder)
    return this.#peers.get(peer)?.get(caller) === undefined && this.#limit.take(1, holder) === null
  }

  /**
   * Calls `call` when there is a slot, at once if one is free. The holder gives the slot back with {@link leave}.
   * Returns a function that stops waiting. It returns false if `call` was called already.
   */
  enter (holder: Holder, call: () => void): () => boolean {
    if (this.enterNow(holder)) {
      call()
      return stoppedTooLate
    }
    const [peer, caller] = namesOf(holder)
    const queue = this.#peers.get(peer)?.get(caller)
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

  /** Peers in turn, while there are free slots for any. */
  #callRound (): void {
    for (const [peer, queues] of this.#peers) {
      const next = this.#nextOf(queues)
      if (next === 'full') return
      if (next === null) continue
      // The peer goes to the end after its turn.
      this.#peers.delete(peer)
      if (queues.size > 0) this.#peers.set(peer, queues)
      next.over = true
      next.call()
    }
  }

  /** The next request of these queues, with its slot taken. null: none of them may have one. */
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
