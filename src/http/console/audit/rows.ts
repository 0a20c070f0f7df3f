/** Rows of the audit, in its own list and beside what they are about. */
import type { AuditJson } from '../../../operator/audit/audit.ts'
import { OperatorProblem } from '../../../operator/shared/problem.ts'
import { a, div, h2, p, section, span } from '../shell/elements.ts'
import type { Child } from '../shell/elements.ts'
import { to, withQuery } from '../shell/links.ts'
import { tableOf } from '../shell/lists.ts'
import type { Column } from '../shell/lists.ts'
import type { Visit } from '../shell/page.ts'
import { moment, said, shortId, visible } from '../shell/text.ts'

/** Beside a record or a message. The list of the audit has all. */
const BESIDE_MAX = 20

export function auditTable (title: string, rows: readonly AuditJson[], order?: NonNullable<Column<AuditJson>['sort']>): Child {
  return tableOf<AuditJson>(title, [
    { head: 'When', cell: ({ at }) => moment(at), ...order !== undefined && { sort: order } },
    { head: 'Who', cell: ({ who, via }) => [said(who), via === null ? null : span({ class: 'hint' }, visible(via))] },
    { head: 'What', cell: ({ action, about }) => `${action} ${about}` },
    { head: 'Why', cell: ({ why }) => said(why) },
    { head: 'Of', cell: subjectOf },
    { head: 'Before', cell: ({ before }) => stateText(before) },
    { head: 'After', cell: ({ after, state }) => stateText(after ?? { state }) }
  ], rows)
}

function subjectOf ({ about, id, route }: AuditJson): Child {
  if (id === null) return a({ href: withQuery('/inbox/messages', { route }) }, said(route))
  return [
    a({ class: 'id', href: about === 'record' ? to`/records/${id}` : to`/inbox/messages/${id}` }, shortId(id)),
    ' ',
    span({ class: 'hint' }, visible(route))
  ]
}

function stateText (state: AuditJson['before']): Child {
  return state === null ? 'Not kept' : Object.entries(state).map(([name, value]) => span({ class: 'pair' }, visible(`${name} ${value}`)))
}

/** The changes of one record or message, the newest first. */
export async function changesOf (visit: Visit, id: string, title: string): Promise<Child> {
  const found = await visit.ask('searchAudit', { query: { id, limit: BESIDE_MAX } })
  if (found instanceof OperatorProblem) return null
  return section({ class: 'card' }, h2({}, title), found.entries.length === 0
    ? p({}, 'Nobody has changed it by hand. Each change would be here, with who made it and why.')
    : auditTable(title, found.entries))
}

/** What the store says of the change that has just been made. */
export async function lastChange (visit: Visit, id: string): Promise<Child> {
  const found = await visit.ask('searchAudit', { query: { id, limit: 1 } })
  if (found instanceof OperatorProblem || found.entries.length === 0) return null
  return div({ class: 'notice good', role: 'status' }, h2({}, 'Done'), auditTable('The last change', found.entries))
}
