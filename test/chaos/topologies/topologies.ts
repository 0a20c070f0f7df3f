/** `--topology NAME`: all topologies of stores. */
import { FAULT_KINDS } from '../faults.ts'
import type { FaultKind } from '../faults.ts'
import { startStores } from '../stores.ts'
import { CLUSTER } from './cluster.ts'
import { PATRONI } from './patroni.ts'
import { PGBOUNCER } from './pgbouncer.ts'
import { REPLICA } from './replica.ts'
import { SENTINEL } from './sentinel.ts'
import type { Topology } from './topology.ts'

/** One server of each. */
const PLAIN: Topology = {
  what: 'one Postgres (its directory in memory, fsync on) and one Redis',
  own: [],
  without: {},
  start: async (fillsDisk) => startStores(fillsDisk)
}

export const TOPOLOGIES = {
  plain: PLAIN,
  sentinel: SENTINEL,
  cluster: CLUSTER,
  pgbouncer: PGBOUNCER,
  replica: REPLICA,
  patroni: PATRONI
} as const satisfies Readonly<Record<string, Topology>>

export type TopologyName = keyof typeof TOPOLOGIES

export function isTopology (name: string): name is TopologyName {
  return Object.hasOwn(TOPOLOGIES, name)
}

/** The faults that are not dealt: those of other topologies, and those that this one cannot have. */
export function absentFrom (name: TopologyName): Set<FaultKind> {
  const { own, without }: Topology = TOPOLOGIES[name]
  const special = Object.values(TOPOLOGIES).flatMap((topology: Topology) => topology.own)
  return new Set(FAULT_KINDS.filter((kind) => without[kind] !== undefined || (special.includes(kind) && !own.includes(kind))))
}
