/**
 * deploy/grafana: the dashboards. This file has what is on them (dashboard-rows.ts) as Grafana's JSON. The red line of a panel is the
 * threshold of its alert in deploy/prometheus/alerts.yml.
 */
import { readFileSync } from 'node:fs'
import { parse } from 'yaml'
import { BOARDS, type Board, type Panel, type Row } from './dashboard-rows.ts'

/** Of Grafana 11. Newer ones migrate it when it is imported. */
const SCHEMA_VERSION = 39
const COLUMNS = 24
const HEIGHTS = { stat: 4, lines: 8 } as const
const TAG = 'onceway'
const DATASOURCE = { type: 'prometheus', uid: '$datasource' }
/** Grafana reads these of each link and of each variable without a look whether they are there. */
const NO_LINK = {
  icon: 'external link', tags: [], tooltip: '', url: '', asDropdown: false, includeVars: false, keepTime: false, targetBlank: false
}
const NO_VARIABLE = { current: {}, options: [], regex: '', hide: 0, skipUrlSync: false }
const [FINE, BAD] = ['green', 'red']

export interface Dashboard {
  readonly uid: string
  readonly title: string
  readonly panels: ReadonlyArray<Record<string, unknown>>
  readonly templating: { readonly list: ReadonlyArray<Record<string, unknown>> }
  readonly [more: string]: unknown
}

/** The text of each file of deploy/grafana, by its name. `rules`: the text of deploy/prometheus/alerts.yml. */
export function dashboardTexts (rules = rulesText()): ReadonlyMap<string, string> {
  const thresholds = thresholdsOf(rules)
  return new Map(BOARDS.map((board) => [`${board.name}.json`, `${JSON.stringify(dashboardOf(board, thresholds), null, 2)}\n`]))
}

function rulesText (): string {
  return readFileSync(new URL('../deploy/prometheus/alerts.yml', import.meta.url), 'utf8')
}

/** By alert: the number at the end of its expression, or null if it compares with none. */
function thresholdsOf (rules: string): ReadonlyMap<string, number | null> {
  const { groups } = parse(rules) as {
    readonly groups: ReadonlyArray<{ readonly rules: ReadonlyArray<{ readonly alert: string, readonly expr: string }> }>
  }
  return new Map(groups.flatMap((group) => group.rules).map(({ alert, expr }) => {
    const product = />=?\s*([\d.]+(?:\s*\*\s*[\d.]+)*)\s*$/.exec(expr)?.[1]
    return [alert, product === undefined ? null : product.split('*').map(Number).reduce((all, factor) => all * factor, 1)]
  }))
}

type Thresholds = ReturnType<typeof thresholdsOf>

function dashboardOf (board: Board, thresholds: Thresholds): Dashboard {
  return {
    uid: `onceway-${board.name}`,
    title: `onceway: ${board.title}`,
    description: board.about,
    tags: [TAG],
    schemaVersion: SCHEMA_VERSION,
    version: 1,
    editable: true,
    graphTooltip: 1,
    refresh: '30s',
    time: { from: 'now-3h', to: 'now' },
    timezone: 'browser',
    annotations: { list: [] },
    links: [
      { ...NO_LINK, type: 'dashboards', title: 'onceway', tags: [TAG], asDropdown: true, includeVars: true, keepTime: true },
      { ...NO_LINK, type: 'link', title: 'Console', url: '$console', targetBlank: true },
      { ...NO_LINK, type: 'link', title: 'Alerts', url: '$runbooks', targetBlank: true }
    ],
    templating: { list: variablesOf(board) },
    panels: panelsOf(board.rows, thresholds)
  }
}

function variablesOf ({ variables }: Board): Array<Record<string, unknown>> {
  return [
    { ...NO_VARIABLE, name: 'datasource', label: 'Prometheus', type: 'datasource', query: 'prometheus', refresh: 1 },
    ofLabel('job', 'label_values(onceway_build_info, job)', true),
    ofLabel('instance', 'label_values(onceway_build_info{job=~"$job"}, instance)', true),
    ...variables.map(({ name, of, many }) => ofLabel(name, `label_values(${of}{job=~"$job"}, ${name})`, many)),
    textBox('console', 'Console', 'http://127.0.0.1:8081'),
    textBox('runbooks', 'Page of the alerts', 'https://wiki.example.com/onceway/guides/alerts.md')
  ]
}

/**
 * `many`: several values at once, or all of them, which is the default. All are those that the query finds, and not `.*`: `up` has the jobs
 * of others too.
 */
function ofLabel (name: string, query: string, many: boolean): Record<string, unknown> {
  const all = { includeAll: true, multi: true, current: { text: ['All'], value: ['$__all'] } }
  return {
    ...NO_VARIABLE,
    name,
    type: 'query',
    datasource: DATASOURCE,
    query: { query, refId: name },
    definition: query,
    // On each change of the time range: gateways and routes come and go.
    refresh: 2,
    sort: 1,
    ...many ? all : { includeAll: false, multi: false }
  }
}

