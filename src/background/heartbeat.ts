/** Keeps the arbiter's contact (E2b) known while no request does: one small write every sixth of a lease, of a worker's at most. */
import { heartbeatMs } from '../gateway/gateway.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { Service } from './service.ts'

export function heartbeat (gateway: Gateway): Service {
  const { clock, log, records, longestLeaseMs, instance } = gateway.world
  let beat = 0
  return new Service({
    name: 'heartbeat',
    everyMs: heartbeatMs(longestLeaseMs),
    clock,
    log,
    round: async () => {
      const reading = gateway.readClocks()
      await records.beat({ gateway: gateway.registration.gateway, instance, beat: ++beat, aheadMs: 0 })
      gateway.registration.beaten(reading)
      return false
    }
  })
}
