/** Record counts (ports/record-counts.ts) in memory. The counts in databases are tested against it. */
import { countEndsAtMs } from '../../core/record/counts.ts'
import type { RecordCount, RecordCounts } from '../../ports/record-counts.ts'

export class MemoryCounts implements RecordCounts {
  readonly #nowMs: () => number
  /** By route and digest, then by when they end: Unix milliseconds. */
  readonly #counted = new Map<string, Map<number, number>>()

  constructor (nowMs: () => number) {
    this.#nowMs = nowMs
  }

  async add (counts: readonly RecordCount[]): Promise<number[]> {
    return counts.map((each) => this.#add(each))
  }

  async sweep (limit: number): Promise<number> {
    let left = limit
    for (const [name, steps] of this.#counted) {
      for (const endsAtMs of steps.keys()) if (left > 0 && endsAtMs <= this.#nowMs() && steps.delete(endsAtMs)) left--
      if (steps.size === 0) this.#counted.delete(name)
    }
    return limit - left
  }

  #add ({ route, who, records, keepMs }: RecordCount): number {
    const [name, nowMs] = [`${who.toString('hex')} ${route}`, this.#nowMs()]
    const steps = this.#counted.get(name) ?? new Map<number, number>()
    const endsAtMs = countEndsAtMs(nowMs, keepMs)
    if (records !== 0) this.#counted.set(name, steps.set(endsAtMs, (steps.get(endsAtMs) ?? 0) + records))
    return Math.max(0, Array.from(steps).reduce((total, [until, count]) => until > nowMs ? total + count : total, 0))
  }
}
