/**
 * Open messages in a search. They lie in the index by route and state, and in each such part by their time (messages_depth). A hundred
 * routes have 400 parts. One statement reads a step of many of them, each from its own place on.
 */
import type { MessageSearch, MessageSummary, Order, Position } from '../../ports/operator.ts'
import { NUMBER_ENDS, numberOfPlace, placeOfNumber } from '../shared/places.ts'
import type { Found, Step, Stream } from '../shared/search.ts'
import { texts } from './arrays.ts'
import { summaryColumns, toSummary, type SummaryColumns } from './inbox-rows.ts'
import { CONDITIONS, filterValues, lastValues } from './message-filter.ts'
import { nearer, partStreams, type PartPlace, type PartsOrder } from './part-streams.ts'
import { exactTime, placeValues, timeOf, type Snapshot } from './search-step.ts'
import type { Statement, Values } from './statements.ts'

const OPEN_STATES = ['waiting', 'delivering', 'held', 'dead'] as const

/** The open messages of a route in a state. */
export interface OpenPart { readonly route: string, readonly state: typeof OPEN_STATES[number] }

/** Those in which anything may match. @throws as the snapshot does */
export async function openParts (snapshot: Snapshot, { route, state, withinMs }: MessageSearch): Promise<OpenPart[]> {
  const states = OPEN_STATES.filter((each) => state === undefined || state === each)
  if (states.length === 0) return []
  const routes = route !== undefined
    ? [{ route }]
    : await snapshot(withinMs, (session) => session.run<{ readonly route: string }>(OPEN_ROUTES, []))
  return routes.flatMap((each) => states.map((of) => ({ route: each.route, state: of })))
}

/** Those that have an open message. One entry of the index is read for each. */
const OPEN_ROUTES: Statement = {
  name: 'search_open_routes',
  writes: false,
  text: (schema) => {
    const least = (beyond: string) => `select m.route from ${schema}.messages m
     where m.state <> 'delivered' and m.state <> 'discarded'${beyond} order by m.route limit 1`
    return `with recursive open as (
  (${least('')})
  union all
  select n.route from open o cross join lateral (${least(' and m.route > o.route')}) n
)
select route from open`
  }
}

/** Of a part in one statement. With the most parts it looks at some thousand rows then. */
const ROWS_MIN = 16

export function openStreams (snapshot: Snapshot, search: MessageSearch, parts: readonly OpenPart[]): Array<Stream<MessageSummary>> {
  const statement = partsStatement(search.order)
  return partStreams(parts, { order: search.order, after: search.after, rowsMin: ROWS_MIN }, (places, order) =>
    snapshot(order.withinMs, async (session) =>
      stepsOf(places, await session.run<PartColumns>(statement, valuesOf(search, places, order)), search.order, order)))
}

type Places = ReadonlyArray<PartPlace<OpenPart>>

function valuesOf (search: MessageSearch, places: Places, { wanted, rows }: PartsOrder): Values {
  const [, , from = null, to = null] = placeValues(search, { from: null, wanted })
  return [
    ...filterValues(search),
    texts(places.map(({ part }) => part.route)),
    texts(places.map(({ part }) => part.state)),
    texts(places.map((place) => place.from === null ? null : place.from.at)),
    from,
    to,
    wanted,
    rows,
    ...lastValues(search),
    texts(places.map((place) => place.from === null ? null : String(numberOfPlace(place.from.id))))
  ]
}

/**
 * $6 to $8 and $15: route, state and place of each part. $9 and $10: from when, and before when. $11: how many to find, in all parts. $12:
 * how many rows to look at in each, and all of the same time as the last of them. So their order is the index's, and nothing is sorted. The
 * planner does not know how large a part is.
 */
function partsStatement (order: Order): Statement {
  const [before, direction, end] = order === 'newest' ? ['<', 'desc', 'infinity'] : ['>', 'asc', '-infinity']
  const by = `received_at ${direction}, number ${direction}`
  return {
    name: `message_search_open_${order}`,
    writes: false,
    text: (schema) => `with parts as materialized (
  select p.part, p.route, p.state, coalesce(timestamptz 'epoch' + p.at::bigint * interval '1 microsecond', '${end}') as at,
         coalesce(p.number::bigint, 0) as number
    from unnest($6::text[], $7::text[], $8::text[], $15::text[]) with ordinality p (route, state, at, number, part)
), seen as materialized (
  select p.part::int as part, r.*
    from parts p cross join lateral (
  select r.id, r.number, r.received_at, (${CONDITIONS}) as matches
    from ${schema}.messages r
   where r.route = p.route and r.state = p.state and r.state <> 'delivered' and r.state <> 'discarded'
     and r.received_at ${before}= p.at and (r.received_at ${before} p.at or r.number ${before} p.number)
     and ($9::text is null or r.received_at >= ${timeOf(9)}) and ($10::text is null or r.received_at < ${timeOf(10)})
   order by r.received_at ${direction}
   fetch first ($12::int) rows with ties
) r
), reach as materialized (
  select s.part, count(*)::int as seen, ${exactTime(order === 'newest' ? 'min(s.received_at)' : 'max(s.received_at)')} as last_at
    from seen s group by s.part
), hits as materialized (
  select s.id, s.part from seen s where s.matches order by s.${by.replace(', ', ', s.')} limit $11
), shown as materialized (
  select ${summaryColumns('r')}, ${exactTime('r.received_at')} as at, r.number as tie, (select h.part from hits h where h.id = r.id) as of
    from ${schema}.messages r where r.id = any (array(select id from hits))
)
select reach.*, s.* from reach left join shown s on s.of = reach.part
 order by s.at::bigint ${direction} nulls last, s.tie ${direction}`
  }
}

interface Reach { readonly part: number, readonly seen: number, readonly last_at: string }
/** bigint comes as text. */
type PartColumns = Reach & SummaryColumns & { readonly at: string | null, readonly tie: string | null }

/** One for each place. What is not in `rows` has nothing left. */
function stepsOf (
  places: Places,
  rows: readonly PartColumns[],
  order: Order,
  { wanted, rows: each }: PartsOrder
): Array<Step<MessageSummary>> {
  const found: Array<Array<Found<MessageSummary>>> = places.map(() => [])
  const reached: Array<Position | null> = places.map(() => null)
  let last: Position | null = null
  let count = 0
  for (const row of rows) {
    if (row.seen >= each) reached[row.part - 1] = { at: row.last_at, id: NUMBER_ENDS[order] }
    if (row.at === null || row.tie === null) continue
    last = { at: row.at, id: placeOfNumber(row.tie) }
    found[row.part - 1]?.push({ row: toSummary(row), position: last })
    count++
  }
  // Those that match behind the last one were left out, in every part.
  const end = count < wanted ? null : last
  return places.map((_, index) => ({ found: found[index] ?? [], reached: nearer(reached[index] ?? null, end, order) }))
}
