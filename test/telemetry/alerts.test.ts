/**
 * The alerts of deploy/prometheus: each fires and is quiet in alerts.test.yml, and a rule that is broken on purpose is noticed there. Each
 * has a runbook in docs/guides/alerts.md.
 */
import assert from 'node:assert/strict'
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'
import { SECTIONS } from '../../src/http/console/sections.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { directory, fileIn, say } from '../cli/world.ts'
import { needs } from '../harness/needs.ts'
import { ALERTS, promtool, RECORDS, RULES, selectorsOf } from './rules.ts'
import type { AlertRule, RecordRule } from './rules.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const CASES = join(dirname(RULES), 'alerts.test.yml')
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')
const WRONG_USAGE = 2
const guide = read('docs/guides/alerts.md')

interface Case {
  readonly name: string
  readonly input_series: ReadonlyArray<{ readonly series: string }>
  readonly alert_rule_test: ReadonlyArray<{ readonly alertname: string, readonly exp_alerts: readonly unknown[] }>
}

interface Cases { readonly evaluation_interval: string, readonly tests: readonly Case[] }

const cases = parse(readFileSync(CASES, 'utf8')) as Cases
const casesOf = (alert: string): Case[] => cases.tests.filter((each) => each.alert_rule_test.some(({ alertname }) => alertname === alert))
const fires = (each: Case): boolean => each.alert_rule_test.some(({ exp_alerts: expected }) => expected.length > 0)
const names = ALERTS.map(({ alert }) => alert)

test('each alert says how bad it is, what it is, what to do, and where its runbook is', () => {
  assert.equal(new Set(names).size, names.length)
  for (const { alert, labels, annotations } of ALERTS) {
    assert.match(labels.severity, /^(critical|warning)$/, alert)
    assert.deepEqual(Object.keys(annotations), ['summary', 'description', 'runbook_url'], alert)
    assert.equal(annotations['runbook_url'], `docs/guides/alerts.md#${alert.toLowerCase()}`)
  }
})

test('each alert has a case in which it fires, and one in which a series that it reads leaves it quiet', () => {
  assert.deepEqual(cases.tests.flatMap((each) => each.alert_rule_test).filter(({ alertname }) => !names.includes(alertname)), [])
  for (const { alert, expr } of ALERTS) {
    const those = casesOf(alert)
    assert.ok(those.some(fires), `${alert} never fires`)
    const selectors = selectorsOf(expr)
    const quiet = those.filter((each) => !fires(each)).flatMap((each) => each.input_series)
    assert.ok(quiet.some(({ series }) => selectors.some(({ matches }) => matches(series))), `${alert} is never quiet beside a series`)
  }
})

test('each metric that a rule reads is in docs/reference/metrics.md', () => {
  const page = read('docs/reference/metrics.md')
  const ours = [...ALERTS, ...RECORDS].flatMap(({ expr }) => selectorsOf(expr)).map(({ name }) => name).filter((name) => name !== 'up')
  assert.ok(ours.length > 30)
  assert.deepEqual(ours.map((name) => name.replace(/_bucket$/, '')).filter((name) => !page.includes(`\`${name}\``)), [])
})

test('each alert of an inbox asks for a series that a gateway with an inbox has', async () => {
  const metrics = createMetrics({ processMetrics: false })
  metrics.inbox([{ route: 'hooks', waiting: 1, delivering: 1, held: 1, dead: 1, bytes: 1, deadBytes: 0, oldestMs: 1 }])
  metrics.endpoints([{ route: 'hooks', failing: { forMs: 1, lastMs: 1 }, pause: { trialInMs: 1 } }])
  for (const result of ['delivered', 'again'] as const) metrics.delivery('hooks', result, 1)
  const series = (await metrics.expose()).text.split('\n').map((line) => line.replace(/ \S+$/, ''))
  const asked = ALERTS.filter(({ alert }) => alert.startsWith('OncewayInbox')).flatMap(({ expr }) => selectorsOf(expr))
  assert.ok(asked.length >= 5)
  assert.deepEqual(asked.filter(({ matches }) => !series.some(matches)), [])
})

