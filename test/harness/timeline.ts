/**
 * Virtual time for simulations: leases, waits and retentions pass as fast as the work between them. It never sleeps.
 * Time advances only when no work is left at the present moment: all microtasks have run, and no real I/O (a SQLite worker) is pending.
 */
import type { Cancel } from '../../src/ports/clock.ts'

interface Timer { readonly atMs: number, readonly call: () => void }

/** More armed timers than this mean a leak in the simulation. */
const TIMERS_MAX = 100_000
/** An arbitrary Unix time, the same in every run. */
const START_WALL_MS = 1_800_000_000_000

export class Timeline {
  #nowMs = 0
  /** Sorted by time. Of equal times, the one armed first goes first. */
  readonly #timers: Timer[] = []
  readonly #real = new Set<Promise<unknown>>()

  get nowMs (): number { return this.#nowMs }
  get wallMs (): number { return START_WALL_MS + this.#nowMs }

  after (ms: number, call: () => void): Cancel {
    if (this.#timers.length >= TIMERS_MAX) throw new RangeError('too many timers')
    const timer: Timer = { atMs: this.#nowMs + Math.max(0, ms), call }
    const behind = this.#timers.findLastIndex(({ atMs }) => atMs <= timer.atMs)
    this.#timers.splice(behind + 1, 0, timer)
    return () => {
      const index = this.#timers.indexOf(timer)
      if (index !== -1) this.#timers.splice(index, 1)
    }
  }

  async sleep (ms: number): Promise<void> {
    await new Promise<void>((resolve) => { this.after(ms, resolve) })
  }

  /** Stops time until the promise is settled. */
  async real<T> (work: Promise<T>): Promise<T> {
    this.#real.add(work)
    try {
      return await work
    } finally {
      this.#real.delete(work)
    }
  }

  /** Lets time pass until `done` holds (true), or `ms` have passed or nothing is left to wait for (false). */
  async pass (done: () => boolean, ms: number): Promise<boolean> {
    const endsAtMs = this.#nowMs + ms
    for (;;) {
      await this.#quiet()
      if (done()) return true
      const next = this.#timers[0]
      if (next === undefined || next.atMs > endsAtMs) {
        this.#nowMs = endsAtMs
        return false
      }
      this.#timers.shift()
      this.#nowMs = next.atMs
      next.call()
    }
  }

  /** A tick that is requested in a microtask comes when no microtask is left. It costs no turn of the event loop. */
  async #quiet (): Promise<void> {
    await Promise.resolve()
    do {
      await new Promise<void>((resolve) => { process.nextTick(resolve) })
      if (this.#real.size > 0) await Promise.race(this.#real).catch(() => {})
    } while (this.#real.size > 0)
  }
}
