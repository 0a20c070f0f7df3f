/** What a run's stores are made of, where that is not one server of each. Shapes only; the names are in topologies.ts. */
import type { FaultKind } from '../faults.ts'
import type { ChaosStores } from '../stores.ts'

export interface Topology {
  /** For a report. */
  readonly what: string
  readonly start: (fillsDisk: boolean) => Promise<ChaosStores>
  /** Kinds that only this one has; `ChaosStores.own` does them. */
  readonly own: readonly FaultKind[]
  /** Kinds that this one cannot have, and why. */
  readonly without: Readonly<Partial<Record<FaultKind, string>>>
}

const NO_ONE_REDIS = 'the nodes of this Redis are reached by the addresses that they announce, past every link'

/** Of topologies with another Redis: what is done to the one server and to its links. */
export const WITHOUT_ONE_REDIS: Topology['without'] = {
  'redis-flush': NO_ONE_REDIS,
  'redis-kill': NO_ONE_REDIS,
  'redis-read-only': NO_ONE_REDIS,
  'redis-out-of-memory': NO_ONE_REDIS,
  'redis-evict': NO_ONE_REDIS,
  'redis-stall': NO_ONE_REDIS,
  'redis-link-delay': NO_ONE_REDIS,
  'redis-link-cut': NO_ONE_REDIS,
  'redis-link-half-close': NO_ONE_REDIS,
  'redis-link-black-hole': NO_ONE_REDIS
}
