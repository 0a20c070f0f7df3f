/** A list that is searched, paged and exported: its page, and its file. */
import type { VNode } from 'preact'
import { OperatorProblem, type Outcome } from '../../../operator/shared/problem.ts'
import { a, button, form, p } from './elements.ts'
import type { Child } from './elements.ts'
import { exported, exportLinks } from './export.ts'
import type { Export } from './export.ts'
import { emptyState, notesOf, pager, rest, timeOrder } from './lists.ts'
import type { Column, Paging } from './lists.ts'
import { screen } from './page.ts'
import type { Page, Visit } from './page.ts'
import { problemScreen } from './problems.ts'

export interface List<Row extends object> {
  readonly path: string
  readonly title: (query: URLSearchParams) => string
  readonly form: (visit: Visit) => VNode
  /** Of the list's page, and of each page of its file. */
  readonly read: (visit: Visit, query: Readonly<Record<string, string>>) => Promise<Outcome<Paging & { readonly rows: readonly Row[] }>>
  /** What would be here. */
  readonly empty: (query: URLSearchParams) => string
  readonly table: (rows: readonly Row[], order: NonNullable<Column<Row>['sort']>) => Child
  readonly file: Omit<Export<Row>, 'read'>
  /** What may be done with all that match, below a list that is not empty. */
  readonly actions?: (visit: Visit) => Child
}

export function listPages<Row extends object> (list: List<Row>): readonly [page: Page, file: Page] {
  const { path } = list
  const exportPath = `${path}/export`
  return [{
    method: 'GET',
    path,
    role: 'viewer',
    run: async (visit) => {
      const { query } = visit
      const found = await list.read(visit, rest(query, ['live']))
      if (found instanceof OperatorProblem) return problemScreen(found, list.form(visit))
      const isEmpty = found.rows.length === 0
      return screen(list.title(query), [
        list.form(visit),
        notesOf(found.notes),
        isEmpty ? emptyState(list.empty(query)) : list.table(found.rows, timeOrder(path, query)),
        pager(path, query, found),
        isEmpty ? null : [exportLinks(exportPath, query), list.actions?.(visit) ?? null]
      ])
    }
  }, {
    method: 'GET',
    path: exportPath,
    role: 'viewer',
    run: async (visit) => {
      const file = await exported(visit, { ...list.file, read: async (query) => list.read(visit, query) })
      return file instanceof OperatorProblem ? problemScreen(file) : file
    }
  }]
}

/** The form of a search. What it finds can be linked: its fields are the query. */
export function searchCard (path: string, name: string, ...fields: Child[]): VNode {
  return form({ method: 'get', action: path, class: 'card search', role: 'search', 'aria-label': name },
    ...fields,
    p({ class: 'actions' }, button({ class: 'main', type: 'submit' }, 'Search'), a({ class: 'button quiet', href: path }, 'Clear')))
}
