/** The audit: who changed what by hand, when and why, with its filters and its export. */
import type { AuditJson } from '../../../operator/audit/audit.ts'
import { MESSAGE_ACTIONS, RECORD_ACTIONS } from '../../../core/record/audit.ts'
import { OperatorProblem } from '../../../operator/shared/problem.ts'
import { a, button, div, form, p } from '../shell/elements.ts'
import type { Child } from '../shell/elements.ts'
import { exported, exportLinks } from '../shell/export.ts'
import type { Export } from '../shell/export.ts'
import { choice, textField } from '../shell/forms.ts'
import { emptyState, notesOf, pager, rest, timeOrder } from '../shell/lists.ts'
import { screen } from '../shell/page.ts'
import type { Page, Section, Visit } from '../shell/page.ts'
import { problemScreen } from '../shell/problems.ts'
import { auditTable } from './rows.ts'

const PATH = '/audit'
const EXPORT_PATH = '/audit/export'

const list: Page = {
  method: 'GET',
  path: PATH,
  role: 'viewer',
  run: async (visit) => {
    const { query } = visit
    const found = await visit.ask('searchAudit', { query: rest(query) })
    if (found instanceof OperatorProblem) return problemScreen(found, filterForm(visit))
    return screen('Audit', [
      filterForm(visit),
      notesOf(found.notes),
      found.entries.length === 0
        ? emptyState('No change by hand matches. Every change would be here, with who made it and why, and nobody can alter it here.')
        : auditTable('Changes by hand', found.entries, timeOrder(PATH, query)),
      pager(PATH, query, found),
      found.entries.length === 0 ? null : exportLinks(EXPORT_PATH, query)
    ])
  }
}

const exportPage: Page = {
  method: 'GET',
  path: EXPORT_PATH,
  role: 'viewer',
  run: async (visit) => {
    const file = await exported(visit, {
      ...EXPORT,
      read: async (query) => {
        const found = await visit.ask('searchAudit', { query })
        return found instanceof OperatorProblem ? found : { rows: found.entries, next: found.next }
      }
    })
    return file instanceof OperatorProblem ? problemScreen(file) : file
  }
}

const EXPORT: Omit<Export<AuditJson>, 'read'> = {
  name: 'audit',
  columns: [
    ['at', ({ at }) => at],
    ['who', ({ who }) => who],
    ['via', ({ via }) => via],
    ['action', ({ action }) => action],
    ['about', ({ about }) => about],
    ['id', ({ id }) => id],
    ['route', ({ route }) => route],
    ['requestId', ({ requestId }) => requestId],
    ['attempt', ({ attempt }) => attempt],
    ['why', ({ why }) => why],
    ['state', ({ state }) => state],
    ['before', ({ before }) => before === null ? null : JSON.stringify(before)],
    ['after', ({ after }) => after === null ? null : JSON.stringify(after)]
  ]
}

function filterForm ({ query }: Visit): Child {
  const field = (name: string, label: string, hint: string): Child =>
    textField({ name, label, hint, value: query.get(name) ?? '' })
  return form({ method: 'get', action: PATH, class: 'card search', role: 'search', 'aria-label': 'Audit' },
    div({ class: 'fields' },
      field('who', 'Who', 'The name that was signed in.'),
      choice(
        { name: 'action', label: 'Action', value: query.get('action') ?? '' },
        [['', 'Any'], ...[...RECORD_ACTIONS, ...MESSAGE_ACTIONS].map((each) => [each, each] as const)]
      ),
      field('route', 'Route', 'Its name.'),
      field('id', 'Id', 'Of a record or message.'),
      field('from', 'Since', '15m, 24h, 7d ago, or 2026-11-26T18:00Z'),
      field('to', 'Before', 'As above.'),
      choice({ name: 'order', label: 'Order', value: query.get('order') ?? '' }, [['', 'Newest first'], ['oldest', 'Oldest first']])),
    p({ class: 'actions' }, button({ class: 'main', type: 'submit' }, 'Search'), a({ class: 'button quiet', href: PATH }, 'Clear')))
}

export const AUDIT: Section = { name: 'Audit', path: PATH, pages: [list, exportPage] }
