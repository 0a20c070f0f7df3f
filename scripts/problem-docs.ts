/** The table of problems in docs/reference/http.md as TypeScript: the gateway serves it, and its image has no docs. */

interface Row {
  readonly codes: readonly string[]
  readonly api: string
  readonly relay: string
  readonly when: string
  readonly sent: string
  readonly retry: string
}

const TABLE = /\n\| code \| `api` \|[^\n]*\n\|[-|]+\n((?:\|[^\n]*\n)+)/

export function problemDocs (page: string): string {
  const lines = (TABLE.exec(page)?.[1] ?? '').split('\n').filter((line) => line !== '')
  const entries = lines.map(rowOf).flatMap((row) => row.codes.map((code, index) => entryOf(code, row, index)))
  if (entries.length === 0) throw new Error('docs/reference/http.md has no table of problems')
  return `/** Made by "npm run generate" from the table of problems in docs/reference/http.md; do not edit. */
import type { ProblemCode } from './problems.ts'

/** Markdown without its links. \`sent\`: was the request sent? \`retry\`: with the same key? */
export interface ProblemDoc {
  readonly api: string
  readonly relay: string
  readonly when: string
  readonly sent: string
  readonly retry: string
}

export const PROBLEM_DOCS: Readonly<Record<ProblemCode, ProblemDoc>> = {
${entries.join(',\n')}
}
`
}

function rowOf (line: string): Row {
  const [codes = '', api = '', relay = '', when = '', sent = '', retry = ''] = line.split('|').slice(1, -1).map((cell) => cell.trim())
  return { codes: Array.from(codes.matchAll(/`([^`]+)`/g), ([, code]) => code ?? ''), api, relay, when, sent, retry }
}

/** A row of several codes lists their statuses in the same order, or one for all. */
function entryOf (code: string, { codes, api, relay, when, sent, retry }: Row, index: number): string {
  const own = (text: string): string => codes.length > 1 ? text.split(', ')[index] ?? text : text
  const members = Object.entries({ api: own(api), relay: own(relay), when, sent, retry }).map(([name, text]) =>
    `    ${name}: ${quoted(unlinked(text))}`)
  return `  ${/^[a-z]+$/.test(code) ? code : quoted(code)}: {\n${members.join(',\n')}\n  }`
}

function unlinked (text: string): string {
  return text.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
}

function quoted (text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}
