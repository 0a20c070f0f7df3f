/**
 * A real Prometheus reads two gateways. With an ordinary load no alert fires. Each alert fires in the fault that it is for. And each query
 * of the dashboards has data. Grafana itself is not run.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../harness/needs.ts'
import type { Prometheus } from '../harness/prometheus.ts'
import { boards, labelQuery, withVariables } from './boards.ts'
import type { BoardFile } from './boards.ts'
import { FAULTS } from './faults.ts'
import { Load } from './load.ts'
import { AlertWatch } from './watch.ts'
import { startWorld } from './world.ts'
import type { World } from './world.ts'

/** Two windows and more of the shortened rules. */
const HEALTHY_MS = 30_000
/**
 * They have a `for` because one late scrape, one slow claim or one command that Redis answers late is not an outage. On a busy machine such
 * a moment makes them pending here too.
 */
const MAY_BE_PENDING = new Set(['OncewayGatewayDown', 'OncewaySlowClaims', 'OncewayStoreDown'])

describe('two gateways that Prometheus reads', needs('own postgres', 'own redis', 'prometheus', 'openssl'), () => {
  const ends: Array<() => Promise<void> | void> = []
  const t = { after: (end: () => Promise<void> | void): void => { ends.push(end) } }
  let world: World
  let load: Load
  let watch: AlertWatch
  before(async () => {
    world = await startWorld(t)
    watch = new AlertWatch(world.prometheus)
    t.after(() => watch.stop())
    load = new Load(world)
    t.after(() => load.stop())
  })
  after(async () => { for (const end of ends.toReversed()) await end() })

  test('with an ordinary load no alert fires', async () => {
    await sleep(HEALTHY_MS)
    const raised = (await world.prometheus.range('ALERTS')).map(({ labels }) => labels)
    const alarms = raised.filter(({ alertname = '', alertstate }) => alertstate === 'firing' || !MAY_BE_PENDING.has(alertname))
    assert.deepEqual(alarms, [])
    assert.deepEqual(load.failures, [])
    assert.ok(load.requests > 100, `${load.requests} requests`)
  })

  for (const group of FAULTS) {
    test(`alerts fire: ${group.map(({ name }) => name).join('; ')}`, async () => {
      const expected = group.flatMap(({ alerts }) => alerts.map(([name, labels]) => [name, labels(world)] as const))
      // What an earlier fault has caused is no proof.
      await Promise.all(expected.map(async ([name, labels]) => watch.isQuiet(name, labels)))
      const sinceMs = performance.now()
      const begun = await Promise.allSettled(group.map(async ({ provoke }) => provoke({ ...world, watch, t })))
      try {
        assert.deepEqual(begun.filter(({ status }) => status === 'rejected'), [])
        await Promise.all(expected.map(async ([name, labels]) => watch.fires(name, labels, sinceMs)))
      } finally {
        // The last one first: a file that one of them has spoilt is whole again for those before it.
        for (const each of begun.toReversed()) if (each.status === 'fulfilled') await each.value()
      }
    })
  }

  test('every variable and every query of the dashboards has data', async () => {
    const empty: string[] = []
    for (const board of boards()) {
      const found = await valuesOf(world.prometheus, board)
      empty.push(...board.variables.filter(({ name }) => found.get(name)?.length === 0).map(({ query }) => `${board.name}: ${query}`))
      for (const { panel, expr } of board.queries) {
        for (const values of chosen(board, found)) {
          const series = await world.prometheus.range(withVariables(expr, values))
          if (series.every((each) => each.values.length === 0)) empty.push(`${board.name}: ${panel} ${JSON.stringify(values)}: ${expr}`)
        }
      }
    }
    assert.deepEqual(empty, [])
  })
})

/** By variable. Routes with an inbox execute nothing, and have a dashboard of their own. */
async function valuesOf (prometheus: Prometheus, { variables }: BoardFile): Promise<ReadonlyMap<string, readonly string[]>> {
  const inboxes = await prometheus.labelValues('route', 'onceway_inbox_bytes')
  return new Map(await Promise.all(variables.map(async (variable) => {
    const { label, selector } = labelQuery(variable)
    const values = await prometheus.labelValues(label, withVariables(selector, {}))
    return [variable.name, variable.many ? values : values.filter((value) => !inboxes.includes(value))] as const
  })))
}

/** All of what may be chosen together, and one after another what may not. */
function chosen ({ variables }: BoardFile, found: ReadonlyMap<string, readonly string[]>): Array<Readonly<Record<string, string>>> {
  const single = variables.find(({ many }) => !many)
  return single === undefined ? [{}] : (found.get(single.name) ?? []).map((value) => ({ [single.name]: value }))
}
