/** The results of the searches as text. */
import type { Verdict } from './pan.ts'
import type { Caught, Search } from './searches.ts'

export interface Told { readonly search: Search | Caught, readonly verdict: Verdict }

/** Whether the result is as expected: nothing wrong, or exactly the property that must catch it. */
export function isAsItMust ({ search, verdict }: Told): boolean {
  return 'by' in search ? verdict.violated === search.by : verdict.holds
}

export function lineOf (told: Told): string {
  const { search, verdict } = told
  const came = verdict.violated ?? (verdict.holds ? 'holds' : 'NOT EVERYTHING SEARCHED')
  return `${isAsItMust(told) ? 'as it must' : 'WRONG     '}  ${came.padEnd(34)} ${String(verdict.states).padStart(10)} states ${verdict.seconds.toFixed(1).padStart(7)} s  ${search.name}`
}

export interface ReportFacts {
  readonly command: string
  readonly versions: readonly string[]
  readonly date: string
  readonly seconds: number
}

export function reportOf (told: readonly Told[], { command, versions, date, seconds }: ReportFacts): string {
  const whole = told.filter(({ search }) => !('by' in search))
  const caught = told.filter(({ search }) => 'by' in search)
  return [
    '# The model, searched',
    '',
    'Every schedule of [the model](../internals/model.md) with the faults of each row, to its end: no hashing of states, no bound of depth.',
    '',
    '| | |',
    '|---|---|',
    `| command | \`${command}\` |`,
    `| date | ${date} |`,
    `| versions | ${versions.join(', ')} |`,
    `| time | ${Math.round(seconds)} s |`,
    `| states | ${count(whole.reduce((sum, { verdict }) => sum + verdict.states, 0))} |`,
    `| **searches that did not come out as they must** | **${told.filter((one) => !isAsItMust(one)).length}** |`,
    '',
    '## With every rule in its place',
    '',
    '| search | definitions | states | depth | s | |',
    '|---|---|---:|---:|---:|---|',
    ...whole.map(({ search, verdict }) => `| ${search.name} | ${definitionsOf(search)} | ${count(verdict.states)} | ${verdict.depth} | ${verdict.seconds.toFixed(1)} | ${verdict.violated ?? (verdict.holds ? 'holds' : '**not everything searched**')} |`),
    '',
    '## A rule left out, or outside the promise',
    '',
    'Breadth first where a property of states is violated: no schedule that breaks it is shorter.',
    '',
    '| left out | definitions | violated | steps | states until then |',
    '|---|---|---|---:|---:|',
    ...caught.map((one) => `| ${one.search.name}: ${whatOf(one.search)} | ${definitionsOf(one.search)} | \`${one.verdict.violated ?? 'nothing'}\`${isAsItMust(one) ? '' : ' **WRONG**'} | ${one.verdict.depth} | ${count(one.verdict.states)} |`),
    ''
  ].join('\n')
}

function definitionsOf ({ define }: Search): string {
  return `\`${Object.entries(define).filter(([name]) => !name.startsWith('M_')).map(([name, value]) => `${name}=${value}`).join(' ')}\``
}

function whatOf (search: Search | Caught): string {
  return 'what' in search ? search.what : ''
}

/** 1234567 as 1,234,567. */
function count (states: number): string {
  return states.toLocaleString('en-US')
}
