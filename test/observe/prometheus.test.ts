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
    const { prometheus } = world
    const inboxes = await prometheus.labelValues('route', 'onceway_inbox_bytes')
    const empty: string[] = []
    for (const board of boards()) {
      const all = await valuesOf(prometheus, board)
      for (const values of choices(board, all, inboxes)) {
        for (const { panel, expr } of board.queries) {
          const asked = withVariables(expr, values)
          const series = await prometheus.range(asked)
          if (series.every((each) => each.values.length === 0)) empty.push(`${board.name}: ${panel}: ${asked}`)
        }
      }
    }
    assert.deepEqual(empty, [])
  })
})

/** By variable, in their order: the query of one may name those before it. */
async function valuesOf (prometheus: Prometheus, { name, variables }: BoardFile): Promise<Map<string, string[]>> {
  const found = new Map<string, string[]>()
  for (const variable of variables) {
    const { label, selector } = labelQuery(variable)
    const values = await prometheus.labelValues(label, withVariables(selector, found))
    assert.ok(values.length > 0, `${name}: ${variable.query}`)
    found.set(variable.name, values)
  }
  return found
}

/** What may be chosen together, and what may not, one after another. A route with an inbox executes nothing: it has its own dashboard. */
function choices (
  { variables }: BoardFile,
  all: ReadonlyMap<string, readonly string[]>,
  inboxes: readonly string[]
): Array<ReadonlyMap<string, readonly string[]>> {
  const single = variables.find(({ many }) => !many)
  if (single === undefined) return [all]
  const values = (all.get(single.name) ?? []).filter((value) => !inboxes.includes(value))
  return values.map((value) => new Map([...all, [single.name, [value]]]))
}
