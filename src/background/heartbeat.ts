/**
 * Keeps the arbiter's contact (E2b) known while no request does, and reads its clock: one small write every sixth of a lease,
 * of a worker's at most.
 */
import type { Gateway } from '../gateway/gateway.ts'
import type { AcknowledgedBeat } from '../gateway/shared/arbiter-clock.ts'
import { readClocks } from '../gateway/shared/clock-reading.ts'
import { Service } from './service.ts'

export function heartbeat (gateway: Gateway): Service {
  const { arbiterClock, generation, registration, ids, deps: { clock, log, records, locks } } = gateway
  const sign = async (others: readonly Buffer[]): Promise<AcknowledgedBeat> => {
    const asked = readClocks(clock)
    const signed = await arbiterClock.beat(records, others)
    generation.learn(signed.beaten.generation, asked)
    registration.heartbeatAcknowledged(asked)
    await ids.refreshIfChanged(signed.beaten.scheme)
    return signed
  }
  let signing: Promise<void> | null = null
  generation.heartbeat = async () => {
    signing ??= sign([]).then(() => {}).finally(() => { signing = null })
    return signing
  }
  return new Service({
    name: 'heartbeat',
    everyMs: gateway.heartbeatMs,
    clock,
    log,
    round: async () => {
      // What stands in Redis first, then the database: so it is never ahead of it (store/redis/mirror.ts).
      const others = await locks.mirror?.look(arbiterClock.gateway) ?? []
      const { beat, beaten } = await sign(others)
      return await locks.mirror?.show({ gateway: arbiterClock.gateway, beat }, beaten.others ?? []) ?? false
    }
  })
}
