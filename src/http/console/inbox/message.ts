/** One message of the inbox, with what may be done. */
import type { MessageDetailJson, MessageJson, PastDeliveryJson } from '../../../operator/inbox/schemas.ts'
import { guardedRoute } from '../../../operator/shared/operators.ts'
import { OperatorProblem } from '../../../operator/shared/problem.ts'
import { changesOf, lastChange } from '../audit/rows.ts'
import { a, button, div, h2, p, pre, section } from '../shell/elements.ts'
import type { Child } from '../shell/elements.ts'
import { facts } from '../shell/facts.ts'
import { hidden, postForm, problemBox, reasonField, valuesOf } from '../shell/forms.ts'
import { headerTable } from '../shell/headers.ts'
import { to } from '../shell/links.ts'
import { tableOf } from '../shell/lists.ts'
import { redirect, screen } from '../shell/page.ts'
import type { Page, Screen, Visit } from '../shell/page.ts'
import { notMade, problemScreen } from '../shell/problems.ts'
import { bytes, duration, moment, momentOr, said, shortId, visible } from '../shell/text.ts'
import { aroundOf, pauseNotice, stopsItsGroup, stopWords } from './around.ts'
import type { Around } from './around.ts'
import { groupsPath, messageLink } from './groups.ts'
import { stateOf } from './words.ts'

/** Those that can be retried or discarded. */
const OPEN_STATES: ReadonlySet<string> = new Set(['waiting', 'held', 'dead'])

export const messagePage: Page = {
  method: 'GET',
  path: '/inbox/messages/:id',
  role: 'viewer',
  run: async (visit) => {
    const id = visit.params.id ?? ''
    const message = await visit.ask('showMessage', { params: { id } })
    if (message instanceof OperatorProblem) return problemScreen(message, await changesOf(visit, id, 'Changes by hand'))
    const around = await aroundOf(visit, message)
    return screen(`Message ${shortId(message.id)}`, [
      visit.query.has('done') ? await lastChange(visit, message.id) : null,
      message.state === 'waiting' ? pauseNotice(around) : null,
      div({ class: 'columns' },
        section({ class: 'card' }, h2({}, 'What it is'), messageFacts(message, around)),
        section({ class: 'card' }, h2({}, 'What may be done next'), nextSteps(visit, message, around))),
      message.answer === null
        ? null
        : section({ class: 'card' }, h2({}, 'What the consumer last answered'),
          p({}, `Status ${message.answer.status}, ${message.answer.bodyBytes === 0 ? 'no body' : `a body of ${bytes(message.answer.bodyBytes)}`}.`),
          message.answer.headers === null ? p({}, 'To see its header fields needs the role reader.') : headerTable(message.answer.headers)),
      deliveriesOf(visit, message),
      await changesOf(visit, message.id, 'Changes by hand')
    ])
  }
}

const ENDED: Readonly<Record<MessageJson['state'], string>> = {
  waiting: 'Ended',
  delivering: 'Ended',
  delivered: 'Delivered',
  held: 'Held since',
  dead: 'Given up',
  discarded: 'Discarded'
}

function messageFacts (message: MessageJson, around: Around): Child {
  return facts([
    ['State', stateOf(message.state)],
    ['Last delivery', lastDelivery(message)],
    ['Deliveries', `${message.attempt} in all, ${message.tries} since it was accepted, retried or replayed`],
    ['Route', said(message.route)],
    ['Request', said(`${message.method} ${message.path}`)],
    ['Size', bytes(message.requestBytes)],
    ['Request id', said(message.requestId)],
    ['Key', message.key === null ? 'Only its hash is kept' : said(message.key)],
    ['Order', message.ordered ? ['In its group, one after another: ', a({ href: groupsPath(message.route) }, 'all groups')] : 'None'],
    ...stopsItsGroup(message) ? [['Its group', stopWords(around)]] as const : [],
    ['Accepted', [moment(message.receivedAt), ' by ', said(message.instance)]],
    ['Next delivery', nextDelivery(message, around)],
    [ENDED[message.state], momentOr(message.settledAt, 'Not yet')],
    ['Request kept until', requestKept(message)],
    ...message.replayedAt === null ? [] : [['Replayed', [moment(message.replayedAt), ': each delivery since then says so']] as const],
    ['Forgotten', momentOr(message.expiresAt, stopsItsGroup(message)
      ? 'Not before an operator retries or discards it'
      : 'Not before it has ended')],
    ['Id', said(message.id)],
    ['Key hash', said(message.keyHash)]
  ])
}

