/** The gateway and its stores on one page: what it promises, what it does, and what waits for somebody. */
import type { OverviewJson } from '../../../operator/overview/overview.ts'
import { OperatorProblem } from '../../../operator/shared/problem.ts'
import { a, div, figure, h2, li, p, section, span, ul } from '../shell/elements.ts'
import type { Child } from '../shell/elements.ts'
import { facts } from '../shell/facts.ts'
import { withQuery } from '../shell/links.ts'
import { live, tableOf } from '../shell/lists.ts'
import { screen } from '../shell/page.ts'
import type { Page } from '../shell/page.ts'
import { problemScreen } from '../shell/problems.ts'
import { counted, duration, momentOr, said, visible } from '../shell/text.ts'

export const OVERVIEW_PATH = '/overview'

export const overviewPage: Page = {
  method: 'GET',
  path: OVERVIEW_PATH,
  role: 'viewer',
  run: async (visit) => {
    const found = await visit.ask('showOverview')
    if (found instanceof OperatorProblem) return problemScreen(found)
    // By the database's clock, if it tells the time. Without it no age is shown.
    const nowMs = found.unknown === null ? Date.now() : await visit.context.stores.operator.nowMs().catch(() => Date.now())
    return screen('Overview', live(visit, 'overview',
      div({ class: 'columns' },
        section({ class: 'card' }, h2({}, 'What it promises'), promise(found)),
        section({ class: 'card' }, h2({}, 'Unknown outcomes'), unknown(found, nowMs))),
      section({ class: 'card' }, h2({}, 'Requests'), recent(found)),
      section({ class: 'card' }, h2({}, 'Inbox'), inbox(found)),
      section({ class: 'card' }, h2({}, 'Contact'), contact(found)),
      section({ class: 'card' }, h2({}, 'This gateway'), gateway(found))))
  }
}

const STATUS: Readonly<Record<OverviewJson['status']['status'], string>> = {
  ready: 'Ready',
  degraded: 'Ready, without a store',
  starting: 'Starting',
  draining: 'Draining',
  blocked: 'Cannot serve'
}

const REASONS: Readonly<Record<string, string>> = {
  'fsync-off': 'fsync is off: a crash of the database server loses what it has acknowledged.',
  'full-page-writes-off': 'full_page_writes is off: a crash can leave torn pages.',
  'synchronous-commit-off': 'synchronous_commit is off: a crash loses the last acknowledged commits.',
  'asynchronous-standby': 'A standby may be promoted that not every commit waits for.',
  'asynchronous-failover': 'Patroni may promote a standby that lacks acknowledged commits.',
  'failover-not-strict': 'With no standby there, Patroni lets commits go on at the primary alone.',
  'failover-unknown': 'No member of Patroni has said yet how a failover is made.',
  'redis-evicts': 'Redis evicts keys. That costs a round trip each time, and no safety.'
}

function promise ({ status, promise: held, stores }: OverviewJson): Child {
  const isWell = status.status === 'ready'
  return [
    facts([
      ['Status', span({ class: `state ${isWell ? 'state-completed' : 'state-dead'}` }, STATUS[status.status])],
      ...status.reason === null ? [] : [['Because', visible(status.reason)] as const],
      ...status.degraded.length === 0 ? [] : [['Not usable now', status.degraded.join(', ')] as const],
      [
        'Promise',
        held === null
          ? 'Not known: the database has not been read yet'
          : span({ class: `state ${held.promise === 'strict' ? 'state-completed' : 'state-held'}` }, held.promise)
      ]
    ]),
    held === null || held.reasons.length + held.remarks.length === 0
      ? null
      : ul({}, [...held.reasons, ...held.remarks].map((reason) => li({}, REASONS[reason] ?? visible(reason)))),
    ul({}, stores.map((store) => li({}, said(store))))
  ]
}

type Part = OverviewJson['notRead'][number]['part']

function notRead ({ notRead: parts }: OverviewJson, part: Part): Child {
  const why = parts.find((each) => each.part === part)?.why ?? 'the database did not answer'
  return p({ class: 'notice' }, `Not read: ${visible(why)}. What is shown beside it is what this process knows itself.`)
}

function contact (overview: OverviewJson): Child {
  const { contact: { stores, gateways }, gateway: { instance } } = overview
  return [
    facts(stores.map(({ store, usable }) => [
      store,
      span({ class: `state ${usable ? 'state-completed' : 'state-dead'}` }, usable ? 'In contact' : 'No contact')
    ] as const)),
    gateways === null
      ? notRead(overview, 'contact.gateways')
      : gateways.length === 0
        ? p({}, 'No other gateway can use this store.')
        : tableOf('Gateways of this database, with a sign of life within the last hour', [
          { head: 'Gateway', cell: (each) => [said(each.instance), each.instance === instance ? ' (this one)' : null] },
          { head: 'Last sign of life', cell: ({ seenAt }) => momentOr(seenAt, '–') }
        ], gateways)
  ]
}

