/**
 * Keeps the contact to the arbiter (E2b) recent while no request does, and reads its clock. It is one small write every
 * sixth of a lease, or of a worker's lease if that is shorter.
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
      // Redis is read before the database. So it is never ahead of the database (store/redis/mirror.ts).
      const others = await locks.mirror?.look(arbiterClock.gateway) ?? []
      const { beat, beaten } = await sign(others)
      return await locks.mirror?.show({ gateway: arbiterClock.gateway, beat }, beaten.others ?? []) ?? false
    }
  })
}
