/** Percentiles of the last 30 seconds in bounded memory, to three digits: a histogram for each second. */
import { createHistogram } from 'node:perf_hooks'
import type { RecordableHistogram } from 'node:perf_hooks'

const WINDOW_S = 30
/** In microseconds; the highest is 17 minutes. */
const RANGE = { lowest: 1, highest: 1e9, figures: 3 } as const
const US_PER_MS = 1_000
const PERCENTILES = [50, 95, 99]

interface Slot { second: number, readonly histogram: RecordableHistogram }

const nowS = (): number => Math.floor(performance.now() / 1_000)

export class Latency {
  readonly #slots = Array.from({ length: WINDOW_S }, (): Slot => ({ second: -WINDOW_S, histogram: createHistogram(RANGE) }))

  add (ms: number): void {
    const second = nowS()
    const slot = this.#slots[second % WINDOW_S] as Slot
    if (slot.second !== second) {
      slot.second = second
      slot.histogram.reset()
    }
    slot.histogram.record(Math.max(RANGE.lowest, Math.min(RANGE.highest, Math.round(ms * US_PER_MS))))
  }

  /** As metrics of the harness: `NAME_p50_ms` and so on. 0 if there is none. */
  metrics (name: string): Array<readonly [metric: string, value: number, windowS: number]> {
    const sum = createHistogram(RANGE)
    for (const { second, histogram } of this.#slots) {
      if (second > nowS() - WINDOW_S) sum.add(histogram)
    }
    return PERCENTILES.map((p) => [`${name}_p${p}_ms`, sum.percentile(p) / US_PER_MS, WINDOW_S] as const)
  }
}
