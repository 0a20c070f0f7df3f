/** A clock that advances only when a test says so, so that no test waits for leases, timeouts and polls. */
import type { Cancel, Clock } from '../../src/ports/clock.ts'

interface Timer { readonly atMs: number, readonly call: () => void }

const WALL_AT_START_MS = Date.UTC(2026, 0, 1)
/** Turns of the event loop after each timer, so that its effects reach sockets and stores. */
const TURNS = 3

export class ManualClock implements Clock {
  readonly #timers = new Set<Timer>()
  #now = 1_000
  /** How far the wall clock is ahead of the monotonic one, as after a suspension. */
  #suspendedMs = 0

  monotonicMs = (): number => this.#now
  wallMs = (): number => WALL_AT_START_MS + this.#now + this.#suspendedMs
  bootMs = (): number => this.#now + this.#suspendedMs

  after = (ms: number, call: () => void): Cancel => {
    const timer = { atMs: this.#now + Math.max(0, ms), call }
    this.#timers.add(timer)
    return () => { this.#timers.delete(timer) }
  }

  /** The number of armed timers. A test waits until its timer is among them. */
  get pending (): number { return this.#timers.size }

  async advance (ms: number): Promise<void> {
    const endMs = this.#now + ms
    for (let next = this.#nextBefore(endMs); next !== null; next = this.#nextBefore(endMs)) {
      this.#timers.delete(next)
      this.#now = Math.max(this.#now, next.atMs)
      next.call()
      await turns()
    }
    this.#now = endMs
    await turns()
  }

  /** Stops the process: time passes, and timers do not fire. */
  stall (ms: number): void {
    this.#now += ms
  }

  /** Suspends the machine: only the wall clock advances. */
  suspend (ms: number): void {
    this.#suspendedMs += ms
  }

  #nextBefore (endMs: number): Timer | null {
    let next: Timer | null = null
    for (const timer of this.#timers) if (timer.atMs <= endMs && (next === null || timer.atMs < next.atMs)) next = timer
    return next
  }
}

async function turns (): Promise<void> {
  for (let turn = 0; turn < TURNS; turn++) await new Promise<void>((resolve) => { setImmediate(resolve) })
}
