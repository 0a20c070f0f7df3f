/** What an operator writes, read: ids, times, cursors. */
import { createHash } from 'node:crypto'
import { parseDateTime } from '../../core/headers/date-time.ts'
import { isPlace, type PlaceKind } from '../../core/operator/place.ts'
import { ID_BYTES } from '../../core/record/record.ts'
import type { Order, Page, Position } from '../../ports/operator.ts'
import { parseDuration } from '../../config/read/units.ts'
import { badRequest, OperatorProblem, type Outcome } from './problem.ts'
import { PAGE_DEFAULT } from './schema-words.ts'

/** Of a search: its limit in the database. */
export const SEARCH_WITHIN_MS = 2_000

/** null: it is none. */
export function readId (text: string): Buffer | null {
  if (/^[0-9a-fA-F]{64}$/.test(text)) return Buffer.from(text, 'hex')
  const bytes = /^[A-Za-z0-9_-]{43}$/.test(text) ? Buffer.from(text, 'base64url') : null
  return bytes?.length === ID_BYTES ? bytes : null
}

export const ID_WANTED = 'An id has 43 characters (base64url) or 64 (hex).'

export interface PageQueryValues { readonly order?: Order, readonly limit?: number, readonly cursor?: string }
export interface TimeQueryValues { readonly from?: string, readonly to?: string }

interface PageOrder { readonly order: Order, readonly limit: number, readonly after: Position | null, readonly withinMs: number }

/** What is searched, as the client wrote it, and where. Its cursors are of no use for another search, nor in another database. */
export interface SearchWords {
  readonly of: 'records' | 'messages' | 'audit' | 'selection'
  readonly values: object
  /** The id of the installation. */
  readonly installation: string
}

export function readPage ({ order = 'newest', limit = PAGE_DEFAULT, cursor }: PageQueryValues, words: SearchWords): Outcome<PageOrder> {
  const after = cursor === undefined || cursor === '' ? null : readCursor(cursor, order, words)
  return after instanceof OperatorProblem ? after : { order, limit, after, withinMs: SEARCH_WITHIN_MS }
}

export function readTimes ({ from, to }: TimeQueryValues, nowMs: number): Outcome<{ readonly fromMs?: number, readonly toMs?: number }> {
  const [fromMs, toMs] = [readTime(from, nowMs), readTime(to, nowMs)]
  if (fromMs === null || toMs === null) return badRequest(TIME_WANTED)
  for (const ms of [fromMs, toMs]) if (ms !== undefined && (ms < TIME_MIN_MS || ms > TIME_MAX_MS)) return badRequest(TIME_BOUNDS)
  if (fromMs !== undefined && toMs !== undefined && fromMs > toMs) return badRequest('from is later than to, so nothing can match.')
  return { ...(fromMs !== undefined && { fromMs }), ...(toMs !== undefined && { toMs }) }
}

const TIME_WANTED =
  'A time is RFC 3339 with a zone (2026-11-26T18:00:00Z; a plus sign is %2B in a URL), or how long ago: 90s, 15m, 24h, 7d.'

const TIME_BOUNDS = 'A time lies between the years 1 and 9999.'

/** undefined: nothing was asked for. null: it is no time. */
function readTime (text: string | undefined, nowMs: number): number | null | undefined {
  if (text === undefined || text === '') return undefined
  const agoMs = parseDuration(text)
  if (agoMs !== null) return nowMs - agoMs
  return parseDateTime(text)
}

/** Of a page on which nothing was looked at: a client that ends at `next: null` would take it for all that there is. */
export function nothingRead ({ rows, next, isWhole }: Page<unknown>, { after }: Pick<PageOrder, 'after'>): OperatorProblem | null {
  if (isWhole || rows.length > 0) return null
  const isSame = next === null || (after !== null && next.at === after.at && next.id.equals(after.id))
  return isSame ? new OperatorProblem('store-unavailable', `Nothing could be read within ${SEARCH_WITHIN_MS} ms. Ask again.`) : null
}

/** For the client it is opaque. It names a place, so whoever changes it reads another page of the same search. */
export function cursorOf ({ next }: Pick<Page<unknown>, 'next'>, order: Order, words: SearchWords): string | null {
  if (next === null) return null
  return Buffer.from(JSON.stringify([order, next.at, next.id.toString('base64url'), markOf(words)])).toString('base64url')
}

/** As many digits as any store writes: microseconds. */
const CURSOR = /^\["(newest|oldest)","(\d{1,16})","([A-Za-z0-9_-]{1,64})","([A-Za-z0-9_-]{12})"\]$/
const NO_CURSOR = 'The cursor is not one of this API: begin with the first page.'

function readCursor (text: string, order: Order, words: SearchWords): Outcome<Position> {
  const [, of, at, place, mark] = CURSOR.exec(Buffer.from(text, 'base64url').toString('latin1')) ?? []
  if (at === undefined || place === undefined) return badRequest(NO_CURSOR)
  if (of !== order) return badRequest(`The cursor is of a search with order=${of}: begin with the first page.`)
  if (mark !== markOf(words)) {
    return badRequest('The cursor is of another search or database: begin with the first page, or send the filter that it came with.')
  }
  const id = Buffer.from(place, 'base64url')
  return isPlace(placeKindOf(words), id) ? { at, id } : badRequest(NO_CURSOR)
}

/** The token of a selection says of what it is (selection.ts). Its signature has been checked by then. */
function placeKindOf ({ of, values }: SearchWords): PlaceKind {
  if (of !== 'selection') return of
  const [text = ''] = String((values as { readonly token?: string }).token).split('.')
  return (JSON.parse(Buffer.from(text, 'base64url').toString()) as { readonly kind: PlaceKind }).kind
}

const MARK_CHARS = 12

/** Tells searches apart. It protects nothing, since whoever may search may search for anything. */
function markOf ({ of, values, installation }: SearchWords): string {
  const given = Object.entries(values)
    .filter(([, value]) => value !== undefined && value !== '')
    .sort(([one], [other]) => one < other ? -1 : 1)
  return createHash('sha256').update(JSON.stringify([of, given, installation])).digest('base64url').slice(0, MARK_CHARS)
}

/** Before it Postgres writes years otherwise, or has none. Each store is to refuse the same. */
const TIME_MIN_MS = Date.parse('0001-01-01T00:00:00Z')
/** RFC 3339 has four digits for a year (section 5.6). A later time is shown as the last of them. */
const TIME_MAX_MS = Date.UTC(9999, 11, 31, 23, 59, 59, 999)

export function timeText (ms: number): string {
  return new Date(Math.min(ms, TIME_MAX_MS)).toISOString()
}

export function timeOrNull (ms: number | null): string | null {
  return ms === null ? null : timeText(ms)
}