function textBox (name: string, label: string, value: string): Record<string, unknown> {
  return { ...NO_VARIABLE, name, label, type: 'textbox', query: value, current: { text: value, value } }
}

/** Rows from the top, each with its title. Panels have the same width within a row. */
function panelsOf (rows: readonly Row[], thresholds: Thresholds): Array<Record<string, unknown>> {
  const placed: Array<Record<string, unknown>> = []
  let y = 0
  for (const { title, across, panels } of rows) {
    placed.push({ id: placed.length + 1, type: 'row', title, collapsed: false, gridPos: { x: 0, y, w: COLUMNS, h: 1 }, panels: [] })
    y++
    const w = COLUMNS / across
    const h = HEIGHTS[panels[0]?.kind ?? 'lines']
    for (const [at, panel] of panels.entries()) {
      const gridPos = { x: at % across * w, y: y + Math.floor(at / across) * h, w, h }
      placed.push({ id: placed.length + 1, ...panelOf(panel, thresholds), gridPos })
    }
    y += Math.ceil(panels.length / across) * h
  }
  return placed
}

function panelOf (panel: Panel, thresholds: Thresholds): Record<string, unknown> {
  const { title, about, alert, queries } = panel
  return {
    type: panel.kind === 'stat' ? 'stat' : 'timeseries',
    title,
    description: alert === undefined ? about : `${about} Alert: ${alert}.`,
    datasource: DATASOURCE,
    targets: queries.map(([expr, legendFormat], at) => ({
      refId: String.fromCharCode('A'.charCodeAt(0) + at),
      datasource: DATASOURCE,
      editorMode: 'code',
      expr: withSelectors(expr),
      legendFormat,
      range: true
    })),
    ...panel.kind === 'stat' ? statOf(panel, thresholds) : linesOf(panel, thresholds),
    ...alert !== undefined && { links: [{ title: alert, url: `$runbooks#${alert.toLowerCase()}`, targetBlank: true }] }
  }
}

/** `{@}` are the gateways that the viewer has chosen, `{@route}` and `{@store}` those of one label more. */
function withSelectors (expr: string): string {
  return expr.replace(/\{@(\w*)/g, (_all, label: string) =>
    `{job=~"$job", instance=~"$instance"${label === '' ? '' : `, ${label}=~"$${label}"`}`)
}

function statOf (panel: Panel, thresholds: Thresholds): Record<string, unknown> {
  const mappings = panel.words === undefined ? [] : [{ type: 'value', options: optionsOf(panel.words) }]
  return {
    fieldConfig: {
      defaults: { unit: panel.unit, color: { mode: 'thresholds' }, thresholds: stepsOf(panel, thresholds), mappings },
      overrides: []
    },
    options: {
      reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
      colorMode: 'value',
      graphMode: 'area',
      textMode: panel.queries.some(([, legend]) => legend.includes('{{')) || panel.queries.length > 1 ? 'value_and_name' : 'value'
    }
  }
}

function optionsOf (words: Readonly<Record<number, string>>): Record<string, { readonly text: string, readonly index: number }> {
  return Object.fromEntries(Object.entries(words).map(([value, text], index) => [value, { text, index }]))
}

function linesOf (panel: Panel, thresholds: Thresholds): Record<string, unknown> {
  const steps = stepsOf(panel, thresholds)
  const custom = {
    lineWidth: 1,
    fillOpacity: panel.stacked === true ? 40 : 5,
    showPoints: 'never',
    stacking: { mode: panel.stacked === true ? 'normal' : 'none', group: 'A' },
    thresholdsStyle: { mode: steps.steps.length > 1 ? 'line' : 'off' }
  }
  return {
    fieldConfig: { defaults: { unit: panel.unit, min: 0, color: { mode: 'palette-classic' }, thresholds: steps, custom }, overrides: [] },
    options: {
      legend: { showLegend: true, displayMode: 'list', placement: 'bottom', calcs: [] },
      tooltip: { mode: 'multi', sort: 'desc' }
    }
  }
}

/** Grafana colours a value that is at a step or above it. */
function stepsOf (panel: Panel, thresholds: Thresholds) {
  const first = { color: panel.good === undefined ? FINE : BAD, value: null }
  if (panel.good !== undefined) return { mode: 'absolute', steps: [first, { color: FINE, value: panel.good }] }
  const bad = panel.bad === undefined ? thresholdOf(panel, thresholds) : panel.bad
  return { mode: 'absolute', steps: bad === null ? [first] : [first, { color: BAD, value: bad }] }
}

/** An alert above 0 colours a count from 1 on. A line has no use for it. */
function thresholdOf ({ alert, kind }: Panel, thresholds: Thresholds): number | null {
  if (alert === undefined) return null
  const threshold = thresholds.get(alert)
  if (threshold === undefined) throw new Error(`scripts/dashboard-rows.ts names ${alert}, which deploy/prometheus/alerts.yml does not have`)
  return threshold === 0 ? (kind === 'stat' ? 1 : null) : threshold
}
