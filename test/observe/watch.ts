/** Which alerts fired, and when they were last seen to. */
import { setTimeout as sleep } from 'node:timers/promises'
import { eventually } from '../harness/eventually.ts'
import type { Alert, Labels, Prometheus } from '../harness/prometheus.ts'

const LOOK_EVERY_MS = 200
/** A sign of life of two gateways comes each 15 s, and the machine may be busy. */
const FIRES_WITHIN_MS = 60_000
/** The longest window of the rules, and the time in which a store comes back. */
const ENDS_WITHIN_MS = 60_000

export class AlertWatch {
  readonly #prometheus: Prometheus
  readonly #seen: Array<{ readonly alert: Alert, lastMs: number }> = []
  readonly #looking: Promise<void>
  /** In the last look. null: there was none yet. */
  #firing: readonly Alert[] | null = null
  #stopped = false
  #failure: unknown = null

  constructor (prometheus: Prometheus) {
    this.#prometheus = prometheus
    this.#looking = this.#look().catch((error: unknown) => { this.#failure = error })
  }

  async stop (): Promise<void> {
    this.#stopped = true
    await this.#looking
  }

  /** Resolves when it has been seen to fire since then (`performance.now()`). */
  async fires (name: string, labels: Labels, sinceMs: number): Promise<void> {
    await eventually(() => {
      if (this.#failure !== null) throw new Error('Prometheus was not asked any more', { cause: this.#failure })
      return this.#seen.some(({ alert, lastMs }) => lastMs >= sinceMs && alert.name === name && hasAll(alert.labels, labels))
    }, () => `${name} ${JSON.stringify(labels)} did not fire, but ${this.#namesSince(sinceMs)}`, FIRES_WITHIN_MS)
  }

  /** Resolves when it does not fire, or not any more. */
  async isQuiet (name: string, labels: Labels): Promise<void> {
    await eventually(
      () => this.#firing?.some((alert) => alert.name === name && hasAll(alert.labels, labels)) === false,
      `${name} ${JSON.stringify(labels)} ends`,
      ENDS_WITHIN_MS
    )
  }

  #namesSince (sinceMs: number): string {
    const those = this.#seen.filter(({ lastMs }) => lastMs >= sinceMs)
    return those.map(({ alert }) => JSON.stringify(alert.labels)).join(', ') || 'none did'
  }

  async #look (): Promise<void> {
    while (!this.#stopped) {
      const nowMs = performance.now()
      this.#firing = (await this.#prometheus.alerts()).filter(({ state }) => state === 'firing')
      for (const alert of this.#firing) {
        const known = this.#seen.find((each) => JSON.stringify(each.alert.labels) === JSON.stringify(alert.labels))
        if (known === undefined) this.#seen.push({ alert, lastMs: nowMs })
        else known.lastMs = nowMs
      }
      await sleep(LOOK_EVERY_MS)
    }
  }
}

function hasAll (labels: Labels, wanted: Labels): boolean {
  return Object.entries(wanted).every(([name, value]) => labels[name] === value)
}
