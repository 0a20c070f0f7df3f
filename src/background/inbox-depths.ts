/**
 * Reads the depths of the inboxes from the store: for the limits of new messages, for the metrics, and for messages of
 * routes that no gateway delivers.
 */
import type { Gateway } from '../gateway/gateway.ts'
import { depthsOfAllRoutes, orphanedDepths } from '../gateway/limits/inbox-depths.ts'
import type { Deps } from '../gateway/shared/deps.ts'
import { nullIfUnavailable, Service } from './service.ts'

const EVERY_MS = 1_000
/** The count takes longer with more messages, and every process counts. With a million messages the store would do nothing else. */
const SHARE_OF_TIME = 1 / 20

export function inboxDepths (gateway: Gateway): Service {
  const { clock, log } = gateway.deps
  const depths = new Depths(gateway)
  let restUntilMs = -Infinity
  const round = async (): Promise<boolean> => {
    const beganAtMs = clock.monotonicMs()
    if (beganAtMs < restUntilMs) return false
    await depths.read()
    const endedAtMs = clock.monotonicMs()
    restUntilMs = endedAtMs + (endedAtMs - beganAtMs) / SHARE_OF_TIME
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

  /** A reload may add the first inbox or remove the last. Without any inbox, the store is read until it is empty. */
  async read (): Promise<void> {
    const { depths, deps: { inbox, inboxes, meter } } = this.#gateway
    if (this.#idle === inboxes) return
    depths.pollStarted()
    const read = await inbox.depths().catch(nullIfUnavailable)
    if (read === null) return
    depths.pollFinished(read)
    meter.inbox(depthsOfAllRoutes(read, inboxes))
    this.#logStrays(orphanedDepths(read, inboxes))
    this.#idle = inboxes.size === 0 && read.length === 0 ? inboxes : null
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
