/** Unknown outcomes: how many by route and by age, and the queue. */
import type { RecordSummaryJson } from '../../../operator/records/schemas.ts'
import { STAGES } from '../../../operator/records/schemas.ts'
import { OperatorProblem, type Outcome } from '../../../operator/shared/problem.ts'
import { INCOMPLETE } from '../../../operator/shared/words.ts'
import { PAGE_MAX } from '../../../operator/shared/schema-words.ts'
import { a, button, div, figure, form, h2, p, section, span } from '../shell/elements.ts'
import type { Child } from '../shell/elements.ts'
import { exportLinks } from '../shell/export.ts'
import { choice, routeChoice } from '../shell/forms.ts'
import { to, withQuery } from '../shell/links.ts'
import { emptyState, live, notesOf, pager, rest, tableOf, timeOrder } from '../shell/lists.ts'
import { screen } from '../shell/page.ts'
import type { Page, Visit } from '../shell/page.ts'
import { problemScreen } from '../shell/problems.ts'
import { counted, duration, moment, said, shortId, visible } from '../shell/text.ts'

const PATH = '/unknown'
/** More are counted in parts, by a filter. */
const COUNTED_MAX = 2_000
const STATE = 'indeterminate'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const AGES: ReadonlyArray<readonly [name: string, belowMs: number]> = [
  ['< 1 h', HOUR_MS], ['1–6 h', 6 * HOUR_MS], ['6–24 h', DAY_MS], ['1–7 d', 7 * DAY_MS], ['> 7 d', Infinity]
]

const SORTS = ['route', 'count', 'age'] as const
type Sort = typeof SORTS[number]

export const unknownQueue: Page = {
  method: 'GET',
  path: PATH,
  role: 'viewer',
  run: async (visit) => {
    const { query } = visit
    const search = { order: 'oldest', ...rest(query, ['sort', 'live']), state: STATE }
    const [found, all, nowMs] = [
      await visit.ask('searchRecords', { query: search }), await countAll(visit), await visit.context.stores.operator.nowMs()
    ]
    if (found instanceof OperatorProblem) return problemScreen(found, filterForm(visit))
    if (all instanceof OperatorProblem) return problemScreen(all, filterForm(visit))
    if (all.records.length === 0) {
      // A queue that is being watched goes on when something comes.
      return screen('Unknown outcomes', [filterForm(visit), live(visit, 'queue', all.isWhole ? nothing(query) : notesOf([INCOMPLETE]))])
    }
    return screen('Unknown outcomes', [
      filterForm(visit),
      visit.may('operator')
        ? p(
          { class: 'actions' },
          a(
            {
              class: 'button',
              href: withQuery('/records/changes', { ...rest(query, ['cursor', 'order', 'sort', 'limit', 'live']), state: STATE })
            },
            'Decide about all of these at once …'
          )
        )
        : null,
      live(visit, 'queue',
        p({ role: 'status' }, `${all.isWhole ? '' : 'More than '}${counted(all.records.length, 'outcome is', 'outcomes are')} unknown${all.isWhole ? '' : ', and these counts are of the oldest'}.`),
        section({ class: 'card' }, h2({}, 'The queue'), notesOf(found.notes), queueTable(query, found.records, nowMs)),
        pager(PATH, query, found),
        div({ class: 'columns' }, byRoute(visit, all.records, nowMs), byAge(all.records, nowMs))),
      exportLinks('/records/export', new URLSearchParams({ ...rest(query, ['sort']), state: STATE }))
    ])
  }
}

function nothing (query: URLSearchParams): Child {
  return Object.keys(rest(query, ['live', 'sort', 'order'])).length === 0
    ? emptyState('No outcome is unknown. A record would be here if its request was sent and no complete answer came back.')
    : emptyState('No unknown outcome matches. ', a({ href: PATH }, 'Show all of them.'))
}

function queueTable (query: URLSearchParams, records: readonly RecordSummaryJson[], nowMs: number): Child {
  const order = timeOrder(PATH, new URLSearchParams({ order: 'oldest', ...rest(query) }))
  return tableOf<RecordSummaryJson>('Unknown outcomes', [
    { head: 'Record', cell: ({ id }) => a({ class: 'id', href: to`/unknown/${id}` }, shortId(id)) },
    {
      head: 'Claimed',
      cell: ({ claimedAt }) => [moment(claimedAt), ' ', span({ class: 'hint' }, `${duration(nowMs - Date.parse(claimedAt))} ago`)],
      sort: order
    },
    { head: 'Route', cell: ({ route }) => said(route) },
    { head: 'Request', cell: ({ method, path }) => said(`${method} ${path}`) },
    { head: 'Request id', cell: ({ requestId }) => said(requestId) },
    {
      head: 'Because',
      cell: ({ reason, asking }) => [
        reason === null ? null : [`${visible(reason.stage)} `, span({ class: 'hint' }, visible(reason.code))],
        asking === null ? null : span({ class: 'hint' }, ` asked ${counted(asking.tries, 'time')}`)
      ]
    }
  ], records)
}

