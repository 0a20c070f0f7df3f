/** What operators search in the inbox: open messages by route and state (messages_depth), ended ones by their time (messages_ended). */
import type { MessageDetail } from '../../core/inbox/message.ts'
import type { MessageSearch, Page } from '../../ports/operator.ts'
import { searchStreams, StepTimeOver, type StepOrder, type Stream } from '../shared/search.ts'
import { byteas } from './arrays.ts'
import type { Connections } from './connections.ts'
import { isPastMessage, messageColumns, toMessage, type MessageColumns } from './inbox-rows.ts'
import { likePath, placeValues, readStep, searching, stepStatement } from './search-step.ts'
import type { Session, Statement, Values } from './statements.ts'

/** $1 route, $2 state, $3 request id, $4 path or its beginning, $5 key hashes, $13 ended before (null: any). $6 is the stream's own. */
const CONDITIONS = `($1::text is null or r.route = $1) and ($2::text is null or r.state = $2) and ($3::text is null or r.request_id = $3)
     and ($4::text is null or r.path like $4) and ($5::bytea[] is null or r.key_hash = any ($5)) and not ${isPastMessage('r')}
     and ($13::float8 is null or r.settled_at is null or r.settled_at < to_timestamp($13::float8 / 1000))`

const OPEN_STATES = ['waiting', 'delivering', 'held', 'dead'] as const

export async function searchMessages (connections: Connections, search: MessageSearch): Promise<Page<MessageDetail>> {
  const { id, state, route } = search
  const stream = (name: string, where: string, own: Buffer | string | null): Stream<MessageDetail> => {
    const statement = stepStatement({
      name: `message_search_${name}`,
      table: 'messages',
      column: 'received_at',
      tie: 'number',
      where,
      conditions: CONDITIONS,
      columns: messageColumns('r'),
      order: search.order
    })
    return (order) => searching(connections, order.withinMs, (session) =>
      readStep<MessageColumns, MessageDetail>(
        session,
        statement,
        valuesOf(search, own, order),
        order,
        toMessage,
        [search.settledToMs ?? null]
      ))
  }
  if (id !== undefined) return searchStreams([stream('id', 'r.id = $6::bytea', id)], search)
  const routes = route === undefined ? await routesWithin(connections, search.withinMs) : [route]
  if (routes === null) return { rows: [], next: search.after, isWhole: false }
  const open = OPEN_STATES.filter((each) => state === undefined || state === each).flatMap((each) =>
    routes.map((name) => stream(each, `r.route = $6::text and r.state = '${each}'`, name)))
  const hasEnded = state === undefined || state === 'delivered' || state === 'discarded'
  const ended = hasEnded ? [stream('ended', "r.state in ('delivered', 'discarded') and $6::text is null", null)] : []
  return searchStreams([...open, ...ended], search)
}

function valuesOf (search: MessageSearch, own: Buffer | string | null, order: StepOrder): Values {
  const { route, state, requestId, path, keyHashes } = search
  return [
    route ?? null,
    state ?? null,
    requestId ?? null,
    path === undefined ? null : likePath(path),
    keyHashes === undefined ? null : byteas(keyHashes),
    own,
    ...placeValues(search, order)
  ]
}

/** Those of open messages: one entry of the index is read for each. */
const OPEN_ROUTES: Statement = {
  name: 'search_open_routes',
  writes: false,
  text: (schema) => {
    const least = (beyond: string) => `(select m.route from ${schema}.messages m
     where m.state <> 'delivered' and m.state <> 'discarded'${beyond} order by m.route limit 1)`
    return `with recursive open as (
  select ${least('')} as route
  union all
  select ${least(' and m.route > o.route')} from open o where o.route is not null
)
select route from open where route is not null`
  }
}

/** null: the time was over. */
async function routesWithin (connections: Connections, withinMs: number): Promise<string[] | null> {
  try {
    return await searching(connections, withinMs, openRoutes)
  } catch (error) {
    if (error instanceof StepTimeOver) return null
    throw error
  }
}

async function openRoutes (session: Session): Promise<string[]> {
  return (await session.run<{ route: string }>(OPEN_ROUTES, [])).map(({ route }) => route)
}
