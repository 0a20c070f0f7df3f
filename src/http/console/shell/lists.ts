/** Lists that are sorted, linked, paged, exported and refreshed. */
import type { VNode } from 'preact'
import { a, caption, div, p, table, tbody, td, th, thead, tr } from './elements.ts'
import type { Child } from './elements.ts'
import { withQuery } from './links.ts'
import type { Visit } from './page.ts'
import { visible } from './text.ts'

export interface Column<Row> {
  readonly head: string
  readonly cell: (row: Row) => Child
  /** The value of `sort` for this order. `down`: it begins with the largest. */
  readonly sort?: { readonly isSet: boolean, readonly down: boolean, readonly href: string }
  readonly number?: boolean
}

/** What has fewer columns fits beside each other on a narrow screen too. */
const CARD_COLUMNS_MIN = 4

/**
 * On a narrow screen each row is a card, or the table scrolls within its box. The roles say what it is when its styles say otherwise.
 */
export function tableOf<Row> (title: string, columns: ReadonlyArray<Column<Row>>, rows: readonly Row[]): VNode {
  const look = columns.length >= CARD_COLUMNS_MIN ? 'cards' : undefined
  return div({ class: 'scroll', role: 'region', tabindex: 0, 'aria-label': title }, table({ class: look, role: 'table' },
    caption({ class: 'unseen' }, title),
    thead({ role: 'rowgroup' }, tr({ role: 'row' }, columns.map(headOf))),
    tbody({ role: 'rowgroup' }, rows.map((row) => tr({ role: 'row' }, columns.map((column, at) => cellOf(column, row, at === 0)))))))
}

function cellOf<Row> ({ head, cell, number }: Column<Row>, row: Row, isFirst: boolean): VNode {
  return isFirst
    ? th({ scope: 'row', role: 'rowheader' }, cell(row))
    : td({ class: number === true ? 'number' : undefined, role: 'cell', 'data-head': head }, cell(row))
}

function headOf<Row> ({ head, sort, number }: Column<Row>): VNode {
  const order = sort?.isSet === true ? { 'aria-sort': sort.down ? 'descending' : 'ascending' } : {}
  return th({ scope: 'col', role: 'columnheader', class: number === true ? 'number' : undefined, ...order },
    sort === undefined ? head : a({ href: sort.href }, head, sort.isSet ? ` ${sort.down ? '↓' : '↑'}` : ''))
}

/** The head of the time column: newest first or oldest first. */
export function timeOrder (path: string, query: URLSearchParams): NonNullable<Column<unknown>['sort']> {
  const down = query.get('order') !== 'oldest'
  return { isSet: true, down, href: withQuery(path, { ...rest(query, ['cursor', 'order']), order: down ? 'oldest' : 'newest' }) }
}

export function rest (query: URLSearchParams, without: readonly string[] = []): Record<string, string> {
  return Object.fromEntries(Array.from(query).filter(([name, value]) => value !== '' && !without.includes(name)))
}

export interface Paging { readonly next: string | null, readonly notes: readonly string[] }

export function pager (path: string, query: URLSearchParams, { next }: Paging): Child {
  const isFirst = (query.get('cursor') ?? '') === ''
  if (isFirst && next === null) return null
  return p({ class: 'actions' },
    isFirst ? null : a({ class: 'button', href: withQuery(path, rest(query, ['cursor'])) }, 'First page'),
    next === null ? null : a({ class: 'button', rel: 'next', href: withQuery(path, { ...rest(query), cursor: next }) }, 'Next page'))
}

export function notesOf (notes: readonly string[]): Child {
  return notes.map((note) => p({ class: 'notice' }, visible(note)))
}

export function emptyState (...content: Child[]): VNode {
  return div({ class: 'empty' }, p({}, ...content))
}

const LIVE = { name: 'live', seconds: 10 } as const

/** A part that is read again while the reader has asked for that. Otherwise nothing moves by itself. */
export function live ({ url, query }: Pick<Visit, 'url' | 'query'>, id: string, ...content: Child[]): VNode {
  const isOn = query.get(LIVE.name) === '1'
  const path = url.split('?', 1)[0] ?? '/'
  const again = isOn
    ? {
        'hx-get': url,
        'hx-trigger': `every ${LIVE.seconds}s`,
        'hx-select': `#${id}`,
        'hx-target': 'this',
        'hx-swap': 'outerHTML',
        // What cannot be read now stays as it was.
        'hx-status:4xx': 'swap:none',
        'hx-status:5xx': 'swap:none'
      }
    : {}
  return div({ id, ...again },
    p({ class: 'actions' },
      a({ class: 'button quiet', href: withQuery(path, rest(query, [LIVE.name])) }, isOn ? 'Stop refreshing' : 'Refresh'),
      isOn ? null : a({ class: 'button quiet', href: withQuery(path, { ...rest(query), live: '1' }) }, `Refresh every ${LIVE.seconds} s`)),
    content)
}
