/** The inbox: its routes with depth and age, and the pause of one. */
import { inboxesOf } from '../../../core/inbox/targets.ts'
import type { InboxJson } from '../../../operator/inbox/routes.ts'
import { OperatorProblem } from '../../../operator/shared/problem.ts'
import { a, button, p, section, span } from '../shell/elements.ts'
import type { Child } from '../shell/elements.ts'
import { postForm, problemBox, reasonField, valuesOf } from '../shell/forms.ts'
import { withQuery } from '../shell/links.ts'
import { emptyState, live, rest, tableOf } from '../shell/lists.ts'
import type { Column } from '../shell/lists.ts'
import { redirect, screen } from '../shell/page.ts'
import type { Page, Screen, Visit } from '../shell/page.ts'
import { problemScreen } from '../shell/problems.ts'
import { bytes, duration, moment, said, visible } from '../shell/text.ts'
import { groupsPath } from './groups.ts'

type Route = InboxJson['routes'][number]

const PATH = '/inbox'
const SORTS = ['route', 'waiting', 'held', 'dead', 'age'] as const
type Sort = typeof SORTS[number]

export const inboxRoutesPage: Page = {
  method: 'GET',
  path: PATH,
  role: 'viewer',
  run: async (visit) => {
    const found = await visit.ask('showInbox')
    if (found instanceof OperatorProblem) return problemScreen(found)
    return screen('Inbox', [
      p({ class: 'actions' },
        a({ class: 'button', href: '/inbox/messages' }, 'All messages'),
        a({ class: 'button', href: '/inbox/messages?state=dead' }, 'Dead letters'),
        a({ class: 'button', href: '/inbox/messages?state=held' }, 'Held')),
      found.routes.length === 0
        ? emptyState('No route has an inbox. A route with mode: inbox, or async: allowed, would be here with its messages.')
        : live(visit, 'routes', routeTable(visit, found.routes))
    ])
  }
}

function routeTable (visit: Visit, routes: readonly Route[]): Child {
  const { query } = visit
  const set = SORTS.find((each) => each === query.get('sort')) ?? 'route'
  const sort = (by: Sort) => ({ isSet: set === by, down: by !== 'route', href: withQuery(PATH, { ...rest(query), sort: by }) })
  const count = (head: string, state: 'waiting' | 'delivering' | 'held' | 'dead', by?: Sort): Column<Route> => ({
    head,
    number: true,
    ...by !== undefined && { sort: sort(by) },
    cell: (route) => a(
      // Of dead letters the oldest are the first to be forgotten, and the table has no age of them.
      { href: withQuery('/inbox/messages', { route: route.route, state, order: state === 'dead' ? 'oldest' : undefined }) },
      String(route[state]),
      span({ class: 'unseen' }, ` ${head.toLowerCase()}`)
    )
  })
  return tableOf<Route>('Routes of the inbox', [
    {
      head: 'Route',
      sort: sort('route'),
      cell: (route) => [
        said(route.route),
        route.configured ? null : span({ class: 'hint' }, 'Not configured: nothing delivers it'),
        hasGroups(visit, route) ? [' ', a({ href: groupsPath(route.route) }, 'Groups')] : null
      ]
    },
    count('Waiting', 'waiting', 'waiting'),
    count('In delivery', 'delivering'),
    count('Held', 'held', 'held'),
    count('Dead', 'dead', 'dead'),
    { head: 'Oldest waiting', sort: sort('age'), cell: ({ oldestMs }) => oldestMs === null ? '–' : duration(oldestMs) },
    { head: 'Size', number: true, cell: (route) => bytes(route.bytes) },
    { head: 'Delivery', cell: (route) => pauseCell(visit, route) }
  ], routes.toSorted(ORDERS[set]))
}

function hasGroups ({ context }: Visit, { route }: Route): boolean {
  return inboxesOf(context.config.routes).some(({ name, idempotency: { inbox } }) => name === route && inbox.order !== null)
}

const ORDERS: Readonly<Record<Sort, (one: Route, other: Route) => number>> = {
  route: (one, other) => one.route < other.route ? -1 : 1,
  waiting: (one, other) => other.waiting - one.waiting,
  held: (one, other) => other.held - one.held,
  dead: (one, other) => other.dead - one.dead,
  age: (one, other) => (other.oldestMs ?? -1) - (one.oldestMs ?? -1)
}

function pauseCell (visit: Visit, { route, paused }: Route): Child {
  const change = (path: string, text: string): Child => visit.may('operator')
    ? a({ class: 'button quiet', href: withQuery(path, { route }) }, text)
    : null
  return paused === null
    ? ['Runs ', change('/inbox/pause', 'Pause …')]
    : [
        span({ class: 'state state-paused' }, 'Paused'),
        ' since ',
        moment(paused.since),
        ' by ',
        said(paused.who),
        ': ',
        said(paused.why),
        paused.trialAt === null ? null : [', next trial ', moment(paused.trialAt)],
        ' ',
        change('/inbox/resume', 'Resume …')
      ]
}

interface Pause {
  readonly path: string
  readonly operation: 'pauseRoute' | 'resumeRoute'
  readonly title: string
  readonly button: string
  readonly consequence: (route: Route) => string
}

const PAUSES: readonly Pause[] = [
  {
    path: '/inbox/pause',
    operation: 'pauseRoute',
    title: 'Pause',
    button: 'Pause deliveries',
    consequence: ({ waiting, delivering }) => [
      `Messages are accepted and not delivered until somebody resumes the route: ${waiting} wait now.`,
      `Deliveries in flight go on: ${delivering} now.`
    ].join(' ')
  },
  {
    path: '/inbox/resume',
    operation: 'resumeRoute',
    title: 'Resume',
    button: 'Resume deliveries',
    consequence: ({ waiting }) => `Messages are delivered again, those that are due at once: ${waiting} wait now.`
  }
]

export const pausePages: readonly Page[] = PAUSES.flatMap((pause) => [
  { method: 'GET', path: pause.path, role: 'operator', run: async (visit) => confirmation(visit, pause, null) },
  {
    method: 'POST',
    path: pause.path,
    role: 'operator',
    run: async (visit) => {
      const done = await visit.ask(
        pause.operation, { params: { route: visit.query.get('route') ?? '' }, body: valuesOf(visit.form, ['reason']) }
      )
      return done instanceof OperatorProblem ? confirmation(visit, pause, done) : redirect(PATH)
    }
  }
] satisfies Page[])

async function confirmation (
  visit: Visit, { path, title, button: text, consequence }: Pause, problem: OperatorProblem | null
): Promise<Screen> {
  const name = visit.query.get('route') ?? ''
  const inbox = await visit.ask('showInbox')
  if (inbox instanceof OperatorProblem) return problemScreen(inbox)
  const route = inbox.routes.find((each) => each.route === name)
  if (route === undefined) return problemScreen(new OperatorProblem('not-found', 'No route of this name has an inbox.'))
  return screen(`${title} route ${visible(name)}`, [
    problemBox(problem),
    section({ class: 'card' },
      route.paused === null
        ? null
        : p({}, 'Paused since ', moment(route.paused.since), ' by ', said(route.paused.who), ': ', said(route.paused.why)),
      p({ class: 'consequence' }, consequence(route)),
      postForm(visit, { action: withQuery(path, { route: name }) },
        reasonField(visit.form.get('reason') ?? '', problem),
        p({ class: 'actions' }, button({ class: 'main', type: 'submit' }, text), a({ class: 'button quiet', href: PATH }, 'Leave it'))))
  ], problem?.status)
}
