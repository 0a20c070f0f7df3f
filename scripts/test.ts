/**
 * `npm test`: the heaviest files under test/ one after another, then the small ones in one process (together.ts) and every other one in a
 * process of its own, the longest ones first, so that none of them is left for the end alone. `npm test -- FILE…` runs some, each by
 * itself. What a file prints and how it ends is the test runner's own.
 */
import { existsSync, globSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { finished } from 'node:stream/promises'
import { filesTogether } from './together.ts'

/**
 * These have several gateways, their stores and a load each, and judge by the time what they see: with as little as one other file beside
 * it, an upgrade took 242 s (alone 60 to 150 s), and a run of chaos came to 524 keys in place of 2,280.
 */
const ALONE = ['upgrade/upgrade', 'chaos/run', 'doors/doors', 'e2e/connections', 'chaos/broken', 'chaos/topologies/redis', 'clients/matrix/matrix'].map(fileOf)
/** Others wait for leases, time-outs and faults, and keep a core busy in between. */
const FILES_PER_CORE = 1
/** What takes longest alone comes first: those that wait through the product's own times, then those that keep a core busy. */
const LONGEST = [
  'e2e/clock-step', 'identity/pairs', 'identity/broken', 'upgrade/spoiled', 'clients/matrix/outages', 'e2e/settle-outage', 'broken/rows', 'e2e/bench-growth', 'package/package', 'soak/soak', 'soak/outage',
  'clients/matrix/without', 'e2e/workers-crash', 'e2e/upstream-faults', 'e2e/workers', 'e2e/rolling-restart', 'e2e/replication',
  'e2e/reload', 'model/model', 'examples/exactly-once', 'examples/rabbitmq', 'examples/fan-out', 'examples/outbox', 'examples/nats',
  'e2e/pgbouncer', 'e2e/two-processes', 'e2e/stores-lost', 'e2e/lifecycle', 'e2e/drop', 'e2e/bench-smoke', 'e2e/reload-under-load',
  'chaos/topologies/pgbouncer', 'chaos/topologies/replica', 'simulation/simulation', 'simulation/broken', 'store/redis-cluster',
  'store/postgres', 'store/postgres-lines', 'store/postgres-durable', 'store/postgres-sharded', 'store/redis-sentinel', 'cli/serve', 'cli/listening', 'cli/toy', 'cli/stopping', 'package/image', 'crash/memory', 'cli/epoch-postgres', 'clients/browsers'
].map(fileOf)

const chosen = process.argv.slice(2)
const elsewhere = new Set([...ALONE, ...LONGEST, ...filesTogether()])
const others = (): string[] => [...LONGEST, 'scripts/together.ts', ...globSync('test/**/*.test.ts').toSorted().filter(file => !elsewhere.has(file))]
const beside = FILES_PER_CORE * availableParallelism()
const rounds = chosen.length > 0 ? [{ files: chosen, concurrency: beside }] : [{ files: ALONE, concurrency: 1 }, { files: others(), concurrency: beside }]
const missing = rounds.flatMap(({ files }) => files).filter(file => !existsSync(file))
if (missing.length > 0) throw new Error(`there is no ${missing.join(', ')}: scripts/test.ts names files that have moved`)

for (const round of rounds) {
  const results = run(round)
  results.on('test:fail', ({ todo }) => { if (todo === undefined || todo === false) process.exitCode = 1 })
  const told = results.compose(spec)
  told.pipe(process.stdout, { end: false })
  await finished(told)
}

function fileOf (name: string): string {
  return `test/${name}.test.ts`
}
