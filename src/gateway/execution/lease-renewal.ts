/**
 * Renews the leases of this process's executions: at every third of a lease, in one batch, on a connection of its own (E2, P8).
 * The lock in Redis is renewed in parallel, whatever the arbiter says. Without it, other processes would try to claim.
 */
import type { Cancel } from '../../ports/clock.ts'
import type { RenewResult } from '../../ports/records.ts'
import type { Execution } from './execution.ts'
import { readClocks } from '../shared/clock-reading.ts'
import type { ClockReading } from '../shared/clock-reading.ts'
import type { Deps } from '../shared/deps.ts'
import { NOWHERE, UnorderedList } from '../../unordered-list.ts'

interface LeaseContext { readonly deps: Deps, readonly background: (work: Promise<void>) => void }

/** A lease is due for renewal when a third of it is used up. */
const RENEW_AT_SHARE = 1 / 3
/** Ticks per renewal period. A skipped row gets its next try well before its lease ends. */
const TICKS_PER_PERIOD = 3
/** Bounds of the tick. A shorter tick gains nothing. A longer one would miss the short leases of tests. */
const TICK_SHORTEST_MS = 20
const TICK_LONGEST_MS = 1_000

export class Leases {
  readonly #context: LeaseContext
  readonly #tickMs: number
  readonly #held = new UnorderedList<Execution, 'leasePlace'>('leasePlace')
  #cancelTick: Cancel | null = null
  #renewing = false

  constructor (context: LeaseContext, shortestLeaseMs: number) {
    this.#context = context
    const tickMs = shortestLeaseMs * RENEW_AT_SHARE / TICKS_PER_PERIOD
    this.#tickMs = Math.min(TICK_LONGEST_MS, Math.max(TICK_SHORTEST_MS, tickMs))
  }

  hold (execution: Execution): void {
    this.#held.add(execution)
    this.#arm()
  }

  drop (execution: Execution): void {
    this.#held.remove(execution)
  }

  stop (): void {
    this.#cancelTick?.()
    this.#cancelTick = null
  }

  #arm (): void {
    if (this.#cancelTick !== null || this.#held.size === 0) return
    this.#cancelTick = this.#context.deps.clock.after(this.#tickMs, () => {
      this.#cancelTick = null
      this.#tick()
      this.#arm()
    })
  }

  #tick (): void {
    if (this.#renewing) return
    const reading = readClocks(this.#context.deps.clock)
    const due = this.#held.all().filter((execution) => isDue(execution, reading.monotonicMs))
    if (due.length === 0) return
    this.#renewing = true
    this.#context.background(this.#renew(due, reading).finally(() => { this.#renewing = false }))
  }

  async #renew (due: readonly Execution[], reading: ClockReading): Promise<void> {
    this.#context.background(this.#renewLocks(due))
    try {
      const results = await this.#context.deps.records.renew(due.map((execution) => execution.token))
      due.forEach((execution, index) => this.#applyResult(execution, results[index] ?? 'lost', reading))
    } catch (error) {
      this.#context.deps.log.warn(
        { event: 'lease-renewal-failed', executions: due.length, error: error instanceof Error ? error.message : String(error) },
        'leases could not be renewed'
      )
    }
  }

  async #renewLocks (due: readonly Execution[]): Promise<void> {
    const byLease = Map.groupBy(due, (execution) => execution.keyed.claim.leaseMs)
    for (const [leaseMs, executions] of byLease) {
      await this.#context.deps.locks.renew(executions.map(({ keyed, owner }) => ({ id: keyed.id, owner })), leaseMs)
    }
  }

  #applyResult (execution: Execution, result: RenewResult, reading: ClockReading): void {
    if (result === 'renewed') {
      execution.grant(reading)
      return
    }
    if (result === 'skipped' || execution.leasePlace === NOWHERE) return
    execution.leaseLost = true
    this.drop(execution)
    const { route, name } = execution.keyed
    this.#context.deps.meter.leaseLost(route.name)
    this.#context.deps.log.warn(
      { event: 'lease-lost', record: name, route: route.name, attempt: execution.attempt, sent: execution.sentAtMs !== null },
      'lease lost while the execution runs'
    )
  }
}

function isDue (execution: Execution, now: number): boolean {
  const { leaseMs } = execution.keyed.claim
  const usedMs = leaseMs - (execution.leaseEndsAtMs - now)
  return usedMs >= leaseMs * RENEW_AT_SHARE && (now < execution.hardEndMs() || execution.unsettled)
}
