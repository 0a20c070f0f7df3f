/**
 * The network between processes and stores: how long a message takes, and whether it arrives. Each draw comes from the schedule's chance,
 * so the same run makes the same draws.
 */
import type { Port } from '../harness/crashing.ts'
import type { Timeline } from '../harness/timeline.ts'
import type { Chance } from './chance.ts'
import type { Action, Network as Plan } from './schedule.ts'

type Cut = Extract<Action, { kind: 'cut' }>

export class Network {
  readonly #plan: Plan
  readonly #chance: Chance
  readonly #timeline: Timeline
  #calm = false
  #lateUntilMs = 0
  readonly #cuts: Array<Cut & { readonly untilMs: number }> = []

  constructor (plan: Plan, chance: Chance, timeline: Timeline) {
    this.#plan = plan
    this.#chance = chance
    this.#timeline = timeline
  }

  /** One way. */
  oneWayMs (): number {
    const { baseMs, jitterMs, slow } = this.#plan
    const ms = baseMs + this.#chance.unit() * jitterMs
    return !this.#calm && slow.share > 0 && this.#chance.hit(slow.share) ? ms + slow.ms * this.#chance.unit() : ms
  }

  /** From the last check to the upstream. */
  wireMs (): number {
    return this.#calm ? 0 : this.#plan.wireMs * this.#chance.unit()
  }

  loses (): boolean {
    return !this.#calm && this.#plan.lossShare > 0 && this.#chance.hit(this.#plan.lossShare)
  }

  cut (cut: Cut): void {
    this.#cuts.push({ ...cut, untilMs: this.#timeline.nowMs + cut.forMs })
  }

  /** null: there is a way. */
  blocked (gateway: number, port: Port): 'reset' | 'hole' | null {
    for (const { gateways, ports, untilMs, way } of this.#cuts) {
      if (untilMs > this.#timeline.nowMs && gateways.includes(gateway) && ports.includes(port)) return way
    }
    return null
  }

  /** A message that its sender has given up is on its way until then. */
  delays (ms: number): void {
    this.#lateUntilMs = Math.max(this.#lateUntilMs, this.#timeline.nowMs + ms)
  }

  /** How long something may still come that everybody has given up. */
  lateMs (): number {
    return Math.max(0, this.#lateUntilMs - this.#timeline.nowMs)
  }

  /** Everything gets through from now on, and quickly. */
  heal (): void {
    this.#cuts.length = 0
    this.#calm = true
  }
}
