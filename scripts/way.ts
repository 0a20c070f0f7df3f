/** The table of states in ARCHITECTURE.md: the moves of src/core/protocol/way.ts, with the words of its comments. */
import { readFileSync } from 'node:fs'
import { EVENTS, STATES, WAY } from '../src/core/protocol/way.ts'
import type { Event, Move, State } from '../src/core/protocol/way.ts'

const SOURCE = new URL('../src/core/protocol/way.ts', import.meta.url)
const BEGIN = '<!-- way: made by "npm run generate" from src/core/protocol/way.ts -->\n'
const END = '<!-- end of the way -->'

/** A page with the table between its two marks. */
export function withWay (page: string, source = readFileSync(SOURCE, 'utf8')): string {
  const [before, rest] = page.split(BEGIN)
  if (rest === undefined || !rest.includes(END)) throw new Error(`the page has no ${BEGIN}`)
  return `${before}${BEGIN}${wayTable(source)}\n${rest.slice(rest.indexOf(END))}`
}

function wayTable (source: string): string {
  const [ofStates = '', ofEvents = ''] = source.split(/^export const (?:STATES|EVENTS) /m)
  const meanings = new Map(listIn(ofStates).map((line) => line.split(': ', 2) as [string, string]))
  const rows = STATES.map((state) => `| \`${state}\` | ${meanings.get(state) ?? ''} | ${movesText(state)} |`)
  const names = new RegExp(`(?<=^|, |\\. )(?:${EVENTS.join('|')})(?=(?:, (?:${EVENTS.join('|')}))*: )`, 'g')
  const events = listIn(ofEvents).map((line) => `- ${line.replaceAll(names, code)}`)
  return ['| state | its work | event → next state: actions |', '|---|---|---|', ...rows, '', 'What happens:', '', ...events].join('\n')
}

/** Events with the same move stand together. */
function movesText (state: State): string {
  const texts = movesOf(state).map(({ event, move: { to, do: actions } }) =>
    ({ event, then: `${code(to)}${actions.length === 0 ? '' : `: ${actions.join(', ')}`}` }))
  return Array.from(Map.groupBy(texts, ({ then }) => then), ([then, same]) =>
    `${same.map(({ event }) => code(event)).join(', ')} → ${then}`).join('<br>')
}

export function movesOf (state: State): Array<{ readonly event: Event, readonly move: Move }> {
  return EVENTS.flatMap((event) => {
    const move = WAY[state][event]
    return typeof move === 'string' ? [] : [{ event, move }]
  })
}

/** The items of the list in a comment. */
function listIn (text: string): string[] {
  return text.split('\n').flatMap((line) => /^ \* - (.*)$/.exec(line)?.[1] ?? [])
}

function code (name: string): string { return `\`${name}\`` }
