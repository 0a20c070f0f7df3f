/** The types of a topology: stores other than one server of each. topologies.ts has the names. */
import type { Habits } from '../customers.ts'
import type { FaultKind } from '../faults.ts'
import type { ChaosStores } from '../stores.ts'
import type { ChaosNetwork } from '../world.ts'

export interface Topology {
  /** For a report. */
  readonly what: string
  readonly start: (fillsDisk: boolean, network: ChaosNetwork['ask']) => Promise<ChaosStores>
  /** Further programs, for a report. */
  readonly versions?: () => readonly string[]
  /** Where the usual load is too much for one machine. */
  readonly habits?: Partial<Habits>
  /** Kinds of faults that only this topology has. `ChaosStores.own` does them. */
  readonly own: readonly FaultKind[]
  /** Kinds of faults that this topology cannot have, and why. */
  readonly without: Readonly<Partial<Record<FaultKind, string>>>
}

const NO_ONE_REDIS = 'the nodes of this Redis are reached by the addresses that they announce, past every link'

/** For topologies with another Redis: faults of the single server and of its links. */
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
