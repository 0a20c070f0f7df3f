/** A whole search as a file, read and sent page by page. It ends at a bound, and then its last row says so. */
import { OperatorProblem, type Outcome } from '../../../operator/shared/problem.ts'
import { PAGE_MAX } from '../../../operator/shared/schema-words.ts'
import { a, p, span } from './elements.ts'
import type { Child } from './elements.ts'
import { withQuery } from './links.ts'
import { rest } from './lists.ts'
import type { Download, Visit } from './page.ts'

/** A larger export is a query of the database. */
const ROWS_MAX = 50_000
/** Of one process. Each holds a page of rows, and asks the store without a pause. */
const AT_ONCE_MAX = 4
/** A client that reads no further holds its place until then. */
export const EXPORT_WITHIN_MS = 10 * 60_000
const FORMATS = ['csv', 'jsonl'] as const
const BUSY_RETRY_S = 30

export interface Export<Row> {
  readonly name: string
  readonly columns: ReadonlyArray<readonly [head: string, cell: (row: Row) => string | number | null]>
  /** `query`: the search with `cursor` and `limit`. */
  readonly read: (query: Readonly<Record<string, string>>) => Promise<Outcome<{
    readonly rows: readonly Row[], readonly next: string | null
  }>>
}

let running = 0

/** The first page is read before anything is sent, so that a mistake in the search is a page that says it. */
export async function exported<Row extends object> (
  { query }: Pick<Visit, 'query'>, given: Export<Row>
): Promise<Download | OperatorProblem> {
  const format = FORMATS.find((each) => each === query.get('format'))
  if (format === undefined) return new OperatorProblem('bad-request', `A format is one of ${FORMATS.join(', ')}.`)
  if (running >= AT_ONCE_MAX) {
    return new OperatorProblem(
      'too-many-requests', `${AT_ONCE_MAX} exports are running. Try again when one is done.`, { retryAfterS: BUSY_RETRY_S }
    )
  }
  const parts = partsOf(given, { ...rest(query, ['format', 'cursor', 'limit', 'live']), limit: String(PAGE_MAX) }, format)
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
  format: typeof FORMATS[number]
): AsyncGenerator<string | OperatorProblem> {
  const endsAt = performance.now() + EXPORT_WITHIN_MS
  const write = (row: Row): string => format === 'csv' ? csvLine(columns.map(([, cell]) => cell(row))) : `${JSON.stringify(row)}\n`
  running++
  try {
    let page = await read(search)
    yield page instanceof OperatorProblem ? page : ''
    if (format === 'csv') yield csvLine(columns.map(([name]) => name))
    for (let sent = 0; !(page instanceof OperatorProblem);) {
      const rows = page.rows.slice(0, ROWS_MAX - sent)
      sent += rows.length
      yield rows.map(write).join('')
      if (page.next === null && rows.length === page.rows.length) return
      if (sent >= ROWS_MAX || page.next === null || performance.now() > endsAt) return yield endedEarly(format, sent)
      page = await read({ ...search, cursor: page.next })
      if (page instanceof OperatorProblem) yield endedEarly(format, sent)
    }
  } finally {
    running--
  }
}

function endedEarly (format: typeof FORMATS[number], sent: number): string {
  const text = `This file ends after ${sent} rows, and more match. Take a narrower search.`
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
