/** Forty seconds of all faults on real processes: a small `npm run chaos` with a fixed seed. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { needs } from '../harness/needs.ts'
import { FAULTS } from './faults.ts'
import { printed } from './report.ts'
import { runChaos } from './run.ts'
import { absentFrom } from './topologies/topologies.ts'

const SEED = 2
/** Enough to deal most kinds of faults once. */
const SECONDS = 40
/** The switch from the first rules comes early, while a killed gateway restarts. Some gateways accept from then on. */
const DIFFERING_SEED = 8
/** One deck. */
const DIFFERING_SECONDS = 13
/** Of some forty. A slow machine may not reach all dealt faults. */
const KINDS_LEAST = 28
const ABSENT: ReadonlySet<string> = absentFrom('plain')
const ROOMS: ReadonlySet<string> = new Set(
  Object.entries(FAULTS).filter(([kind, { cards }]) => cards > 0 && !ABSENT.has(kind)).map(([, { room }]) => room)
)
/** All kinds of answers to a client. */
const TOLD = ['duplicate', 'given', 'in-flight', 'mismatch', 'replayed', 'stored', 'tombstone', 'unknown', 'unsent']

describe('under faults of every kind', needs('own postgres', 'own redis'), () => {
  test('no fault makes it lie, and nobody is left without an answer', { timeout: 300_000 }, async (t) => {
    const result = await runChaos({ seed: SEED, seconds: SECONDS, gateways: 2 })
    t.diagnostic(printed({ ...result, violations: [] }))
    assert.equal(result.violations.length, 0, printed(result))
    const kinds = Object.keys(result.faults) as Array<keyof typeof FAULTS>
    assert.ok(kinds.length >= KINDS_LEAST, `${kinds.length} kinds of faults: ${kinds.join(', ')}`)
    assert.deepEqual(new Set(kinds.map((kind) => FAULTS[kind].room)), ROOMS, 'every part was hit')
    assert.deepEqual(Object.keys(result.told), TOLD)
    assert.ok((result.probed.completed ?? 0) > 0, 'the upstream was asked, and knew')
    assert.ok(result.executions > 0 && result.keys > 0 && result.requests > result.keys)
  })

  test(
    'nor where gateways have different configurations, which change under requests, another scheme of ids begins to claim, and Redis comes back as it once was',
    { timeout: 200_000 },
    async (t) => {
      const cards = {
        'gateway-reload': 5,
        'gateway-term': 1,
        'gateway-kill': 1,
        'ids-upgrade': 1,
        'redis-snapshot': 1,
        'upstream-page': 2,
        'gateway-freeze-long': 1,
        'postgres-link-black-hole': 1
      }
      const result = await runChaos({ seed: DIFFERING_SEED, seconds: DIFFERING_SECONDS, gateways: 2, differ: true, emphasis: { cards } })
      t.diagnostic(printed({ ...result, violations: [] }))
      assert.equal(result.violations.length, 0, printed(result))
      assert.ok(
        (result.faults['gateway-reload'] ?? 0) > 0 && (result.faults['redis-snapshot'] ?? 0) > 0,
        Object.keys(result.faults).join(', ')
      )
      assert.equal(Object.values(result.schemes).filter((records) => records > 0).length, 2, 'records of both schemes')
      assert.ok((result.told.accepted ?? 0) > 0 && (result.told.stored ?? 0) > 0, 'the same route accepts and executes')
    }
  )
})
