/** Keeps the arbiter's contact (E2b) known while no request does: one cheap round trip every sixth of a lease. */
import { HEARTBEAT_SHARE } from '../gateway/gateway.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { Service } from './service.ts'

export function heartbeat (gateway: Gateway): Service {
  const { clock, log, records, longestLeaseMs } = gateway.world
  return new Service({
    name: 'heartbeat',
    everyMs: longestLeaseMs * HEARTBEAT_SHARE,
    clock,
    log,
    round: async () => {
      await records.ping()
      return false
    }
  })
}
