/**
 * Reports the number of records of each caller to the store if a route limits them, and reads the numbers of the other
 * gateways (gateway/authorise/record-counts.ts).
 */
import type { Gateway } from '../gateway/gateway.ts'
import { Service } from './service.ts'

/** A limit may be exceeded by what is claimed within this time. */
const EVERY_MS = 1_000

export function recordCountSync (gateway: Gateway): Service {
  const { clock, log } = gateway.deps
  return new Service({
    name: 'counting',
    everyMs: EVERY_MS,
    clock,
    log,
    round: async () => {
      await gateway.recordCounts.report()
      return false
    }
  })
}