function deliveriesOf (visit: Visit, { deliveries }: MessageDetailJson): Child {
  if (deliveries.length === 0) return null
  const mayRead = visit.may('reader')
  return section({ class: 'card' }, h2({}, 'Deliveries'),
    mayRead ? null : p({}, 'To see what the consumer answered needs the role reader.'),
    tableOf('Deliveries', [
      { head: 'Number', cell: ({ attempt }) => attempt },
      { head: 'Ended', cell: ({ at }) => moment(at) },
      { head: 'Took', cell: ({ ms }) => ms === null ? '–' : duration(ms), number: true },
      { head: 'Result', cell: ({ status, error }) => [status ?? '', ' ', error === null ? 'Delivered' : said(error)] },
      ...mayRead ? [{ head: 'Answer', cell: answerOf }] : []
    ], deliveries))
}

function answerOf ({ attempt, status, contentType, body, encoding, truncated }: PastDeliveryJson): Child {
  if (status === null) return 'None'
  const type = contentType === null ? null : said(contentType)
  if (body === null || body === '') return [type, type === null ? 'No body' : ', no body']
  const what = [encoding === 'base64' ? 'base64' : null, truncated ? 'only its beginning' : null].filter((each) => each !== null)
  return [
    p({}, type, type === null || what.length === 0 ? null : ', ', what.join(', ')),
    pre({ class: 'body', tabindex: 0, 'aria-label': `Answer to delivery ${attempt}`, role: 'region' }, visible(body, { lines: true }))
  ]
}

function requestKept ({ state, requestKeptUntil }: MessageJson): Child {
  return state === 'delivered' ? momentOr(requestKeptUntil, 'Deleted: no replay') : 'As long as the message'
}

function lastDelivery ({ state, tries, lastStatus, error }: MessageJson): Child {
  if (lastStatus !== null || error !== null) return [lastStatus ?? '', ' ', error === null ? null : said(error)]
  if (tries === 0) return state === 'waiting' ? 'None yet' : 'None'
  return state === 'delivering' ? 'Under way' : 'No error'
}

function nextDelivery (message: MessageJson, { paused, group }: Around): Child {
  const { id, state, dueAt } = message
  if (state === 'delivering') return 'Under way'
  if (state !== 'waiting') return 'Not planned'
  const pause = paused === null ? null : 'Not before its route is resumed. '
  if (dueAt !== null) return pause === null ? moment(dueAt) : [pause, 'Due: ', moment(dueAt)]
  if (group?.first.id === id) return [pause, 'It is the next one of its group']
  const first = group === null ? null : [', behind ', messageLink(group.first.id), ' ', stateOf(group.first.state)]
  return [pause, 'It waits for its turn in its group', first]
}

function nextSteps (visit: Visit, message: MessageJson, around: Around): Child {
  const { id, state, requestKeptUntil } = message
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
  const stop = stopsItsGroup(message) ? p({}, stopWords(around), ' Retry it, or discard it so that the group goes on.') : null
  if (!visit.may('operator')) return [stop, p({}, 'To retry or discard it needs the role operator.')]
  return [
    state === 'held' ? p({}, 'It was sent, and nobody knows whether the consumer took it. Find out there before you retry it.') : null,
    stop,
    p({ class: 'actions' },
      a({ class: 'button main', href: to`/inbox/messages/${id}/retry` }, 'Retry …'),
      a({ class: 'button', href: to`/inbox/messages/${id}/discard` }, 'Discard …'))
  ]
}

