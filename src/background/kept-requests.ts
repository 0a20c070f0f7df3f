/**
 * Ends the time of requests that are kept for replays (`inbox.keepDelivered`), and holds each route to its bounds: beyond, the oldest are
 * deleted. Accepting and delivering never wait for that, so a route may exceed its bounds by what is delivered between two counts.
 */
import type { Gateway } from '../gateway/gateway.ts'
import type { KeptUntil } from '../ports/inbox.ts'
import { CountPace } from './count-pace.ts'

/** The count reads an index entry for each request that is kept. */
const COUNT_EVERY_MS = 10_000

export class KeptRequestsSweep {
  readonly #gateway: Gateway
  readonly #pace = new CountPace()
  #countAtMs = -Infinity
  /** Of the last count, until it is done. */
  #beyond: readonly KeptUntil[] = []
  readonly #dropped = new Map<string, number>()

  constructor (gateway: Gateway) {
    this.#gateway = gateway
  }

  /** true: there is more to do at once. */
  async round (limit: number): Promise<boolean> {
    const { inbox, meter, clock } = this.#gateway.deps
    if (clock.monotonicMs() >= this.#countAtMs) await this.#count()
    const { expired, beyond } = await inbox.dropRequests(this.#beyond, limit)
    for (const { route, count } of beyond) {
      if (count === 0) continue
      meter.keptDropped(route, count)
      this.#dropped.set(route, (this.#dropped.get(route) ?? 0) + count)
    }
    this.#beyond = this.#beyond.filter(({ route }) => (beyond.find((each) => each.route === route)?.count ?? 0) >= limit)
    this.#report()
    return expired >= limit || this.#beyond.length > 0
  }

  async #count (): Promise<void> {
    const { inbox, inboxes, meter, clock } = this.#gateway.deps
    const beganAtMs = clock.monotonicMs()
    const bounds = Array.from(inboxes)
      .filter(([, { idempotency }]) => idempotency.inbox.keepDeliveredMs > 0)
      .map(([route, { idempotency: { inbox: { keptMax, keptBytesMax } } }]) => ({ route, messages: keptMax, bytes: keptBytesMax }))
    const kept = bounds.length === 0 ? [] : await inbox.kept(bounds)
    meter.kept(kept)
    this.#beyond = kept.flatMap(({ route, beyondMs }) => beyondMs === null ? [] : [{ route, untilMs: beyondMs }])
    const endedAtMs = clock.monotonicMs()
    this.#countAtMs = endedAtMs + Math.max(COUNT_EVERY_MS, this.#pace.restMs(endedAtMs - beganAtMs))
  }

  /** Once for each count, when all of it is deleted. */
  #report (): void {
    for (const [route, count] of this.#dropped) {
      if (this.#beyond.some((each) => each.route === route)) continue
      this.#gateway.deps.log.warn(
        { event: 'kept-requests-dropped', route, count },
        'a route keeps more requests of delivered messages than it may: the oldest are deleted, and cannot be replayed'
      )
      this.#dropped.delete(route)
    }
  }
}