test('each alert is in the table of docs/guides/alerts.md with its severity, and has a runbook there', () => {
  const listed = Array.from(guide.matchAll(/^\| \[(Onceway\w+)\]\(#(\w+)\) \| (\w+) \|/gm), ([, alert = '', anchor, severity]) =>
    ({ alert, anchor, severity }))
  const wanted = ALERTS.map(({ alert, labels: { severity } }) => ({ alert, anchor: alert.toLowerCase(), severity }))
  const sorted = <Row extends { readonly alert: string }>(rows: readonly Row[]): Row[] =>
    rows.toSorted((one, other) => one.alert.localeCompare(other.alert))
  assert.deepEqual(sorted(listed), sorted(wanted))
  assert.deepEqual(Array.from(guide.matchAll(/^### (Onceway\w+)$/gm), ([, alert = '']) => alert).sort(), names.toSorted())
})

test('a runbook has commands, what clients see, a page of the console that exists, and says how one knows that it is over', () => {
  const pages = new Set(SECTIONS.flatMap((section) => section.pages.map(({ path }) => path.replace(/:\w+/, 'ID'))))
  assert.ok(pages.has('/unknown'))
  for (const part of guide.split(/^### (?=Onceway)/m).slice(1)) {
    const runbook = part.split(/^## /m)[0] ?? ''
    const alert = runbook.split('\n')[0]
    assert.match(runbook, /```sh\n/, alert)
    assert.match(runbook, /^\* \*\*(Clients|Senders)\*\*/m, alert)
    assert.match(runbook, /^\* \*\*Over\b/m, alert)
    const [line = ''] = /^\* \*\*Console:\*\*.*$/m.exec(runbook) ?? []
    const paths = Array.from(line.matchAll(/`(\/[\w/]+)/g), ([, path = '']) => path)
    assert.ok(paths.length > 0, `${alert} names no page`)
    assert.deepEqual(paths.filter((path) => !pages.has(path)), [], alert)
  }
})

test('the command line knows each command of a runbook, with its options', async (t) => {
  const dataDir = directory(t)
  await (await openSqlite({ dataDir, exclusive: true })).close()
  const file = fileIn(t, 'onceway.yaml', `
version: 1
dataDir: ${dataDir}
upstreams: { api: { url: "http://127.0.0.1:9" } }
routes: [{ name: hooks, match: { path: /hooks, methods: [POST] }, upstream: api, idempotency: { mode: inbox, profile: relay, scope: public } }]
`)
  const commands = Array.from(guide.matchAll(/(?<=^|`|; )onceway (\w[^`|#\n]*onceway\.yaml[^`|#\n]*)/gm), ([, words = '']) => words.trim())
  assert.ok(commands.length > 30)
  for (const command of new Set(commands)) {
    const asked = command.replace('onceway.yaml', file).replace('ROUTE', 'hooks').replace(/\bID\b/, 'A'.repeat(43))
    const words = Array.from(asked.matchAll(/'([^']*)'|(\S+)/g), ([, quoted, word]) => quoted ?? word ?? '')
    const { exitCode, err } = await say([...words, ...words.includes('--why') ? ['--who', 'ada'] : []])
    assert.notEqual(exitCode, WRONG_USAGE, `${command}: ${err}`)
  }
})

test('a line of alerts.yml with a threshold of one\'s own is in the table of thresholds, and no other alert is', () => {
  const yours: string[] = []
  let alert = ''
  for (const line of readFileSync(RULES, 'utf8').split('\n').filter((each) => !/^ *#/.test(each))) {
    alert = /- alert: (\w+)/.exec(line)?.[1] ?? alert
    if (line.includes('# yours')) yours.push(alert)
  }
  const table = guide.split('\n## Thresholds\n')[1]?.split('\n## ')[0] ?? ''
  assert.deepEqual(Array.from(table.matchAll(/^\| `(Onceway\w+)` \|/gm), ([, name]) => name), yours)
})

test('each link to a place of docs/guides/alerts.md, in the documents and the sources, leads to a heading', () => {
  const anchors = new Set(Array.from(guide.matchAll(/^#{2,3} (.+)$/gm), ([, heading = '']) => heading.toLowerCase().replaceAll(' ', '-')))
  const files = ['README.md', ...globSync(['docs/**/*.md', 'src/**/*.ts', 'scripts/*.ts', 'deploy/**/*.yml'], { cwd: ROOT })]
  const links = files.flatMap((file) => Array.from(read(file).matchAll(/\balerts\.md#([\w-]+)/g), ([, anchor = '']) => ({ file, anchor })))
  assert.ok(links.length > 50)
  assert.deepEqual(links.filter(({ anchor }) => !anchors.has(anchor)), [])
})

describe('promtool test rules', needs('promtool'), () => {
  test('each alert fires and is quiet as alerts.test.yml says', () => {
    const { code, said } = promtool(['test', 'rules', CASES])
    assert.equal(code, 0, said)
  })

  for (const rule of ALERTS) {
    test(`${rule.alert}: its cases notice each way to break the rule`, (t) => {
      const breaks: Break[] = [...rule.for === undefined ? [] : breaksOfFor(rule), ...breaksOf(rule)]
      assert.ok(breaks.length > 0)
      assert.deepEqual(unnoticed(t, [{ what: 'nothing', rule }, ...breaks]), ['nothing'])
    })
  }

  test('OncewayDuplicateRate: its cases notice each number and each outcome that differs', (t) => {
    const rule = ALERTS.find(({ alert }) => alert === 'OncewayDuplicateRate')
    const [record, ...more] = RECORDS
    assert.ok(rule !== undefined && record !== undefined && more.length === 0)
    const outcomes = Array.from(record.expr.matchAll(/"([\w|-]+)"/g), ([, all = '']) => all.split('|')).flat()
    assert.ok(outcomes.includes('replayed') && outcomes.includes('told'))
    const breaks = [...NUMBERS, ...outcomes.map((outcome) => [outcome, 'none'] as const)].map(([from, to]) => {
      const place = new RegExp(`(?<![\\w-])${from.replace(/[^\w-]/g, '\\$&')}(?![\\w-])`, 'g')
      const [changed, recorded] = [rule.expr.replace(place, to), record.expr.replace(place, to)]
      assert.ok(changed !== rule.expr || recorded !== record.expr, `${from} is not there`)
      return { what: `${from} is ${to}`, rule: { ...rule, expr: changed }, record: { ...record, expr: recorded } }
    })
    assert.deepEqual(unnoticed(t, breaks), [])
  })
})

interface Break { readonly what: string, readonly rule: AlertRule, readonly record?: RecordRule }

/** Too early, and too late. */
function breaksOfFor (rule: AlertRule): Break[] {
  const [, count = '', unit = ''] = /^(\d+)(\w)$/.exec(rule.for ?? '') ?? []
  return [undefined, `${Number(count) * 2}${unit}`].map((each) => ({ what: `for: ${each}`, rule: { ...rule, for: each } }))
}

/** The rule with each selector of labels left out, and with another threshold than its last comparison has. */
function breaksOf (rule: AlertRule): Break[] {
  const { expr } = rule
  const wide = selectorsOf(expr)
    .filter(({ text, name }) => text !== name && expr.includes(text))
    .map(({ text, name }) => ({ what: `any ${name}`, rule: { ...rule, expr: expr.replaceAll(text, name) } }))
  const [all = '', operator = '', threshold = ''] = /(==|>|<) ([\d.* ]+)$/.exec(expr) ?? []
  if (all === '') return wide
  const value = threshold.split('*').reduce((product, factor) => product * Number(factor), 1)
  const others = operator === '==' || value === 0
    ? ['>= 0', '> 1e30', '< 0']
    : [`${operator} ${value * 0.9}`, `${operator} ${value * 1.1}`]
  return [...wide, ...others.map((other) => ({ what: other, rule: { ...rule, expr: expr.slice(0, -all.length) + other } }))]
}

/** Of the rule whose thresholds are not its last comparison. */
const NUMBERS: ReadonlyArray<readonly [from: string, to: string]> = [
  ['0.1 + 2', '0.05 + 2'], ['0.1 + 2', '0.2 + 2'], ['+ 2 *', '+ 1.5 *'], ['+ 2 *', '+ 3 *'], ['+ 0.2', '+ 0.15'], ['+ 0.2', '+ 0.3'],
  ['0.98', '0.96'], ['0.98', '1.5'], ['< 0.1', '< 0.04'], ['< 0.1', '< 0.2'], ['> 0.1', '> 0.05'], ['> 0.1', '> 0.3'],
  ['0.5', '0'], ['0.5', '1'], [' offset 30m', ''], ['> 100', '> 80'], ['> 100', '> 120']
]

/** Its history has hours: evaluated as often as the others it would take as long as all of them. */
const EVERY: Readonly<Record<string, string>> = { OncewayDuplicateRate: '5m' }

/** Which of these rules pass the cases of their alert. One process of the tool tests all of them. */
function unnoticed (t: TestContext, breaks: readonly Break[]): string[] {
  const folder = directory(t)
  const files = breaks.map(({ rule, record = RECORDS[0] }, at) => {
    const rules = [...record !== undefined && rule.expr.includes(record.record) ? [record] : [], rule]
    writeFileSync(join(folder, `rules-${at}.json`), JSON.stringify({ groups: [{ name: 'one', rules }] }))
    const file = join(folder, `cases-${at}.json`)
    writeFileSync(file, JSON.stringify({
      evaluation_interval: EVERY[rule.alert] ?? cases.evaluation_interval, rule_files: [`rules-${at}.json`], tests: casesOf(rule.alert)
    }))
    return file
  })
  const { said } = promtool(['test', 'rules', ...files])
  // Anything else is no verdict: an expression that cannot be read.
  const failed = said.split('FAILED:').slice(1)
  assert.ok(failed.every((each) => /^\n +name:/.test(each)), said)
  const passed = said.split('Unit Testing: ').slice(1).map((each) => /^ .*\n +SUCCESS/.test(each))
  assert.equal(passed.filter((each) => !each).length, failed.length, said)
  assert.equal(passed.length, breaks.length, said)
  return breaks.filter((_break, at) => passed[at]).map(({ what }) => what)
}
