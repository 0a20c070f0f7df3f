/** Every counter of the page is there from the start, at 0, for each value of its closed sets: an alert sees the first increase. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { createMetrics, createPrimaryMetrics, createWorkerMetrics, declaredMetrics } from '../../src/telemetry/metrics.ts'
import type { Series } from '../../src/telemetry/aggregate.ts'
import type { Meter } from '../../src/ports/telemetry.ts'
import { DROP_OUTCOMES, INBOX_OUTCOMES, OPERATIONS, OUTCOMES } from '../../src/telemetry/zeros.ts'

const page = readFileSync(new URL('../../docs/reference/metrics.md', import.meta.url), 'utf8')
/** Of primaries. Everything else is of gateways and workers. */
const OF_PRIMARY = ['onceway_workers_ended_total']

/** As a start does it, with a route in each mode. */
function start (meter: Meter): void {
  const routes = ['charges', 'events', 'hooks'].map((name) => ({ name, methods: ['POST'] }))
  meter.serves([...routes, { name: '/*', methods: [] }])
  meter.guarded([
    { name: 'charges', probes: true },
    { name: 'events', drops: true, presets: ['sns'] },
    { name: 'hooks', delivers: true, verifies: true }
  ])
  for (const store of Object.keys(OPERATIONS)) meter.reaches(store, () => true)
  for (const listener of ['listen', 'admin'] as const) meter.certificate(listener, 0)
}

/** The closed sets of the page: the values of a label, for some metrics. */
function closedSets (): Array<{ readonly metric: string, readonly label: string, readonly values: readonly string[] }> {
  const tables = page.matchAll(/^Values of `(\w+)` in (.+):\n\n\|.*\n\|.*\n((?:\|.*\n)+)/gm)
  return Array.from(tables, ([, label = '', metrics = '', rows = '']) => {
    const values = Array.from(rows.matchAll(/^\| `([^`]+)`/gm), ([, value = '']) => value)
    return Array.from(metrics.matchAll(/`(\w+)`/g), ([, metric = '']) => ({ metric, label, values }))
  }).flat()
}

/** What begins with its first count, and why no alert misses that. */
function beginAt0 (label: string, values: readonly string[]): readonly string[] {
  // The page says which of them begin at 0. The others are answers to clients, and most of them are codes of problems.
  if (label === 'outcome') return [...OUTCOMES, ...INBOX_OUTCOMES, ...DROP_OUTCOMES]
  if (label === 'operation') return Object.values(OPERATIONS).flat()
  return values
}

function counters (series: Series): Series {
  return series.filter(({ type }) => type === 'counter')
}

test('the page has the closed sets of the counters', () => {
  const sets = closedSets()
  assert.ok(sets.length > 15)
  for (const { metric, label, values } of sets) assert.ok(values.length > 0, `${metric} ${label}`)
})

test('each counter is there at 0, for each value of its closed sets, in a gateway and in a worker', async () => {
  const gateway = createMetrics({ processMetrics: false })
  const worker = createWorkerMetrics(1)
  for (const meter of [gateway, worker]) start(meter)
  const { ours } = await createPrimaryMetrics().snapshot()
  for (const [where, series] of [['gateway', await gateway.series()], ['worker', [...ours, ...(await worker.snapshot()).ours]]] as const) {
    const there = new Map(counters(series).map(({ name, values }) => [name, values]))
    const declared = declaredMetrics().filter(({ name, type }) => type === 'counter' && (where === 'worker' || !OF_PRIMARY.includes(name)))
    for (const { name } of declared) {
      const values = there.get(name) ?? []
      assert.ok(values.length > 0, `${where}: ${name} has no series`)
      assert.deepEqual(values.filter(({ value }) => value !== 0), [], name)
    }
    for (const { metric, label, values } of closedSets().filter(({ metric: name }) => there.has(name))) {
      const have = new Set(there.get(metric)?.map(({ labels }) => String(labels[label])))
      assert.deepEqual(beginAt0(label, values).filter((value) => !have.has(value)), [], `${where}: ${metric}{${label}}`)
    }
  }
})

test('the gauges and histograms that alerts need are there before anything happens', async () => {
  const gateway = createMetrics({ processMetrics: false })
  start(gateway)
  gateway.reaches('postgres', () => false, () => 1_500)
  gateway.pools('guarded', () => [{ upstream: 'api', max: 9, taken: 3, waiting: 2, connections: 4 }])
  gateway.pools('passed', () => [{ upstream: 'api', max: 8, taken: 0, waiting: 0, connections: 1 }])
  gateway.storeConnections('postgres', () => [{ purpose: 'claims', used: 2, idle: 1, waiting: 7 }])
  const { text } = await gateway.expose()
  for (const line of [
    'onceway_store_contact_age_seconds{store="postgres"} 1.5',
    'onceway_upstream_slots_taken{upstream="api",traffic="guarded"} 3',
    'onceway_upstream_slots_waiting{upstream="api",traffic="guarded"} 2',
    'onceway_upstream_slots_max{upstream="api",traffic="passed"} 8',
    'onceway_upstream_connections{upstream="api",traffic="guarded"} 4',
    'onceway_store_connections{store="postgres",purpose="claims",state="used"} 2',
    'onceway_store_connections{store="postgres",purpose="claims",state="idle"} 1',
    'onceway_store_queue{store="postgres",purpose="claims"} 7',
    'onceway_claim_duration_seconds_count 0',
    'onceway_unsettled_bytes 0',
    'onceway_indeterminate_oldest_seconds 0',
    'onceway_inbox_oldest_seconds{route="hooks"} 0',
    'onceway_inbox_messages{route="hooks",state="dead"} 0',
    'onceway_clock_ahead_seconds 0'
  ]) assert.ok(text.includes(`${line}\n`), `${line}\n\n${text}`)
  assert.match(text, /^onceway_heap_limit_bytes [1-9]/m)
})

test('an upstream that a reload takes away leaves no series behind', async () => {
  const gateway = createMetrics({ processMetrics: false })
  let name = 'one'
  gateway.pools('guarded', () => [{ upstream: name, max: 1, taken: 0, waiting: 0, connections: 0 }])
  assert.match((await gateway.expose()).text, /slots_max\{upstream="one"/)
  name = 'two'
  const { text } = await gateway.expose()
  assert.match(text, /slots_max\{upstream="two"/)
  assert.doesNotMatch(text, /upstream="one"/)
})