interface Change {
  readonly action: string
  readonly operation: 'retryMessage' | 'discardMessage' | 'replayMessage'
  readonly title: string
  readonly consequence: (message: MessageJson, visit: Visit) => ReadonlyArray<string | false>
  /** It is to be delivered afterwards. */
  readonly delivers: boolean
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
    delivers: true,
    consequence: (message) => [
      `It waits again, with its full number of attempts${message.ordered ? ', for the turn of its group' : ', and is due at once'}.`,
      message.state === 'held' && 'If the consumer took it the last time, it gets it twice.',
      stopsItsGroup(message) && 'It keeps its place, and its group goes on waiting for it. If it is given up again, it stops its group again.'
    ],
    refusal: notOpen
  },
  {
    action: 'discard',
    operation: 'discardMessage',
    title: 'Discard',
    delivers: false,
    consequence: (message) => ['It is never delivered.', discardedFrom(message)],
    refusal: notOpen
  },
  {
    action: 'replay',
    operation: 'replayMessage',
    title: 'Replay',
    delivers: true,
    consequence: ({ ordered, route }, { context }) => [
      'The consumer has taken it, and gets it once more, with Onceway-Replay: true and the same Onceway-Key.',
      ordered && 'The messages of its group that still wait go after it.',
      ordered && guardedRoute(context, route)?.idempotency.inbox?.onDead === 'stop-group' &&
        'If it is given up this time, it stops its group until an operator retries or discards it.'
    ],
    refusal: ({ state, requestKeptUntil }) => {
      if (state !== 'delivered') return `Only a delivered message can be replayed. It is ${state} now.`
      return requestKeptUntil === null ? 'The request of this message is deleted. It cannot be replayed.' : null
    }
  }
]

function discardedFrom (message: MessageJson): string | false {
  if (!message.ordered) return false
  if (message.state === 'waiting' || stopsItsGroup(message)) return 'The later messages of its group go on without it.'
  return 'Its group does not wait for it.'
}

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
    notMade(visit.form),
    await changesOf(visit, id, 'Who changed it'),
    message instanceof OperatorProblem
      ? p({}, 'The message is forgotten.')
      : section({ class: 'card' }, h2({}, 'What it is now'), messageFacts(message, await aroundOf(visit, message))),
    p({ class: 'actions' }, a({ class: 'button', href: '/inbox/messages' }, 'To the messages')))
}

async function confirmation (visit: Visit, change: Change, problem: OperatorProblem | null): Promise<Screen> {
  const id = visit.params.id ?? ''
  const message = await visit.ask('showMessage', { params: { id } })
  if (message instanceof OperatorProblem) return problemScreen(message)
  const refusal = change.refusal(message)
  if (refusal !== null) return conflictScreen(visit, new OperatorProblem('refused', refusal), id)
  const around = await aroundOf(visit, message)
  return screen(`${change.title} message ${shortId(message.id)}`, [
    problemBox(problem),
    change.delivers ? pauseNotice(around) : null,
    div({ class: 'columns' },
      section({ class: 'card' }, h2({}, 'What follows'),
        stopsItsGroup(message) ? p({}, stopWords(around)) : null,
        p({ class: 'consequence' }, visible(change.consequence(message, visit).filter((each) => each !== false).join(' '))),
        postForm(visit, { action: to`/inbox/messages/${message.id}/${change.action}` },
          hidden('state', message.state),
          hidden('attempt', message.attempt),
          reasonField(visit.form.get('reason') ?? '', problem),
          p({ class: 'actions' },
            button({ class: 'main', type: 'submit' }, `${change.title} this message`),
            a({ class: 'button quiet', href: to`/inbox/messages/${message.id}` }, 'Leave it')))),
      section({ class: 'card' }, h2({}, 'What it is'), messageFacts(message, around)))
  ], problem?.status)
}
