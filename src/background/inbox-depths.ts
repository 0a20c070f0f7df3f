/** Asks the store how much is in the inboxes: for the bounds at the door, and for the metrics. */
import type { Gateway } from '../gateway/gateway.ts'
import { Service } from './service.ts'

const EVERY_MS = 1_000

export function inboxDepths (gateway: Gateway): Service {
  const { clock, log } = gateway.world
  return new Service({ name: 'inbox-depths', everyMs: EVERY_MS, clock, log, round: async () => ask(gateway) })
}

/** A reload may bring the first inbox, or take the last one away. */
async function ask (gateway: Gateway): Promise<boolean> {
  const { inbox, inboxes, meter } = gateway.world
  if (inboxes.size === 0) return false
  gateway.depths.asking()
  const depths = await inbox.depths()
  gateway.depths.told(depths)
  meter.inbox(depths)
  return false
}
