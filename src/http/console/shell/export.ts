/** A whole search as a file, read and sent page by page. It ends at a bound, and then its last row says so. */
import { OperatorProblem, type Outcome } from '../../../operator/shared/problem.ts'
import { PAGE_MAX } from '../../../operator/shared/schema-words.ts'
import { problemOf } from '../../api/api.ts'
import { ExportPlace } from '../../shared/exports.ts'
import { a, p, span } from './elements.ts'
import type { Child } from './elements.ts'
import { withQuery } from './links.ts'
import { rest } from './lists.ts'
import type { Download, Visit } from './page.ts'

export { EXPORT_WITHIN_MS } from '../../shared/exports.ts'

/** A larger export is a query of the database. */
const ROWS_MAX = 50_000
const FORMATS = ['csv', 'jsonl'] as const

export interface Export<Row> {
  readonly name: string
  readonly columns: ReadonlyArray<readonly [head: string, cell: (row: Row) => string | number | null]>
  /** `query`: the search with `cursor` and `limit`. */
  readonly read: (query: Readonly<Record<string, string>>) => Promise<Outcome<{
    readonly rows: readonly Row[], readonly next: string | null
  }>>
}

/** The first page is read before anything is sent, so that a mistake in the search is a page that says it. */
export async function exported<Row extends object> (
  { query }: Pick<Visit, 'query'>, given: Export<Row>
): Promise<Download | OperatorProblem> {
  const format = FORMATS.find((each) => each === query.get('format'))
  if (format === undefined) return new OperatorProblem('bad-request', `A format is one of ${FORMATS.join(', ')}.`)
  const place = ExportPlace.take()
  if (place instanceof OperatorProblem) return place
  const parts = partsOf(given, { ...rest(query, ['format', 'cursor', 'limit', 'live']), limit: String(PAGE_MAX) }, format, place)
  const begun = (await parts.next()).value
  if (begun instanceof OperatorProblem) {
    await parts.return(begun)
    return begun
  }
  return {
    kind: 'download',
    name: `onceway-${given.name}.${format}`,
    type: format === 'csv' ? 'text/csv; charset=utf-8' : 'application/jsonl; charset=utf-8',
    parts: parts as AsyncGenerator<string>
  }
}

/** First nothing or a problem, then text. Once it has begun, its end gives its place back whatever the end is. */
async function * partsOf<Row extends object> (
  { columns, read }: Export<Row>,
  search: Readonly<Record<string, string>>,
  format: typeof FORMATS[number],
  place: ExportPlace
): AsyncGenerator<string | OperatorProblem> {
  const write = (row: Row): string => format === 'csv' ? csvLine(columns.map(([, cell]) => cell(row))) : `${JSON.stringify(row)}\n`
  try {
    let page = await read(search)
    yield page instanceof OperatorProblem ? page : ''
    if (format === 'csv') yield csvLine(columns.map(([name]) => name))
    for (let sent = 0; !(page instanceof OperatorProblem);) {
      const rows = page.rows.slice(0, ROWS_MAX - sent)
      sent += rows.length
      yield rows.map(write).join('')
      if (page.next === null && rows.length === page.rows.length) return
      if (sent >= ROWS_MAX || page.next === null || place.isLate) return yield endedEarly(format, sent, NARROWER)
      page = await read({ ...search, cursor: page.next }).catch(storeProblem)
      if (page instanceof OperatorProblem) yield endedEarly(format, sent, `more may match. ${page.detail}`)
    }
  } finally {
    place.giveBack()
  }
}

/** The status has long been sent, so the file says what a page would. @throws a bug, and the file breaks off. */
function storeProblem (error: unknown): OperatorProblem {
  const problem = problemOf(error)
  if (problem.code === 'internal-error') throw error
  return problem
}

const NARROWER = 'more match. Take a narrower search.'

function endedEarly (format: typeof FORMATS[number], sent: number, why: string): string {
  const text = `This file ends after ${sent} rows, and ${why}`
  return format === 'csv' ? csvLine([text]) : `${JSON.stringify({ incomplete: text })}\n`
}

/** RFC 4180. Spreadsheets take a text that begins with these for a formula, so it gets an apostrophe. An id can be none. */
function csvLine (cells: ReadonlyArray<string | number | null>): string {
  return `${cells.map((cell) => {
    const text = typeof cell === 'string' && /^[=+\-@\t\r]/.test(cell) && !ID.test(cell) ? `'${cell}` : String(cell ?? '')
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
  }).join(',')}\r\n`
}

/** Base64url of a digest. */
const ID = /^[\w-]{43}$/

/** Both formats of the search that is shown. */
export function exportLinks (path: string, query: URLSearchParams): Child {
  const href = (format: string): string => withQuery(path, { ...rest(query, ['cursor', 'limit', 'live']), format })
  return p({ class: 'actions' },
    span({}, 'Export all that match: '),
    a({ class: 'button quiet', href: href('csv') }, 'CSV'),
    a({ class: 'button quiet', href: href('jsonl') }, 'JSON lines'))
}
