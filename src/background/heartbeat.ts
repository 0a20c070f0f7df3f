/**
 * Keeps the arbiter's contact (E2b) known while no request does, and reads its clock: one small write every sixth of a lease,
 * of a worker's at most.
 */
import { heartbeatMs } from '../gateway/gateway.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { Service } from './service.ts'

export function heartbeat (gateway: Gateway): Service {
  const { clock, log, records, longestLeaseMs } = gateway.world
  return new Service({
    name: 'heartbeat',
    everyMs: heartbeatMs(longestLeaseMs),
    clock,
    log,
    round: async () => {
      await gateway.arbiterClock.beat(records)
      return false
    }
  })
}
