/** Messages of the inbox: the search, the list, its export, and one message with what may be done. */
import type { VNode } from 'preact'
import type { MessageJson } from '../../../operator/inbox/schemas.ts'
import { MESSAGE_STATES } from '../../../core/inbox/message.ts'
import { OperatorProblem } from '../../../operator/shared/problem.ts'
import { changesOf, lastChange } from '../audit/rows.ts'
import { a, button, details, div, h2, p, section, span, summary } from '../shell/elements.ts'
import type { Child } from '../shell/elements.ts'
import type { Export } from '../shell/export.ts'
import { facts } from '../shell/facts.ts'
import { choice, hidden, postForm, problemBox, reasonField, routeChoice, textField, valuesOf } from '../shell/forms.ts'
import { headerTable } from '../shell/headers.ts'
import { to, withQuery } from '../shell/links.ts'
import { listPages, searchCard } from '../shell/list-pages.ts'
import { rest, tableOf } from '../shell/lists.ts'
import type { Column } from '../shell/lists.ts'
import { redirect, screen } from '../shell/page.ts'
import type { Page, Screen, Visit } from '../shell/page.ts'
import { problemScreen } from '../shell/problems.ts'
import { bytes, moment, momentOr, said, shortId, visible } from '../shell/text.ts'

const PATH = '/inbox/messages'
/** Those that can be retried or discarded. */
const OPEN_STATES: ReadonlySet<string> = new Set(['waiting', 'held', 'dead'])

/** What may be done with all that match, by their state. */
const RETRY_OR_DISCARD = 'Retry or discard all that match …'
const CHANGE_WORDS: Readonly<Record<string, string>> = {
  waiting: RETRY_OR_DISCARD,
  held: RETRY_OR_DISCARD,
  dead: RETRY_OR_DISCARD,
  delivered: 'Replay all that match …'
}

