/**
 * Looks after the health of consumers (core/inbox/health.ts): counts what this process delivers, and tells the store. What the store could
 * not be told is told at the next look: on a paused inbox there may be no other delivery that says it.
 */
import { ABANDONED_MS, healthChange } from '../core/inbox/health.ts'
import type { Evidence, HealthChange, RouteHealth } from '../core/inbox/health.ts'
import type { Deps } from '../gateway/shared/deps.ts'

/** A reload replaces the dependencies. */
interface HealthContext { readonly deps: Pick<Deps, 'inbox' | 'inboxes' | 'meter' | 'log'> }

export class EndpointHealth {
  readonly #context: HealthContext
  readonly #tryOne: (route: string) => void
  #evidence = new Map<string, Evidence>()

  /** `tryOne`: one message of this paused route is to be delivered. */
  constructor (context: HealthContext, tryOne: (route: string) => void) {
    this.#context = context
    this.#tryOne = tryOne
  }

  /** A delivery has ended at the consumer. `taken`: it took the message. */
  note (route: string, taken: boolean): void {
    this.#add(route, { taken: taken ? 1 : 0, refused: taken ? 0 : 1 })
  }

  async look (): Promise<void> {
    const evidence = this.#evidence
    this.#evidence = new Map()
    try {
      await this.#tell(evidence)
    } catch (error) {
      for (const [route, each] of evidence) this.#add(route, each)
      throw error
    }
  }

  #add (route: string, { taken, refused }: Evidence): void {
    const known = this.#evidence.get(route) ?? NO_EVIDENCE
    this.#evidence.set(route, { taken: known.taken + taken, refused: known.refused + refused })
  }

  async #tell (evidence: ReadonlyMap<string, Evidence>): Promise<void> {
    const { inbox, inboxes, meter } = this.#context.deps
    const kept = await inbox.health()
    const healthOf = (name: string): RouteHealth => kept.find(({ route }) => route === name) ?? { route: name, failing: null, pause: null }
    meter.endpoints(Array.from(inboxes.keys(), healthOf))
    for (const [name, { idempotency: { inbox: policy } }] of inboxes) {
      const change = healthChange(name, healthOf(name), evidence.get(name) ?? NO_EVIDENCE, policy)
      if (change !== null && await inbox.changeHealth(change)) this.#changed(change)
    }
    const abandoned = kept.filter(({ route, failing }) => !inboxes.has(route) && failing !== null && failing.lastMs > ABANDONED_MS)
    for (const { route } of abandoned) await inbox.changeHealth({ kind: 'well', route })
  }

  #changed (change: HealthChange): void {
    const { log } = this.#context.deps
    const { route } = change
    switch (change.kind) {
      case 'failing': return
      case 'well':
        return log.info(
          { event: 'endpoint-resumed', route },
          'the pause of an inbox is over: the consumer takes messages again, or nobody wants the pause any more'
        )
      case 'pause':
        return log.error(
          { event: 'endpoint-paused', route, forMs: change.afterMs, inMs: change.trialMs },
          'every delivery has failed for too long: the inbox is paused, and one message tries again from time to time'
        )
      case 'trial': return this.#tryOne(route)
    }
  }
}

const NO_EVIDENCE: Evidence = { taken: 0, refused: 0 }
