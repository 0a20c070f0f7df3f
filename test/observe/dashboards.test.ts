/** The dashboards of deploy/grafana, as files. test/observe/prometheus.test.ts asks their queries of a Prometheus. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { dashboardTexts } from '../../scripts/dashboards.ts'
import { declaredMetrics } from '../../src/telemetry/metrics.ts'
import { boards } from './boards.ts'
import { FAULTS } from './faults.ts'
import { rulesIn, rulesText, shortened } from './rules.ts'

const BOARDS = boards()
const COLUMNS = 24
/** Those of prom-client and of Prometheus itself that dashboards read. */
const OF_OTHERS = ['nodejs_eventloop_lag_p99_seconds', 'nodejs_heap_size_used_bytes', 'process_cpu_seconds_total', 'up', 'ALERTS']

test('deploy/grafana has what scripts/dashboard-rows.ts says; else run npm run generate', () => {
  assert.deepEqual(Object.fromEntries(BOARDS.map(({ name, text }) => [name, text])), Object.fromEntries(dashboardTexts()))
})

test('ids of panels are unique, panels fit beside each other, and each has a description, a unit and queries', () => {
  for (const { name, panels } of BOARDS) {
    assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length)
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, at) => `${x + at % w} ${y + Math.floor(at / w)}`))
    assert.equal(new Set(cells).size, cells.length, `${name}: no two panels on one place`)
    assert.ok(panels.every(({ gridPos: { x, w } }) => Number.isInteger(w) && x + w <= COLUMNS))
    for (const { type, title, description = '', targets = [], fieldConfig } of panels.filter(({ type }) => type !== 'row')) {
      assert.ok(description.endsWith('.') && targets.length > 0 && fieldConfig?.defaults.unit !== undefined, `${name}: ${type} ${title}`)
    }
  }
})

test('queries read metrics that are declared, of the gateways that are chosen, and add no gauges that describe one store', () => {
  const metrics = new Map(declaredMetrics().map((metric) => [metric.name, metric]))
  for (const { name, queries } of BOARDS) {
    for (const { expr } of queries) {
      const named = Array.from(expr.matchAll(/\b(\w+)\{([^}]*)\}/g), ([, metric = '', labels = '']) => ({ metric, labels }))
      assert.ok(named.length > 0, expr)
      for (const { metric, labels } of named) {
        const declared = metrics.get(metric.replace(/_(?:bucket|sum|count)$/, '')) ?? metrics.get(metric)
        assert.ok(declared !== undefined || OF_OTHERS.includes(metric), `${name}: ${metric}`)
        if (metric !== 'ALERTS') assert.ok(labels.startsWith('job=~"$job", instance=~"$instance"'), `${name}: ${expr}`)
        const { type, aggregator = 'sum' } = declared ?? {}
        if (type === 'counter' || type === 'histogram') assert.match(expr, /\b(?:rate|increase)\(/)
        // Each of them is a report about the same thing.
        if (aggregator !== 'sum') assert.match(expr, new RegExp(`\\b${aggregator}(?: by \\([\\w, ]*\\) )?\\(${metric}\\{`))
      }
    }
  }
})

test('each alert has a fault that makes it fire, and no fault names another', () => {
  const inFaults = FAULTS.flat().flatMap(({ alerts }) => alerts).map(([name]) => name)
  const inRules = rulesIn(rulesText()).flatMap(({ alert }) => alert ?? [])
  assert.deepEqual([...new Set(inFaults)].toSorted(), inRules.toSorted())
})

test('the rules can be shortened, and stay as many', () => {
  assert.equal(rulesIn(shortened(rulesText())).length, rulesIn(rulesText()).length)
})

test('a panel that names an alert links to it', () => {
  const page = readFileSync(new URL('../../docs/guides/alerts.md', import.meta.url), 'utf8')
  const sections = Array.from(page.matchAll(/^#+ (Onceway\w+)$/gm), ([, title = '']) => title.toLowerCase())
  for (const { text } of BOARDS) {
    const links = Array.from(text.matchAll(/\$runbooks#(\w+)/g), ([, anchor = '']) => anchor)
    assert.ok(links.length > 0)
    assert.deepEqual(links.filter((anchor) => !sections.includes(anchor)), [])
  }
})
