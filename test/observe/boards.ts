/** What a test reads of the dashboards in deploy/grafana. */
import { readdirSync, readFileSync } from 'node:fs'

const FOLDER = new URL('../../deploy/grafana/', import.meta.url)

export interface Variable { readonly name: string, readonly query: string, readonly many: boolean }
export interface Query { readonly panel: string, readonly expr: string, readonly legend: string }

interface Json {
  readonly templating: {
    readonly list: ReadonlyArray<{ readonly name: string, readonly type: string, readonly query: unknown, readonly multi?: boolean }>
  }
  readonly panels: readonly JsonPanel[]
}

export interface JsonPanel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly description?: string
  readonly gridPos: { readonly x: number, readonly y: number, readonly w: number, readonly h: number }
  readonly targets?: ReadonlyArray<{ readonly expr: string, readonly legendFormat: string }>
  readonly fieldConfig?: { readonly defaults: { readonly unit: string } }
}

export interface BoardFile {
  readonly name: string
  readonly text: string
  /** Those with values of a label. */
  readonly variables: readonly Variable[]
  readonly panels: readonly JsonPanel[]
  readonly queries: readonly Query[]
}

export function boards (): BoardFile[] {
  return readdirSync(FOLDER).toSorted().map((name) => {
    const text = readFileSync(new URL(name, FOLDER), 'utf8')
    const { templating, panels } = JSON.parse(text) as Json
    return {
      name,
      text,
      variables: templating.list.filter(({ type }) => type === 'query').map((each) => ({
        name: each.name,
        query: (each.query as { readonly query: string }).query,
        many: each.multi === true
      })),
      panels,
      queries: panels.flatMap(({ title, targets = [] }) =>
        targets.map(({ expr, legendFormat }) => ({ panel: title, expr, legend: legendFormat })))
    }
  })
}

/** `label_values(selector, label)`. */
export function labelQuery ({ query }: Variable): { readonly selector: string, readonly label: string } {
  const [, selector, label] = /^label_values\((.+), (\w+)\)$/.exec(query) ?? []
  if (selector === undefined || label === undefined) throw new Error(`no query of a variable: ${query}`)
  return { selector, label }
}

/** As Grafana sends it: several values are alternatives. The text of PromQL takes one backslash of two. */
export function withVariables (expr: string, values: ReadonlyMap<string, readonly string[]>): string {
  return expr
    .replaceAll('$__rate_interval', '5s')
    .replace(/\$(\w+)/g, (_all, name: string) => {
      const chosen = values.get(name)?.map((value) => value.replace(/[.*+?^${}()|[\]\\]/g, '\\\\$&')) ?? []
      if (chosen.length === 0) throw new Error(`no value of $${name}`)
      return `(${chosen.join('|')})`
    })
}
