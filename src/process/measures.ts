/** What the metrics read from the parts of a serving process, and which series begin at 0. */
import type { Config } from '../config/config.ts'
import type { Gateway } from '../gateway/gateway.ts'
import type { GuardedListener } from '../http/server.ts'
import type { CountedRoute, Meter } from '../ports/telemetry.ts'
import type { UndiciPassThrough } from '../upstream/passer.ts'
import type { UndiciUpstream } from '../upstream/sender.ts'
import type { Stores } from './stores.ts'

interface Measured {
  readonly stores: Stores
  readonly upstream: UndiciUpstream
  readonly passing: UndiciPassThrough
  readonly gateway: Gateway
}

/** Gauges that are read from the parts when the metrics are asked for. */
export function measure (meter: Meter, { stores, upstream, passing, gateway }: Measured, listener: GuardedListener): void {
  meter.holds('connections', listener.connections)
  meter.holds('tunnels', listener.tunnels)
  meter.holds('passing', () => passing.size)
  meter.holds('bufferedBytes', () => gateway.limits.buffered.held)
  meter.pools('guarded', () => upstream.uses)
  meter.pools('passed', () => passing.uses)
  const { name } = stores.records
  meter.reaches(
    name,
    () => stores.opened && stores.blocked === null && gateway.lapseGuard.hasContact(),
    () => gateway.lapseGuard.silentMs
  )
  meter.storeConnections(name, () => stores.databaseUse())
  meter.storeConnections('redis', () => stores.redisUse())
  if (stores.wantsRedis) meter.reaches('redis', () => stores.locks.available())
}

/** Counters of these routes begin at 0. */
export function countFromNow (meter: Meter, config: Config): void {
  meter.serves(config.routes.map(({ name, match: { methods } }) => ({ name, methods })))
  meter.guarded(countedRoutes(config))
}

function countedRoutes ({ routes }: Config): CountedRoute[] {
  return routes.flatMap(({ name, idempotency }) => idempotency === null
    ? []
    : [{
        name,
        delivers: idempotency.inbox !== null,
        drops: idempotency.drop !== null,
        presets: idempotency.key.sources.flatMap((source) => source.kind === 'preset' ? [source.preset.name] : []),
        probes: idempotency.probe !== null,
        verifies: idempotency.verify !== null
      }])
}
