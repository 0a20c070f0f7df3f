/** Records: the search with all its filters, the list, and its export. */
import type { VNode } from 'preact'
import type { RecordSummaryJson } from '../../../operator/records/schemas.ts'
import { STAGES } from '../../../operator/records/schemas.ts'
import type { Role } from '../../../core/operator/roles.ts'
import { RECORD_STATES } from '../../../core/record/record.ts'
import { OperatorProblem } from '../../../operator/shared/problem.ts'
import { a, details, div, p, span, summary } from '../shell/elements.ts'
import type { Export } from '../shell/export.ts'
import { choice, routeChoice, textField } from '../shell/forms.ts'
import { to, withQuery } from '../shell/links.ts'
import { listPages, searchCard } from '../shell/list-pages.ts'
import { rest, tableOf } from '../shell/lists.ts'
import type { Column } from '../shell/lists.ts'
import type { Visit } from '../shell/page.ts'
import { bytes, moment, said, shortId } from '../shell/text.ts'
import { reasonCode, STATE_WORDS, stateOf } from './words.ts'

const PATH = '/records'
/** States of which many can be changed, and who may. Known outcomes can only be forgotten. */
const CHANGED_BY: Readonly<Partial<Record<string, Role>>> = {
  indeterminate: 'operator', completed: 'admin', consumed: 'admin', released: 'admin'
}

export const recordPages = listPages<RecordSummaryJson>({
  path: PATH,
  title: () => 'Records',
  form: searchForm,
  read: async (visit, query) => {
    const found = await visit.ask('searchRecords', { query })
    return found instanceof OperatorProblem ? found : { ...found, rows: found.records }
  },
  empty: () => 'No record matches. A record is here as soon as a guarded route has claimed a key, and until its retention is over.',
  table: (rows, order) => tableOf('Records', recordColumns(order), rows),
  file: { name: 'records', columns: fileColumns() },
  actions: ({ query, may }) => {
    const role = CHANGED_BY[query.get('state') ?? '']
    return role === undefined || !may(role)
      ? null
      : p(
        { class: 'actions' },
        a(
          { class: 'button', href: withQuery('/records/changes', rest(query, ['cursor', 'limit', 'order', 'live'])) },
          'Change all that match …'
        )
      )
  }
})

function fileColumns (): Export<RecordSummaryJson>['columns'] {
  return [
    ['id', ({ id }) => id],
    ['state', ({ state }) => state],
    ['route', ({ route }) => route],
    ['method', ({ method }) => method],
    ['path', ({ path }) => path],
    ['requestId', ({ requestId }) => requestId],
    ['attempt', ({ attempt }) => attempt],
    ['claimedAt', ({ claimedAt }) => claimedAt],
    ['settledAt', ({ settledAt }) => settledAt],
    ['settledBy', ({ settledBy }) => settledBy],
    ['expiresAt', ({ expiresAt }) => expiresAt],
    ['status', ({ status }) => status],
    ['bodyBytes', ({ bodyBytes }) => bodyBytes],
    ['reasonStage', ({ reason }) => reason?.stage ?? null],
    ['reasonCode', ({ reason }) => reason?.code ?? null],
    ['key', ({ key }) => key],
    ['keyHash', ({ keyHash }) => keyHash],
    ['instance', ({ instance }) => instance]
  ]
}

export function recordColumns (order?: NonNullable<Column<RecordSummaryJson>['sort']>): Array<Column<RecordSummaryJson>> {
  return [
    { head: 'Record', cell: ({ id }) => a({ class: 'id', href: to`/records/${id}` }, shortId(id)) },
    {
      head: 'State', cell: (record) => [stateOf(record.state), record.reason === null ? null : span({ class: 'hint' }, reasonCode(record))]
    },
    { head: 'Claimed', cell: ({ claimedAt }) => moment(claimedAt), ...order !== undefined && { sort: order } },
    { head: 'Route', cell: ({ route }) => said(route) },
    { head: 'Request', cell: ({ method, path }) => said(`${method} ${path}`) },
    {
      head: 'Answer',
      cell: ({ status, bodyBytes }) => status === null ? '–' : `${status}${bodyBytes === null ? '' : `, ${bytes(bodyBytes)}`}`
    },
    { head: 'Attempt', number: true, cell: ({ attempt }) => attempt }
  ]
}

function searchForm ({ query, context }: Visit): VNode {
  const value = (name: string): string => query.get(name) ?? ''
  const field = (name: string, label: string, hint: string): VNode =>
    textField({ name, label, hint, value: value(name) })
  const rare = ['key', 'id', 'requestId', 'path', 'stage', 'to'].some((name) => value(name) !== '')
  return searchCard(PATH, 'Records',
    div({ class: 'fields' },
      choice(
        { name: 'state', label: 'State', value: value('state') },
        [['', 'Any'], ...RECORD_STATES.map((state) => [state, STATE_WORDS[state]] as const)]
      ),
      routeChoice(value('route'), context.config.routes.filter(({ idempotency }) => idempotency !== null).map(({ name }) => name)),
      field('from', 'Claimed since', '15m, 24h, 7d ago, or 2026-11-26T18:00Z'),
      choice({ name: 'order', label: 'Order', value: value('order') }, [['', 'Newest first'], ['oldest', 'Oldest first']])),
    details({ open: rare }, summary({}, 'More filters'),
      div({ class: 'fields' },
        field('key', 'Idempotency key', 'It is hashed for the search. The address of the page that follows has the key itself.'),
        field('id', 'Record id', '43 characters, as in Onceway-Key, or 64 of hex.'),
        field('requestId', 'Request id', 'X-Request-Id of the request that claimed it.'),
        field('path', 'Path', 'Without its query. Or its beginning and *.'),
        choice(
          { name: 'stage', label: 'Unknown because of', value: value('stage') },
          [['', 'Anything'], ...STAGES.map((stage) => [stage, stage] as const)]
        ),
        field('to', 'Claimed before', 'As above.'))))
}
