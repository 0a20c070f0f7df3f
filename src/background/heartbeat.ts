/** Keeps the arbiter's contact (E2b) known while no request does: one small write every sixth of a lease, of a worker's at most. */
import { heartbeatMs } from '../gateway/gateway.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { OWNER_BYTES } from '../core/record.ts'
import { Service } from './service.ts'

export function heartbeat (gateway: Gateway): Service {
  const { clock, log, records, longestLeaseMs, instance, random } = gateway.world
  const name = random.bytes(OWNER_BYTES)
  let beat = 0
  return new Service({
    name: 'heartbeat',
    everyMs: heartbeatMs(longestLeaseMs),
    clock,
    log,
    round: async () => {
      await records.beat({ gateway: name, instance, beat: ++beat, aheadMs: 0 })
      return false
    }
  })
}
