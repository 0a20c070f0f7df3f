import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { metricsPage } from '../../scripts/metrics.ts'
import { createMetrics, declaredMetrics } from '../../src/telemetry/metrics.ts'
import { ALERTS, selectorsOf } from './rules.ts'

const read = (name: string): string => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8')
const page = read('docs/reference/metrics.md')

test('docs/reference/metrics.md has the metrics of the sources; else run npm run generate', () => {
  assert.equal(page, metricsPage())
})

test('a metric that scripts/metrics.ts does not know is an error, and so is a row without a metric', () => {
  const [first, ...rest] = declaredMetrics()
  assert.ok(first !== undefined)
  assert.throws(
    () => metricsPage([...rest, first, { ...first, name: 'onceway_new_total' }]),
    /does not say what to do about onceway_new_total, and has one too many: none/
  )
  assert.throws(() => metricsPage(rest), new RegExp(`does not say what to do about none, and has one too many: ${first.name}`))
})

test('what is declared is what a gateway exposes, and the metrics of its primary', async () => {
  const { text } = await createMetrics({ processMetrics: false }).expose()
  const exposed = Array.from(text.matchAll(/^# TYPE (\S+) (\S+)$/gm), ([, name = '', type = '']) => `${name} ${type}`)
  const declared = declaredMetrics().filter(({ name }) => !name.startsWith('onceway_workers')).map(({ name, type }) => `${name} ${type}`)
  assert.deepEqual(declared.sort(), exposed.sort())
})

test('the page names no metric that is not declared', () => {
  const names = new Set(declaredMetrics().map(({ name }) => name))
  const named = new Set(Array.from(page.matchAll(/onceway_\w+/g), ([name]) => name.replace(/_(?:bucket|sum|count)$/, '')))
  assert.deepEqual([...named].filter((name) => !names.has(name)), [])
})

test('the row of a metric that an alert reads links to that alert', () => {
  assert.ok(ALERTS.length > 15)
  const read = ALERTS.flatMap(({ alert, expr }) => selectorsOf(expr).map(({ name }) => ({ alert, name: name.replace(/_bucket$/, '') })))
  const ours = read.filter(({ name }) => name.startsWith('onceway_'))
  const unlinked = ours
    .filter(({ alert, name }) => !page.split('\n').some((line) => line.startsWith(`| \`${name}\` |`) && line.includes(`[${alert}](`)))
  assert.deepEqual(unlinked, [])
})
