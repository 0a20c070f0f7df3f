/**
 * Keeps the arbiter's contact (E2b) known while no request does, and reads its clock: one small write every sixth of a lease,
 * of a worker's at most.
 */
import type { Gateway } from '../gateway/gateway.ts'
import { Service } from './service.ts'

export function heartbeat (gateway: Gateway): Service {
  const { arbiterClock, generation, registration, world: { clock, log, records, locks } } = gateway
  return new Service({
    name: 'heartbeat',
    everyMs: gateway.heartbeatMs,
    clock,
    log,
    round: async () => {
      // What stands in Redis first, then the database: so it is never ahead of it (store/redis/mirror.ts).
      const others = await locks.mirror?.look(arbiterClock.gateway) ?? []
      const asked = gateway.readClocks()
      const { beat, beaten } = await arbiterClock.beat(records, others)
      generation.learn(beaten.generation, asked)
      registration.beaten(asked)
      return await locks.mirror?.show({ gateway: arbiterClock.gateway, beat }, beaten.others ?? []) ?? false
    }
  })
}
