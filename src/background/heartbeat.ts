/** Keeps the arbiter's contact (E2b) known while no request does: one small write every sixth of a lease, of a worker's at most. */
import { heartbeatMs } from '../gateway/gateway.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { OWNER_BYTES } from '../core/record.ts'
import type { Beaten } from '../ports.ts'
import { Service } from './service.ts'

export function heartbeat (gateway: Gateway): Service {
  const { clock, log, records, locks, longestLeaseMs, instance, random } = gateway.world
  const name = random.bytes(OWNER_BYTES)
  let beat = 0
  const sign = async (others: readonly Buffer[]): Promise<Beaten> => {
    const asked = gateway.readClocks()
    const beaten = await records.beat({ gateway: name, instance, beat: ++beat, aheadMs: 0, others })
    gateway.generation.learn(beaten.generation, asked)
    return beaten
  }
  let signing: Promise<void> | null = null
  gateway.sign = async () => {
    signing ??= sign([]).then(() => {}).finally(() => { signing = null })
    return signing
  }
  return new Service({
    name: 'heartbeat',
    everyMs: heartbeatMs(longestLeaseMs),
    clock,
    log,
    round: async () => {
      // What stands in Redis first, then the database: so it is never ahead of it (store/redis/mirror.ts).
      const others = await locks.mirror?.look(name) ?? []
      const beaten = await sign(others)
      return await locks.mirror?.show({ gateway: name, beat }, beaten.others ?? []) ?? false
    }
  })
}
