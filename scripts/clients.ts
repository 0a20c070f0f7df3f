/**
 * The tables of docs/reference/clients.md, from the matrix that the tests hold, and the code in docs/guides/clients.md,
 * from the clients that they drive.
 */
import { readFileSync } from 'node:fs'
import { BARE, COLUMNS, PLAY, ROWS, verdictOf, WHY_WRONG } from '../test/clients/matrix/table.ts'
import type { Column, Outcome, Row, Verdict } from '../test/clients/matrix/table.ts'

const HOME = new URL('../test/clients/matrix/', import.meta.url)
const SOURCES = ['sdks.ts', 'libraries.ts', 'drive.py']

/** Either page, with everything between its marks made anew. */
export function withMatrix (page: string): string {
  return page.replace(
    /(<!-- (matrix|columns|without|wrong|lines (\S+)) -->\n)[\s\S]*?(<!-- \/ -->)/g,
    (_all, begin: string, what: string, name: string | undefined, end: string) =>
      `${begin}\n${name === undefined ? (BLOCKS[what] as () => string)() : linesOf(name)}\n\n${end}`
  )
}

const MARKS: Readonly<Record<Verdict, string>> = { answer: '✓', told: '○', wrong: '✗' }

const BLOCKS: Readonly<Record<string, () => string>> = {
  matrix: () => table(
    ['client', 'set beside the key', ...COLUMNS.map((column) => PLAY[column].title)],
    ROWS.map((row) => [
      row.title,
      row.lines === null ? '–' : `[lines](../guides/clients.md#${row.lines})`,
      ...COLUMNS.map((column) => cellOf(row.cells[column]))
    ])
  ),
  columns: () => table(['column', 'what happens'], COLUMNS.map((column) => [PLAY[column].title, PLAY[column].what])),
  without: () => table(
    ['client', ...BARE.map((column) => PLAY[column].title)],
    ROWS.map((row) => [row.title, ...BARE.map((column) => bareOf(row, column))])
  ),
  wrong: () => COLUMNS.flatMap((column) => {
    const wrong = ROWS.filter(({ cells }) => verdictOf(cells[column]) === 'wrong')
    return wrong.length === 0 ? [] : [`* **${PLAY[column].title}** (${wrong.map(({ title }) => title).join(', ')}). ${WHY_WRONG[column]}`]
  }).join('\n')
}

function table (head: readonly string[], rows: ReadonlyArray<readonly string[]>): string {
  return [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}

/** The codes of problems are the column's: the page has them above the table. */
function endingOf (ending: string): string {
  return ending.startsWith('no answer: ') ? `\`${ending.slice('no answer: '.length)}\`` : ending.split(' ')[0] as string
}

function cellOf (outcome: Outcome): string {
  return `${MARKS[verdictOf(outcome)]} ${outcome[0]} · ${endingOf(outcome[1])}`
}

function bareOf ({ bare }: Row, column: Column & keyof Row['bare']): string {
  const [executed, ending] = bare[column]
  return `${executed > 1 ? `**${executed}**` : executed} · ${endingOf(ending)}`
}

function linesOf (name: string): string {
  for (const file of SOURCES) {
    const found = new RegExp(`^( *)(?://|#) begin ${name}\\n([\\s\\S]*?)^ *(?://|#) end ${name}$`, 'm').exec(
      readFileSync(new URL(file, HOME), 'utf8')
    )
    if (found === null) continue
    const [, indent = '', lines = ''] = found
    return `\`\`\`${file.endsWith('.py') ? 'python' : 'js'}\n${lines.replaceAll(new RegExp(`^${indent}`, 'gm'), '').trimEnd()}\n\`\`\``
  }
  throw new Error(`no client has lines of the name ${name}`)
}
