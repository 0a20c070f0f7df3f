/**
 * Which test file runs in which command. `npm run test:long` runs the files of {@link LONG}. `npm test` runs all others: they show
 * most mistakes, in about ten minutes on two cores. test/tiers.test.ts holds that each file belongs to one of the two.
 */
import { existsSync, globSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { filesTogether } from './together.ts'

export type Tier = 'short' | 'long'

/** Files that run beside each other, the first ones first. `alone`: one after another. */
export interface Round { readonly files: readonly string[], readonly alone: boolean }

interface Group {
  readonly why: string
  /** Patterns below test/, without the ending. Those that take longest come first. */
  readonly patterns: readonly string[]
  readonly alone?: true
}

export const LONG: readonly Group[] = [
  {
    // With one other file beside it, an upgrade took 242 s (alone 60 to 150 s), and a run of chaos sent 524 keys (alone 2,280).
    why: 'several gateways, their stores and a load, judged by time: one after another',
    alone: true,
    patterns: [
      'upgrade/upgrade', 'chaos/run', 'doors/doors', 'e2e/connections', 'chaos/broken', 'chaos/topologies/redis',
      'clients/matrix/matrix', 'observe/prometheus'
    ]
  },
  {
    why: 'all of something: pairs of requests, breaks, places to crash, searches of the model',
    patterns: ['identity/{pairs,broken}', 'broken/{rows,types}', 'model/model', 'crash/{acceptances,broken,sqlite}', 'simulation/broken']
  },
  {
    // Clusters wait for most of their time: for a lease of a leader, a copy of a standby, a drain.
    why: 'whole processes under faults, upgrades and load',
    patterns: [
      'chaos/topologies/patroni', 'ha/ha', 'cells/split',
      'e2e/operators-at-scale', 'e2e/{tls,clock-step,settle-outage,workers-crash,rolling-restart,replication,stores-away,stores-lost,workers,reload}',
      'upgrade/spoiled', 'soak/{soak,outage}', 'chaos/inbox/run', 'chaos/topologies/{pgbouncer,replica}',
      'e2e/{copied-databases,standing,rights,drop,poison,pgbouncer,secrets,prometheus,rotated-login,load-balancer}',
      'e2e/{bench-smoke,bench-growth,cardinality,traces}', 'cli/listening'
    ]
  },
  {
    why: 'clusters, shards and proxies of stores',
    patterns: ['store/redis/{relatives,cluster,sentinel,tls}', 'store/postgres/{sharded,durable,lines,pgbouncer}']
  },
  {
    why: 'what others make: brokers, clients, browsers, npm and images',
    patterns: [
      'package/{package,image,systemd,kubernetes/*}', 'clients/matrix/{outages,without}', 'clients/{browsers,console*}',
      'examples/{exactly-once,rabbitmq,fan-out,outbox,nats}'
    ]
  }
]

/** What takes longest in `npm test`, so that none of it is left for the end alone. */
const FIRST = [
  'simulation/simulation', 'store/postgres/records', 'store/sqlite/records', 'cli/serve', 'e2e/two-processes', 'e2e/lifecycle'
].map(fileOf)

const TOGETHER = 'scripts/together.ts'
const ROOT = fileURLToPath(new URL('../', import.meta.url))

export function roundsOf (tier: Tier): Round[] {
  const rounds = tier === 'short'
    ? [{ files: shortFiles(), alone: false }]
    : [{ files: longFiles(true), alone: true }, { files: longFiles(false), alone: false }]
  const missing = rounds.flatMap(({ files }) => files).filter((file) => !existsSync(`${ROOT}${file}`))
  if (missing.length > 0) throw new Error(`there is no ${missing.join(', ')}: scripts/tiers.ts names files that have moved`)
  return rounds
}

/** What a pattern of {@link LONG} names. */
export function filesOf (pattern: string): string[] {
  return globSync(fileOf(pattern), { cwd: ROOT }).toSorted()
}

function longFiles (alone: boolean): string[] {
  return LONG.filter((group) => (group.alone ?? false) === alone).flatMap(({ patterns }) => patterns.flatMap(filesOf))
}

function shortFiles (): string[] {
  const elsewhere = new Set([...FIRST, ...filesTogether(), ...longFiles(true), ...longFiles(false)])
  const others = globSync(fileOf('**/*'), { cwd: ROOT }).toSorted().filter((file) => !elsewhere.has(file))
  return [TOGETHER, ...FIRST, ...others]
}

function fileOf (pattern: string): string {
  return `test/${pattern}.test.ts`
}