interface RouteCount { readonly route: string, readonly count: number, readonly oldestMs: number }

function byRoute ({ query }: Visit, records: readonly RecordSummaryJson[], nowMs: number): Child {
  const counts = Array.from(Map.groupBy(records, ({ route }) => route), ([route, of]): RouteCount => ({
    route, count: of.length, oldestMs: nowMs - Math.min(...of.map(({ claimedAt }) => Date.parse(claimedAt)))
  }))
  const set = SORTS.find((each) => each === query.get('sort')) ?? 'age'
  const sort = (by: Sort) => ({ isSet: set === by, down: by !== 'route', href: withQuery(PATH, { ...rest(query, ['cursor']), sort: by }) })
  return section({ class: 'card' }, h2({}, 'By route'), tableOf<RouteCount>('By route', [
    {
      head: 'Route',
      sort: sort('route'),
      cell: ({ route }) => a({ href: withQuery(PATH, { ...rest(query, ['cursor', 'sort']), route }) }, said(route))
    },
    { head: 'Unknown', number: true, sort: sort('count'), cell: ({ count }) => count },
    { head: 'Oldest', sort: sort('age'), cell: ({ oldestMs }) => duration(oldestMs) }
  ], counts.sort(ORDERS[set])))
}

const ORDERS: Readonly<Record<Sort, (one: RouteCount, other: RouteCount) => number>> = {
  route: (one, other) => one.route < other.route ? -1 : 1,
  count: (one, other) => other.count - one.count,
  age: (one, other) => other.oldestMs - one.oldestMs
}

/** The picture shows the numbers of the table beside it. */
function byAge (records: readonly RecordSummaryJson[], nowMs: number): Child {
  const ages = records.map(({ claimedAt }) => nowMs - Date.parse(claimedAt))
  const rows = AGES.map(
    ([name, belowMs], at) => ({ name, count: ages.filter((age) => age < belowMs && age >= (AGES[at - 1]?.[1] ?? -Infinity)).length })
  )
  return section({ class: 'card' }, h2({}, 'By age'),
    figure({
      class: 'plot',
      'aria-hidden': 'true',
      'data-plot': JSON.stringify({ labels: rows.map(({ name }) => name), values: rows.map(({ count }) => count) })
    }),
    tableOf('By age', [{ head: 'Age', cell: ({ name }) => name }, { head: 'Unknown', number: true, cell: ({ count }) => count }], rows))
}

interface All { readonly records: readonly RecordSummaryJson[], readonly isWhole: boolean }

/** The oldest first. @throws as the store does */
async function countAll (visit: Visit): Promise<Outcome<All>> {
  const records: RecordSummaryJson[] = []
  const filter = { ...rest(visit.query, ['sort', 'live', 'cursor', 'order', 'limit']), state: STATE, order: 'oldest', limit: PAGE_MAX }
  for (let cursor: string | null = ''; cursor !== null && records.length < COUNTED_MAX;) {
    const page: Awaited<ReturnType<typeof visit.ask<'searchRecords'>>> = await visit.ask(
      'searchRecords', { query: { ...filter, ...cursor !== '' && { cursor } } }
    )
    if (page instanceof OperatorProblem) return page
    records.push(...page.records)
    cursor = page.next
    if (cursor !== null && !page.whole) return { records, isWhole: false }
    if (cursor === null) return { records, isWhole: true }
  }
  return { records, isWhole: false }
}

function filterForm ({ query, context }: Visit): Child {
  return form({ method: 'get', action: PATH, class: 'card search', role: 'search', 'aria-label': 'Unknown outcomes' },
    div({ class: 'fields' },
      routeChoice(
        query.get('route') ?? '', context.config.routes.filter(({ idempotency }) => idempotency !== null).map(({ name }) => name)
      ),
      choice(
        { name: 'stage', label: 'Because of', value: query.get('stage') ?? '' },
        [['', 'Anything'], ...STAGES.map((stage) => [stage, stage] as const)]
      ),
      choice({ name: 'order', label: 'Order', value: query.get('order') ?? '' }, [['', 'Oldest first'], ['newest', 'Newest first']])),
    p({ class: 'actions' }, button({ class: 'main', type: 'submit' }, 'Show'), a({ class: 'button quiet', href: PATH }, 'Clear')))
}
