/** A failover and a switchover of deploy/ha under load. `npm run chaos -- --topology patroni` brings all its faults. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { needs } from '../../harness/needs.ts'
import type { PlannedFault } from '../plan.ts'
import { printed } from '../report.ts'
import { runChaos } from '../run.ts'

const ROOM = { gateway: 0, room: 'postgres', force: 0.5 }
/** The killed Postgres is not waited for: a standby is promoted within seconds, whatever the ttl. */
const PLAN: readonly PlannedFault[] = [
  { ...ROOM, kind: 'patroni-postgres-kill', atMs: 2_000, forMs: 3_000 },
  { ...ROOM, kind: 'patroni-switchover', atMs: 2_100, forMs: 0 }
]

describe('under faults, topology patroni', needs('postgres tools', 'own redis', 'patroni', 'etcd', 'haproxy', 'pgbouncer'), () => {
  test('no failover makes it execute twice, nor tell an untrue promise', { timeout: 230_000 }, async (t) => {
    const result = await runChaos({ seed: 1, seconds: 4, gateways: 2, topology: 'patroni', emphasis: { plan: PLAN } })
    t.diagnostic(printed({ ...result, violations: [] }))
    assert.equal(result.violations.length, 0, printed(result))
    assert.deepEqual(Object.keys(result.faults), ['patroni-postgres-kill', 'patroni-switchover'])
    assert.ok(result.executions > 0 && result.outages.every(({ withoutMs }) => withoutMs > 0))
  })
})
