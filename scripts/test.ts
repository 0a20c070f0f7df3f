/**
 * `npm test`: the small files under test/ in one process (together.ts), every other one in a process of its own, the longest
 * ones first, so that none of them is left for the end alone. `npm test -- FILE…` runs some, each by itself. What a file
 * prints and how it ends is the test runner's own.
 */
import { existsSync, globSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { filesTogether } from './together.ts'

/**
 * A file has a gateway or several, their stores and its load beside itself. With two files to a core the peers of test/doors took 129 s and
 * missed their own limits, and an upgrade 242 s; alone they take 27 s and 60 s.
 */
const FILES_PER_CORE = 1
/** What takes longest alone comes first: those that wait through the product's own times, then those that keep a core busy. */
const LONGEST = [
  'e2e/connections', 'doors/doors', 'e2e/clock-step', 'upgrade/upgrade', 'chaos/run', 'identity/pairs', 'identity/broken', 'upgrade/spoiled', 'clients/matrix/matrix', 'clients/matrix/outages', 'e2e/settle-outage', 'broken/rows', 'chaos/broken', 'e2e/bench-growth', 'package/package', 'soak/soak', 'soak/outage',
  'chaos/topologies/redis', 'clients/matrix/without', 'e2e/workers-crash', 'e2e/upstream-faults', 'e2e/workers', 'e2e/rolling-restart', 'e2e/replication',
  'e2e/reload', 'model/model', 'examples/exactly-once', 'examples/rabbitmq', 'examples/fan-out', 'examples/outbox', 'examples/nats',
  'e2e/pgbouncer', 'e2e/two-processes', 'e2e/stores-lost', 'e2e/lifecycle', 'e2e/drop', 'e2e/bench-smoke', 'e2e/reload-under-load',
  'chaos/topologies/pgbouncer', 'chaos/topologies/replica', 'simulation/simulation', 'simulation/broken', 'store/redis-cluster',
  'store/postgres', 'store/postgres-lines', 'store/postgres-durable', 'store/postgres-sharded', 'store/redis-sentinel', 'cli/serve', 'cli/listening', 'cli/toy', 'cli/stopping', 'package/image', 'crash/memory', 'cli/epoch-postgres', 'clients/browsers'
].map(name => `test/${name}.test.ts`)

const chosen = process.argv.slice(2)
const elsewhere = new Set([...LONGEST, ...filesTogether()])
const files = chosen.length > 0 ? chosen : [...LONGEST, 'scripts/together.ts', ...globSync('test/**/*.test.ts').toSorted().filter(file => !elsewhere.has(file))]
const missing = files.filter(file => !existsSync(file))
if (missing.length > 0) throw new Error(`there is no ${missing.join(', ')}: scripts/test.ts names files that have moved`)

const results = run({ files, concurrency: FILES_PER_CORE * availableParallelism() })
results.on('test:fail', ({ todo }) => { if (todo === undefined || todo === false) process.exitCode = 1 })
results.compose(spec).pipe(process.stdout)