const STATE_WORDS: Readonly<Record<MessageJson['state'], string>> = {
  waiting: 'Waits',
  delivering: 'In delivery',
  delivered: 'Delivered',
  held: 'Held: sent, outcome unknown',
  dead: 'Dead: given up',
  discarded: 'Discarded'
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
  table: (rows, order) => tableOf('Messages', messageColumns(order), rows),
  file: { name: 'messages', columns: fileColumns() },
  actions: ({ query, may }) => {
    const words = CHANGE_WORDS[query.get('state') ?? '']
    return words === undefined || !may('operator')
      ? null
      : p(
        { class: 'actions' },
        a({ class: 'button', href: withQuery('/inbox/changes', rest(query, ['cursor', 'limit', 'order', 'live'])) }, words)
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
    { head: 'Message', cell: ({ id }) => a({ class: 'id', href: to`/inbox/messages/${id}` }, shortId(id)) },
    { head: 'State', cell: ({ state }) => stateOf(state) },
    { head: 'Accepted', cell: ({ receivedAt }) => moment(receivedAt), ...order !== undefined && { sort: order } },
    { head: 'Route', cell: ({ route }) => said(route) },
    { head: 'Request', cell: ({ method, path }) => said(`${method} ${path}`) },
    { head: 'Last delivery', cell: ({ lastStatus, error }) => [lastStatus ?? '', ' ', error === null ? null : said(error)] },
    { head: 'Tries', number: true, cell: ({ tries }) => tries }
  ]
}

function stateOf (state: MessageJson['state']): VNode {
  return span({ class: `state state-${state}` }, STATE_WORDS[state])
}

function searchForm ({ query, context }: Visit): VNode {
  const value = (name: string): string => query.get(name) ?? ''
  const field = (name: string, label: string, hint: string): VNode => textField(
    { name, label, hint, value: value(name) }
  )
  const rare = ['key', 'id', 'requestId', 'path', 'to'].some((name) => value(name) !== '')
  return searchCard(PATH, 'Messages',
    div({ class: 'fields' },
      choice(
        { name: 'state', label: 'State', value: value('state') },
        [['', 'Any'], ...MESSAGE_STATES.map((state) => [state, STATE_WORDS[state]] as const)]
      ),
      routeChoice(
        value('route'),
        context.config.routes.filter(({ idempotency }) => idempotency !== null && idempotency.inbox !== null).map(({ name }) => name)
      ),
      field('from', 'Accepted since', '15m, 24h, 7d ago, or 2026-11-26T18:00Z'),
      choice({ name: 'order', label: 'Order', value: value('order') }, [['', 'Newest first'], ['oldest', 'Oldest first']])),
    details({ open: rare }, summary({}, 'More filters'),
      div({ class: 'fields' },
        field('key', 'Idempotency key', 'It is hashed for the search. The address of the page that follows has the key itself.'),
        field('id', 'Message id', '43 characters, or 64 of hex.'),
        field('requestId', 'Request id', 'X-Request-Id of the request that was accepted.'),
        field('path', 'Path', 'Without its query. Or its beginning and *.'),
        field('to', 'Accepted before', 'As above.'))))
}

// ------------------------------------------------------------------ one message

export const messagePage: Page = {
  method: 'GET',
  path: '/inbox/messages/:id',
  role: 'viewer',
  run: async (visit) => {
    const id = visit.params.id ?? ''
    const message = await visit.ask('showMessage', { params: { id } })
    if (message instanceof OperatorProblem) return problemScreen(message, await changesOf(visit, id, 'Changes by hand'))
    return screen(`Message ${shortId(message.id)}`, [
      visit.query.has('done') ? await lastChange(visit, message.id) : null,
      div({ class: 'columns' },
        section({ class: 'card' }, h2({}, 'What it is'), messageFacts(message)),
        section({ class: 'card' }, h2({}, 'What may be done next'), nextSteps(visit, message))),
      message.answer === null
        ? null
        : section({ class: 'card' }, h2({}, 'What the consumer last answered'),
          p({}, `Status ${message.answer.status}, ${message.answer.bodyBytes === 0 ? 'no body' : `a body of ${bytes(message.answer.bodyBytes)}`}.`),
          message.answer.headers === null ? p({}, 'To see its header fields needs the role reader.') : headerTable(message.answer.headers)),
      await changesOf(visit, message.id, 'Changes by hand')
    ])
  }
}

function messageFacts (message: MessageJson): Child {
  return facts([
    ['State', stateOf(message.state)],
    ['Last delivery', [message.lastStatus ?? '', ' ', message.error === null ? 'No error' : said(message.error)]],
    ['Deliveries', `${message.attempt} in all, ${message.tries} since it was accepted, retried or replayed`],
    ['Route', said(message.route)],
    ['Request', said(`${message.method} ${message.path}`)],
    ['Size', bytes(message.requestBytes)],
    ['Request id', said(message.requestId)],
    ['Key', message.key === null ? 'Only its hash is kept' : said(message.key)],
    ['Order', message.ordered ? 'In its group, one after another' : 'None'],
    ['Accepted', [moment(message.receivedAt), ' by ', said(message.instance)]],
    ['Next delivery', momentOr(message.dueAt, 'Not planned')],
    ['Ended', momentOr(message.settledAt, 'Not yet')],
    ['Request kept until', momentOr(message.requestKeptUntil, message.state === 'delivered' ? 'Deleted: no replay' : 'Not delivered yet')],
    ...message.replayedAt === null ? [] : [['Replayed', [moment(message.replayedAt), ': each delivery since then says so']] as const],
    ['Forgotten', momentOr(message.expiresAt, 'Not before it has ended')],
    ['Id', said(message.id)],
    ['Key hash', said(message.keyHash)]
  ])
}

function nextSteps (visit: Visit, { id, state, requestKeptUntil }: MessageJson): Child {
  if (state === 'delivered' && requestKeptUntil !== null) {
    return visit.may('operator')
      ? [
          p({}, 'It can be delivered once more until ', moment(requestKeptUntil), '.'),
          p({ class: 'actions' }, a({ class: 'button', href: to`/inbox/messages/${id}/replay` }, 'Replay …'))
        ]
      : p({}, 'To replay it needs the role operator.')
  }
  if (state === 'delivered') return p({}, 'Nothing: it has ended, and its request is deleted. inbox.keepDelivered keeps requests.')
  if (!OPEN_STATES.has(state)) return p({}, state === 'delivering' ? 'Nothing now: it is being delivered.' : 'Nothing: it has ended.')
  if (!visit.may('operator')) return p({}, 'To retry or discard it needs the role operator.')
  return [
    state === 'held' ? p({}, 'It was sent, and nobody knows whether the consumer took it. Find out there before you retry it.') : null,
    p({ class: 'actions' },
      a({ class: 'button main', href: to`/inbox/messages/${id}/retry` }, 'Retry …'),
      a({ class: 'button', href: to`/inbox/messages/${id}/discard` }, 'Discard …'))
  ]
}

interface Change {
  readonly action: string
  readonly operation: 'retryMessage' | 'discardMessage' | 'replayMessage'
  readonly title: string
  readonly consequence: (message: MessageJson) => string
  /** Why this message cannot be changed so. null: it can. */
  readonly refusal: (message: MessageJson) => string | null
}

function notOpen ({ state }: MessageJson): string | null {
  return OPEN_STATES.has(state) ? null : `Only a message that waits, is held or is dead can be changed. It is ${state} now.`
}

const CHANGES: readonly Change[] = [
  {
    action: 'retry',
    operation: 'retryMessage',
    title: 'Retry',
    consequence: ({ state, ordered }) => `It waits again, with its full number of attempts${ordered ? ', for the turn of its group' : ', and is due at once'}. While its route is paused, nothing is delivered. ${state === 'held' ? 'If the consumer took it the last time, it gets it twice.' : ''}`,
    refusal: notOpen
  },
  {
    action: 'discard',
    operation: 'discardMessage',
    title: 'Discard',
    consequence: ({ ordered }) => `It is never delivered. ${ordered ? 'The later messages of its group go on without it.' : ''}`,
    refusal: notOpen
  },
  {
    action: 'replay',
    operation: 'replayMessage',
    title: 'Replay',
    consequence: ({ ordered }) => `The consumer has taken it, and gets it once more, with Onceway-Replay: true and the same Onceway-Key. ${ordered ? 'The messages of its group that still wait go after it.' : ''}`,
    refusal: ({ state, requestKeptUntil }) => {
      if (state !== 'delivered') return `Only a delivered message can be replayed. It is ${state} now.`
      return requestKeptUntil === null ? 'The request of this message is deleted. It cannot be replayed.' : null
    }
  }
]

const CONFLICT = 409

export const messageChanges: readonly Page[] = CHANGES.flatMap((change) => [
  {
    method: 'GET', path: `/inbox/messages/:id/${change.action}`, role: 'operator', run: async (visit) => confirmation(visit, change, null)
  },
  {
    method: 'POST',
    path: `/inbox/messages/:id/${change.action}`,
    role: 'operator',
    run: async (visit) => {
      const id = visit.params.id ?? ''
      const done = await visit.ask(change.operation, { params: { id }, body: valuesOf(visit.form, ['state', 'attempt', 'reason']) })
      if (!(done instanceof OperatorProblem)) return redirect(`${to`/inbox/messages/${id}`}?done=1`)
      return done.status === CONFLICT || done.code === 'not-found' ? conflictScreen(visit, done, id) : confirmation(visit, change, done)
    }
  }
] satisfies Page[])

async function conflictScreen (visit: Visit, problem: OperatorProblem, id: string): Promise<Screen> {
  const message = await visit.ask('showMessage', { params: { id } })
  return problemScreen(problem,
    visit.form.size > 0 ? p({}, 'Your change was not made. Nothing was written.') : null,
    await changesOf(visit, id, 'Who changed it'),
    message instanceof OperatorProblem
      ? p({}, 'The message is forgotten.')
      : section({ class: 'card' }, h2({}, 'What it is now'), messageFacts(message)),
    p({ class: 'actions' }, a({ class: 'button', href: PATH }, 'To the messages')))
}

async function confirmation (visit: Visit, change: Change, problem: OperatorProblem | null): Promise<Screen> {
  const id = visit.params.id ?? ''
  const message = await visit.ask('showMessage', { params: { id } })
  if (message instanceof OperatorProblem) return problemScreen(message)
  const refusal = change.refusal(message)
  if (refusal !== null) return conflictScreen(visit, new OperatorProblem('refused', refusal), id)
  return screen(`${change.title} message ${shortId(message.id)}`, [
    problemBox(problem),
    div({ class: 'columns' },
      section({ class: 'card' }, h2({}, 'What follows'),
        p({ class: 'consequence' }, visible(change.consequence(message).trim())),
        postForm(visit, { action: to`/inbox/messages/${message.id}/${change.action}` },
          hidden('state', message.state),
          hidden('attempt', message.attempt),
          reasonField(visit.form.get('reason') ?? '', problem),
          p({ class: 'actions' },
            button({ class: 'main', type: 'submit' }, `${change.title} this message`),
            a({ class: 'button quiet', href: to`/inbox/messages/${message.id}` }, 'Leave it')))),
      section({ class: 'card' }, h2({}, 'What it is'), messageFacts(message)))
  ], problem?.status)
}
