/** The rules of deploy/prometheus, and what their expressions read. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'
import { findTool } from '../harness/binaries.ts'

export const RULES = fileURLToPath(new URL('../../deploy/prometheus/alerts.yml', import.meta.url))

interface Rule { readonly expr: string, readonly for?: string | undefined }

export interface AlertRule extends Rule {
  readonly alert: string
  readonly labels: { readonly severity: string }
  readonly annotations: Readonly<Record<string, string>>
}

/** A query whose result alerts read by this name. */
export interface RecordRule extends Rule { readonly record: string }

interface Rules { readonly groups: ReadonlyArray<{ readonly rules: ReadonlyArray<AlertRule | RecordRule> }> }

const rules = (parse(readFileSync(RULES, 'utf8')) as Rules).groups.flatMap((group) => group.rules)

export const ALERTS: readonly AlertRule[] = rules.filter((rule) => 'alert' in rule)
export const RECORDS: readonly RecordRule[] = rules.filter((rule) => 'record' in rule)

/** A series in an expression. `text`: as it is written there. */
export interface Selector {
  readonly text: string
  readonly name: string
  /** Of a series in the text exposition, without its value: `name{label="value"}`. */
  readonly matches: (series: string) => boolean
}

const SERIES = /(?<![\w:])((?:onceway|nodejs|process)_\w+|up)(?:\{([^}]*)\})?(?![\w:])/g

/** Also those of the recorded queries that the expression reads. */
export function selectorsOf (expr: string): Selector[] {
  const read = RECORDS.filter(({ record }) => expr.includes(record)).map((rule) => rule.expr)
  return [expr, ...read].flatMap((text) => Array.from(text.matchAll(SERIES), ([all, name = '', matchers = '']) =>
    ({ text: all, name, matches: matching(name, matchers) })))
}

function matching (name: string, matchers: string): Selector['matches'] {
  const wanted = Array.from(matchers.matchAll(/(\w+)(=~|!~|!=|=)"([^"]*)"/g), ([, label = '', operator = '', value = '']) =>
    ({ label, negative: operator.startsWith('!'), value: operator.includes('~') ? new RegExp(`^(?:${value})$`) : value }))
  return (series) => {
    const [, of, text = ''] = /^(\w+)(?:\{(.*)\})?$/.exec(series) ?? []
    const labels = new Map(Array.from(text.matchAll(/(\w+)="([^"]*)"/g), ([, label = '', value = '']) => [label, value]))
    return of === name && wanted.every(({ label, negative, value }) => {
      const there = labels.get(label) ?? ''
      return (typeof value === 'string' ? value === there : value.test(there)) !== negative
    })
  }
}

/** What the tool says, and its exit code. */
export function promtool (args: readonly string[], input = ''): { readonly code: number | null, readonly said: string } {
  const tool = findTool('promtool')
  if (tool.kind !== 'binaries') throw new Error('there is no promtool: say needs(\'promtool\')')
  const { status, stdout, stderr } = spawnSync(join(tool.directory, 'promtool'), args, { input, encoding: 'utf8' })
  return { code: status, said: `${stdout}${stderr}` }
}
