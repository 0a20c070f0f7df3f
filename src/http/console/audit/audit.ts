/** The audit: who changed what by hand, when and why, with its filters and its export. */
import type { VNode } from 'preact'
import type { AuditJson } from '../../../operator/audit/audit.ts'
import { MESSAGE_ACTIONS, RECORD_ACTIONS } from '../../../core/record/audit.ts'
import { OperatorProblem } from '../../../operator/shared/problem.ts'
import { div } from '../shell/elements.ts'
import type { Child } from '../shell/elements.ts'
import type { Export } from '../shell/export.ts'
import { choice, textField } from '../shell/forms.ts'
import { listPages, searchCard } from '../shell/list-pages.ts'
import type { Section, Visit } from '../shell/page.ts'
import { auditTable } from './rows.ts'

const PATH = '/audit'

const PAGES = listPages<AuditJson>({
  path: PATH,
  title: () => 'Audit',
  form: filterForm,
  read: async (visit, query) => {
    const found = await visit.ask('searchAudit', { query })
    return found instanceof OperatorProblem ? found : { ...found, rows: found.entries }
  },
  empty: () => 'No change by hand matches. Every change would be here, with who made it and why, and nobody can alter it here.',
  table: (rows, order) => auditTable('Changes by hand', rows, order),
  file: { name: 'audit', columns: fileColumns() }
})

function fileColumns (): Export<AuditJson>['columns'] {
  return [
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

function filterForm ({ query }: Visit): VNode {
  const field = (name: string, label: string, hint: string): Child =>
    textField({ name, label, hint, value: query.get(name) ?? '' })
  return searchCard(PATH, 'Audit',
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
      choice({ name: 'order', label: 'Order', value: query.get('order') ?? '' }, [['', 'Newest first'], ['oldest', 'Oldest first']])))
}

export const AUDIT: Section = { name: 'Audit', path: PATH, pages: [...PAGES] }
