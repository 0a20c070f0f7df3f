/**
 * Reads the depths of the inboxes from the store: for the limits of new messages, for the metrics, and for messages of
 * routes that no gateway delivers.
 */
import type { Gateway } from '../gateway/gateway.ts'
import { depthsOfAllRoutes, orphanedDepths } from '../gateway/limits/inbox-depths.ts'
import type { Deps } from '../gateway/shared/deps.ts'
import { CountPace } from './count-pace.ts'
import { nullIfUnavailable, Service } from './service.ts'

const EVERY_MS = 1_000

export function inboxDepths (gateway: Gateway): Service {
  const { clock, log } = gateway.deps
  const depths = new Depths(gateway)
  const pace = new CountPace()
  let restUntilMs = -Infinity
  const round = async (): Promise<boolean> => {
    const beganAtMs = clock.monotonicMs()
    if (beganAtMs < restUntilMs) return false
    const isRead = await depths.read()
    const endedAtMs = clock.monotonicMs()
    // How long a store does not answer says nothing of how much is in it.
    if (isRead) restUntilMs = endedAtMs + pace.restMs(endedAtMs - beganAtMs)
    return false
  }
  return new Service({ name: 'inbox-depths', everyMs: EVERY_MS, clock, log, round })
}

class Depths {
  readonly #gateway: Gateway
  /** Routes that have been logged, for as long as messages wait for them. */
  #strays = new Set<string>()
  /** The inboxes of a configuration without any, after the store was found empty. */
  #idle: Deps['inboxes'] | null = null

  constructor (gateway: Gateway) {
    this.#gateway = gateway
  }

  /**
   * A reload may add the first inbox or remove the last. Without any inbox, the store is read until it is empty. false: nothing was read.
   */
  async read (): Promise<boolean> {
    const { depths, deps: { inbox, inboxes, meter } } = this.#gateway
    if (this.#idle === inboxes) return false
    depths.pollStarted()
    const read = await inbox.depths().catch(nullIfUnavailable)
    if (read === null) return false
    depths.pollFinished(read)
    meter.inbox(depthsOfAllRoutes(read, inboxes))
    this.#logStrays(orphanedDepths(read, inboxes))
    this.#idle = inboxes.size === 0 && read.length === 0 ? inboxes : null
    return true
  }

  #logStrays (strays: ReturnType<typeof orphanedDepths>): void {
    for (const { route, waiting } of strays) {
      if (!this.#strays.has(route)) {
        this.#gateway.deps.log.warn(
          { event: 'inbox-route-missing', route, waiting },
          'messages wait for a route that is not in the configuration, or has no inbox there: nobody delivers them'
        )
      }
    }
    this.#strays = new Set(strays.map(({ route }) => route))
  }
}
