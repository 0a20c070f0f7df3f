/** Messages of the inbox: the search, the list and its export. */
import { inboxesOf } from '../../../core/inbox/targets.ts'
import type { VNode } from 'preact'
import type { MessageJson } from '../../../operator/inbox/schemas.ts'
import { MESSAGE_STATES } from '../../../core/inbox/message.ts'
import { OperatorProblem } from '../../../operator/shared/problem.ts'
import { a, details, div, p, span, summary } from '../shell/elements.ts'
import type { Export } from '../shell/export.ts'
import { choice, routeChoice, textField } from '../shell/forms.ts'
import { withQuery } from '../shell/links.ts'
import { listPages, searchCard } from '../shell/list-pages.ts'
import { rest, tableOf } from '../shell/lists.ts'
import type { Column } from '../shell/lists.ts'
import type { Visit } from '../shell/page.ts'
import { moment, momentOr, said } from '../shell/text.ts'
import { messageLink } from './groups.ts'
import { stateOf, STATE_WORDS } from './words.ts'

const PATH = '/inbox/messages'

/** What may be done with all that match, by their state. */
const RETRY_OR_DISCARD = 'Retry or discard all that match …'
export const DISCARD_NEEDS = 'To discard many needs the role admin.'
const CHANGE_WORDS: Readonly<Record<string, string>> = {
  waiting: RETRY_OR_DISCARD,
  held: RETRY_OR_DISCARD,
  dead: RETRY_OR_DISCARD,
  delivered: 'Replay all that match …'
}

export const messagePages = listPages<MessageJson>({
  path: PATH,
  title: (query) => isOfDead(query) ? 'Dead letters' : 'Messages',
  form: searchForm,
  read: async (visit, query) => {
    const found = await visit.ask('searchMessages', { query })
    return found instanceof OperatorProblem ? found : { ...found, rows: found.messages }
  },
  empty: (query) => isOfDead(query)
    ? 'No dead letter matches. A message would be here if every delivery of it had failed.'
    : 'No message matches. A message is here as soon as a route with an inbox has accepted it, and until its retention is over.',
  table: (rows, order) => {
    const columns = messageColumns(order)
    return tableOf('Messages', rows.some(({ state }) => state === 'delivered') ? [...columns, KEPT_UNTIL] : columns, rows)
  },
  file: { name: 'messages', columns: fileColumns() },
  actions: ({ query, may }) => {
    const words = CHANGE_WORDS[query.get('state') ?? '']
    const isForAdmins = words === RETRY_OR_DISCARD && !may('admin')
    return words === undefined || !may('operator')
      ? null
      : p(
        { class: 'actions' },
        a({ class: 'button', href: withQuery('/inbox/changes', rest(query, ['cursor', 'limit', 'order', 'live'])) }, words),
        isForAdmins ? span({ class: 'hint' }, DISCARD_NEEDS) : null
      )
  }
})

function isOfDead (query: URLSearchParams): boolean { return query.get('state') === 'dead' }

function fileColumns (): Export<MessageJson>['columns'] {
  return [
    ['id', ({ id }) => id],
    ['state', ({ state }) => state],
    ['route', ({ route }) => route],
    ['method', ({ method }) => method],
    ['path', ({ path }) => path],
    ['requestId', ({ requestId }) => requestId],
    ['receivedAt', ({ receivedAt }) => receivedAt],
    ['dueAt', ({ dueAt }) => dueAt],
    ['settledAt', ({ settledAt }) => settledAt],
    ['expiresAt', ({ expiresAt }) => expiresAt],
    ['requestKeptUntil', ({ requestKeptUntil }) => requestKeptUntil],
    ['replayedAt', ({ replayedAt }) => replayedAt],
    ['attempt', ({ attempt }) => attempt],
    ['tries', ({ tries }) => tries],
    ['lastStatus', ({ lastStatus }) => lastStatus],
    ['error', ({ error }) => error],
    ['requestBytes', ({ requestBytes }) => requestBytes],
    ['key', ({ key }) => key],
    ['keyHash', ({ keyHash }) => keyHash]
  ]
}

export function messageColumns (order?: NonNullable<Column<MessageJson>['sort']>): Array<Column<MessageJson>> {
  return [
    { head: 'Message', cell: ({ id }) => messageLink(id) },
    { head: 'State', cell: ({ state }) => stateOf(state) },
    { head: 'Accepted', cell: ({ receivedAt }) => moment(receivedAt), ...order !== undefined && { sort: order } },
    { head: 'Route', cell: ({ route }) => said(route) },
    { head: 'Request', cell: ({ method, path }) => said(`${method} ${path}`) },
    { head: 'Last delivery', cell: ({ lastStatus, error }) => [lastStatus ?? '', ' ', error === null ? null : said(error)] },
    { head: 'Tries', number: true, cell: ({ tries }) => tries }
  ]
}

/** Who replays many sees which of them can be. */
const KEPT_UNTIL: Column<MessageJson> = {
  head: 'Replay until',
  cell: ({ state, requestKeptUntil }) => state === 'delivered' ? momentOr(requestKeptUntil, 'Never') : '–'
}

function searchForm ({ query, context }: Visit): VNode {
  const value = (name: string): string => query.get(name) ?? ''
  const field = (name: string, label: string, hint: string): VNode => textField(
    { name, label, hint, value: value(name) }
  )
  const rare = ['group', 'key', 'id', 'requestId', 'path', 'to'].some((name) => value(name) !== '')
  return searchCard(PATH, 'Messages',
    div({ class: 'fields' },
      choice(
        { name: 'state', label: 'State', value: value('state') },
        [['', 'Any'], ...MESSAGE_STATES.map((state) => [state, STATE_WORDS[state]] as const)]
      ),
      routeChoice(
        value('route'),
        inboxesOf(context.config.routes).map(({ name }) => name)
      ),
      field('from', 'Accepted since', '15m, 24h, 7d ago, or 2026-11-26T18:00Z'),
      choice({ name: 'order', label: 'Order', value: value('order') }, [['', 'Newest first'], ['oldest', 'Oldest first']])),
    details({ open: rare }, summary({}, 'More filters'),
      div({ class: 'fields' },
        field('key', 'Idempotency key', 'It is hashed for the search. The address of the page that follows has the key itself.'),
        field('group', 'Group', 'The value that inbox.order names. Choose the route too.'),
        field('id', 'Message id', '43 characters, or 64 of hex.'),
        field('requestId', 'Request id', 'X-Request-Id of the request that was accepted.'),
        field('path', 'Path', 'Without its query. Or its beginning and *.'),
        field('to', 'Accepted before', 'As above.'))))
}
