/** How long a fault of the stores left no request executed and stored, at any gateway. From the clients' events. Pure. */
import type { HistoryEvent } from '../harness/history.ts'
import type { FaultKind } from './faults.ts'
import type { Injected } from './injector.ts'

export interface Outage {
  readonly kind: FaultKind
  /** Until everything was as before the fault. */
  readonly faultMs: number
  /** The longest time between two answers that were stored, of those that the fault has a part of. */
  readonly withoutMs: number
}

export function outagesOf (injected: readonly Injected[], events: readonly HistoryEvent[]): Outage[] {
  const stored = events
    .flatMap((event) => event.kind === 'told' && event.told.kind === 'stored' ? [event.atMs] : [])
    .toSorted((a, b) => a - b)
  return injected.map(({ kind, fromMs, untilMs }) => {
    const endMs = untilMs ?? fromMs
    const before = stored.findLast((atMs) => atMs <= fromMs) ?? fromMs
    const after = stored.find((atMs) => atMs >= endMs) ?? endMs
    const moments = [before, ...stored.filter((atMs) => atMs > fromMs && atMs < endMs), after]
    const gaps = moments.slice(1).map((atMs, index) => atMs - (moments[index] ?? atMs))
    return { kind, faultMs: endMs - fromMs, withoutMs: Math.round(Math.max(0, ...gaps)) }
  })
}
