/**
 * Keeps the history of a run: every event as it happens, and an operator's delete at the moment that it takes effect,
 * which nobody sees: it is put in before the first event that comes after it.
 */
import type { HistoryEvent } from '../harness/history.ts'

export class HistoryKeeper {
  readonly events: HistoryEvent[] = []
  /** Of each record: what was claimed or settled last. */
  readonly latest = new Map<string, Extract<HistoryEvent, { kind: 'claimed' | 'settled' }>>()
  #deletes = new Map<string, number>()

  readonly note = (event: HistoryEvent): void => {
    if (event.kind === 'claimed' || event.kind === 'settled') {
      for (const record of this.#deletes.keys()) this.#deleteIfDue(record, event.atMs)
      // Claimed or settled anew before it took effect: it never does.
      this.#deletes.delete(event.record)
      this.latest.set(event.record, event)
    }
    this.events.push(event)
  }

  /** The row of this record will be past at `atMs`, if nothing is written to it until then. */
  deletes (record: string, atMs: number): void {
    this.#deletes.set(record, atMs)
  }

  /** From now on what is written in the store may be lost; to be called if it is: then it never was. */
  doubtful (): () => void {
    const place = this.events.length
    const deletes = new Map(this.#deletes)
    return () => {
      const later = this.events.splice(place)
      this.events.push(...later.filter(({ kind }) => kind !== 'claimed' && kind !== 'settled' && kind !== 'deleted' && kind !== 'switched'))
      this.#deletes = deletes
      this.latest.clear()
      for (const event of this.events) if (event.kind === 'claimed' || event.kind === 'settled') this.latest.set(event.record, event)
    }
  }

  end (nowMs: number): void {
    for (const record of this.#deletes.keys()) this.#deleteIfDue(record, nowMs)
  }

  #deleteIfDue (record: string, nowMs: number): void {
    const atMs = this.#deletes.get(record)
    if (atMs === undefined || atMs > nowMs) return
    this.#deletes.delete(record)
    // In its place in time: all that came between had nothing to do with the row.
    this.events.push({ kind: 'deleted', atMs, record })
  }
}