function unknown (overview: OverviewJson, nowMs: number): Child {
  if (overview.unknown === null) return notRead(overview, 'unknown')
  const { unknown: { count, oldestAt, routes } } = overview
  if (count === 0) return p({}, 'None. An outcome would be counted here if a request was sent and no complete answer came back.')
  return [
    p({}, `${counted(count, 'outcome is', 'outcomes are')} unknown`, oldestAt === null
      ? '.'
      : [', the oldest for ', duration(nowMs - Date.parse(oldestAt)), '. ', a({ href: '/unknown' }, 'Find out and decide')]),
    tableOf('Unknown outcomes by route and age', [
      { head: 'Route', cell: ({ route }) => a({ href: withQuery('/unknown', { route }) }, said(route)) },
      { head: '< 1 h', number: true, cell: ({ ages }) => ages[0] ?? 0 },
      { head: '< 1 d', number: true, cell: ({ ages }) => ages[1] ?? 0 },
      { head: '< 7 d', number: true, cell: ({ ages }) => ages[2] ?? 0 },
      { head: 'Older', number: true, cell: ({ ages }) => ages[3] ?? 0 }
    ], routes)
  ]
}

/** So many minutes lie between two labels of the picture. */
const LABEL_EVERY = 10

const lastOf = (minutes: number): string => minutes === 1 ? 'minute' : counted(minutes, 'minute')

function recent ({ recent: { minutes, requests, executionsAvoided, routes } }: OverviewJson): Child {
  if (requests === 0) {
    return p(
      {},
    `No guarded request in the last ${lastOf(minutes)}. Rates and durations of each route would be here, of this gateway alone.`
    )
  }
  const length = Math.max(...routes.map(({ perMinute }) => perMinute.length))
  const values = Array.from({ length }, (_, at) => routes.reduce((sum, { perMinute }) => sum + (perMinute[at] ?? 0), 0))
  const labels = values.map((_value, at) => (length - 1 - at) % LABEL_EVERY === 0
    ? (
        at === length - 1 ? 'now' : `−${length - 1 - at}`
      )
    : '')
  return [
    p(
      {},
      `${counted(requests, 'guarded request')} in the last ${lastOf(minutes)}, of this gateway alone. ${counted(executionsAvoided, 'of them needed', 'of them needed')} no execution.`
    ),
    length < 2 ? null : figure({ class: 'plot', 'aria-hidden': 'true', 'data-plot': JSON.stringify({ labels, values }) }),
    tableOf('Requests by route', [
      { head: 'Route', cell: ({ route }) => a({ href: withQuery('/records', { route }) }, said(route)) },
      { head: 'Requests', number: true, cell: ({ outcomes }) => Object.values(outcomes).reduce((sum, each) => sum + each, 0) },
      { head: 'Outcomes', cell: ({ outcomes }) => outcomesText(outcomes) },
      { head: 'p50', number: true, cell: ({ p50Ms }) => quantile(p50Ms) },
      { head: 'p95', number: true, cell: ({ p95Ms }) => quantile(p95Ms) },
      { head: 'p99', number: true, cell: ({ p99Ms }) => quantile(p99Ms) }
    ], routes)
  ]
}

function outcomesText (outcomes: Readonly<Record<string, number>>): Child {
  const pairs = Object.entries(outcomes).sort(([, one], [, other]) => other - one)
  return pairs.length === 0
    ? '–'
    : pairs.map(
      ([outcome, count]) => span({ class: 'pair' }, `${visible(outcome)} ${count.toLocaleString('en')}`)
    )
}

/** The upper bound of a bucket. */
function quantile (ms: number | null): string {
  return ms === null ? '–' : `≤ ${ms} ms`
}

function inbox (overview: OverviewJson): Child {
  const { inbox: routes } = overview
  if (routes === null) return notRead(overview, 'inbox')
  if (routes.length === 0) return p({}, 'No route has an inbox.')
  return tableOf('Inbox by route', [
    {
      head: 'Route',
      cell: ({ route, paused }) => [a({ href: withQuery('/inbox/messages', { route }) }, said(route)), paused === null ? null : ' (paused)']
    },
    { head: 'Waiting', number: true, cell: ({ waiting }) => waiting },
    { head: 'Held', number: true, cell: ({ held }) => held },
    { head: 'Dead', number: true, cell: ({ dead }) => dead },
    { head: 'Oldest', cell: ({ oldestMs }) => oldestMs === null ? '–' : duration(oldestMs) }
  ], routes)
}

function gateway ({ gateway: { instance, version, node, workers, startedAt, configFile }, lastReload }: OverviewJson): Child {
  return [facts([
    ['Process', said(instance)],
    ['Version', `onceway ${version}, Node.js ${node}`],
    ['Workers', workers],
    ['Started', momentOr(startedAt, '–')],
    ['Configuration', a({ href: '/configuration' }, configFile === null ? 'of the command line' : said(configFile))],
    [
      'Last reload',
      lastReload === null
        ? 'None since the start'
        : [lastReload.result === 'ok' ? 'Taken ' : 'Refused ', momentOr(lastReload.at, '–')]
    ]
  ]), lastReload === null || lastReload.details.length === 0 ? null : ul({}, lastReload.details.map((each) => li({}, visible(each))))]
}
