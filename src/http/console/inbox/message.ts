/** One message of the inbox, with what may be done. */
import type { MessageJson } from '../../../operator/inbox/schemas.ts'
import { OperatorProblem } from '../../../operator/shared/problem.ts'
import { changesOf, lastChange } from '../audit/rows.ts'
import { a, button, div, h2, p, section } from '../shell/elements.ts'
import type { Child } from '../shell/elements.ts'
import { facts } from '../shell/facts.ts'
import { hidden, postForm, problemBox, reasonField, valuesOf } from '../shell/forms.ts'
import { headerTable } from '../shell/headers.ts'
import { to } from '../shell/links.ts'
import { redirect, screen } from '../shell/page.ts'
import type { Page, Screen, Visit } from '../shell/page.ts'
import { problemScreen } from '../shell/problems.ts'
import { bytes, moment, momentOr, said, shortId, visible } from '../shell/text.ts'
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
    p({ class: 'actions' }, a({ class: 'button', href: '/inbox/messages' }, 'To the messages')))
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
