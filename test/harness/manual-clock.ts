/** Time that passes only when a test says so: leases, time-outs and polls of a gateway without waiting for them. */
import type { Cancel, Clock } from '../../src/ports/clock.ts'

interface Timer { readonly atMs: number, readonly call: () => void }

const WALL_AT_START_MS = Date.UTC(2026, 0, 1)
/** Turns of the event loop after each timer: what it set off reaches its sockets and its store. */
const TURNS = 3

export class ManualClock implements Clock {
  readonly #timers = new Set<Timer>()
  #now = 1_000
  /** What the wall clock gains on the monotonic one: a machine that was suspended. */
  #suspendedMs = 0

  monotonicMs = (): number => this.#now
  wallMs = (): number => WALL_AT_START_MS + this.#now + this.#suspendedMs
  bootMs = (): number => this.#now + this.#suspendedMs

  after = (ms: number, call: () => void): Cancel => {
    const timer = { atMs: this.#now + Math.max(0, ms), call }
    this.#timers.add(timer)
    return () => { this.#timers.delete(timer) }
  }

  /** How many wait for their time: a test waits until the one it means is among them. */
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

  /** The process is stopped: time passes, timers do not fire. */
  stall (ms: number): void {
    this.#now += ms
  }

  /** The machine sleeps: only the wall clock knows. */
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
