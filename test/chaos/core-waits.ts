/**
 * How long the processes behind an answer were ready to run without a core. A busy machine delays an answer like a frozen process, and
 * the kernel reports by how much.
 */
import { readFileSync } from 'node:fs'

/** From `fromMs` to `untilMs`, some process waited so long. */
export interface CoreWait { readonly fromMs: number, readonly untilMs: number, readonly ms: number }

/** Short beside every bound that is judged. */
export const LOOK_EVERY_MS = 250
const NS_PER_MS = 1e6

/**
 * The wait of a process's main thread since its start. null: it has ended, or this is not Linux.
 * `/proc/PID/schedstat` has the time on a core and the time waiting for one, in nanoseconds (kernel documentation, sched-stats).
 */
export function waitedForCoreMs (pid: number): number | null {
  try {
    const [, waitedNs] = readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')
    return Number(waitedNs) / NS_PER_MS
  } catch {
    return null
  }
}

/** For several processes on one way: the longest wait of any since the last look. */
export class CoreWaits {
  readonly #known = new Map<number, number>()
  #lookedAtMs = Date.now()

  /** null: no process has waited. */
  look (pids: readonly number[]): CoreWait | null {
    const fromMs = this.#lookedAtMs
    const untilMs = Date.now()
    this.#lookedAtMs = untilMs
    const waits = pids.map((pid) => this.#since(pid))
    const ms = Math.min(untilMs - fromMs, Math.max(0, ...waits))
    return ms > 0 ? { fromMs, untilMs, ms } : null
  }

  #since (pid: number): number {
    const now = waitedForCoreMs(pid)
    const before = this.#known.get(pid)
    if (now === null) return 0
    this.#known.set(pid, now)
    return before === undefined ? 0 : now - before
  }
}

/** Of the time between two moments. */
export function waitedMs (waits: readonly CoreWait[], fromMs: number, untilMs: number): number {
  return waits.reduce((sum, wait) => {
    const overlapMs = Math.min(untilMs, wait.untilMs) - Math.max(fromMs, wait.fromMs)
    return overlapMs <= 0 ? sum : sum + wait.ms * overlapMs / (wait.untilMs - wait.fromMs)
  }, 0)
}
