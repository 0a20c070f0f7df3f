/**
 * E2b, as only a simulation can judge it, because it knows which processes live. A lease must not lapse if its owner's process runs, was
 * not stopped, was not cut off from the arbiter, and could have renewed it. Clock steps, hanging commits and locked rows are no excuse. It
 * watches and changes nothing.
 */
import type { Lapsed } from '../../src/ports/records.ts'
import { NOWHERE } from '../../src/unordered-list.ts'
import type { Timeline } from '../harness/timeline.ts'
import type { Seat } from './clients.ts'
import type { Schedule } from './schedule.ts'

/** A driver's longest patience for a renewal, and its ways there and back. */
const RENEWED_AFTER_MS = 2_000

export class Living {
  readonly #timeline: Timeline
  readonly #seats: readonly Seat[]
  readonly #leaseMs: number
  /** On a way that loses or holds up messages a renewal may fail again and again. */
  readonly #excused: boolean
  /** Of each gateway: until when it may have been kept from renewing. */
  readonly #untilMs: number[] = []

  constructor (
    { faults, network, policy, variants }: Pick<Schedule, 'faults' | 'network' | 'policy' | 'variants'>,
    timeline: Timeline,
    seats: readonly Seat[]
  ) {
    this.#timeline = timeline
    this.#seats = seats
    this.#leaseMs = Math.max(policy.leaseMs, ...variants.map(({ leaseMs }) => leaseMs ?? 0))
    this.#excused = network.lossShare > 0 || network.slow.share > 0
    for (const { trigger, action } of faults) {
      if (action.kind === 'message' && trigger.kind === 'call') this.#untilMs[trigger.gateway] = Infinity
    }
  }

  /** Something keeps this gateway from renewing for so long; then it has a lease to do it. */
  hinder (gateway: number, forMs: number): void {
    const untilMs = this.#timeline.nowMs + forMs + this.#leaseMs + RENEWED_AFTER_MS
    this.#untilMs[gateway] = Math.max(this.#untilMs[gateway] ?? 0, untilMs)
  }

  /** Those of the lapsed who lived, each in one sentence. */
  wronged (lapsed: readonly Lapsed[]): string[] {
    if (this.#excused || lapsed.length === 0) return []
    return lapsed.flatMap(({ id, attempt }) => this.#seats
      .filter(({ process }) => process.alive && !process.stopped && (this.#untilMs[process.gateway] ?? 0) <= this.#timeline.nowMs)
      .filter(({ gateway, process }) => gateway.executions.all().some((execution) =>
        execution.won &&
        execution.leasePlace !== NOWHERE &&
        execution.attempt === attempt &&
        execution.keyed.id.equals(id) &&
        process.clock.monotonicMs() < execution.hardEndMs()))
      .map(({ process }) => `${process.name} lives, and its lease of ${id.toString('base64url').slice(0, 8)} was lapsed`))
  }
}
