/**
 * Keeps the arbiter's contact (E2b) known while no request does, and reads its clock: one small write every sixth of a lease,
 * of a worker's at most.
 */
import type { Gateway } from '../gateway/gateway.ts'
import { Service } from './service.ts'

export function heartbeat (gateway: Gateway): Service {
  const { clock, log, records } = gateway.world
  return new Service({
    name: 'heartbeat',
    everyMs: gateway.heartbeatMs,
    clock,
    log,
    round: async () => {
      await gateway.arbiterClock.beat(records)
      return false
    }
  })
}
