/**
 * Tells the store how many records each caller has come to, where a route bounds them, and hears what the others have
 * told it (gateway/authorise/record-counts.ts).
 */
import type { Gateway } from '../gateway/gateway.ts'
import { Service } from './service.ts'

/** A bound may be passed by what is claimed within it. */
const EVERY_MS = 1_000

export function recordCountSync (gateway: Gateway): Service {
  const { clock, log } = gateway.deps
  return new Service({
    name: 'counting',
    everyMs: EVERY_MS,
    clock,
    log,
    round: async () => {
      await gateway.recordCounts.tell()
      return false
    }
  })
}
