/** Requests of delivered messages that are kept for replays, in one SQLite connection. Each statement reads the index messages_kept. */
import type { DroppedRequests, KeptBound, KeptRequests, KeptUntil } from '../../ports/inbox.ts'
import { keptOf } from '../shared/kept-requests.ts'
import type { Columns, preparedOnce } from './columns.ts'

type Prepare = ReturnType<typeof preparedOnce>

const TOTAL = 'select count(*) as messages, coalesce(sum(bytes), 0) as bytes from messages where route = ? and request_until is not null'

const OLDEST = 'select bytes, request_until from messages where route = ? and request_until is not null order by request_until'

/** One entry of the index for each route. */
const ROUTES = `with recursive r(route) as (
  select min(route) from messages where request_until is not null
  union all
  select (select min(m.route) from messages m where m.request_until is not null and m.route > r.route) from r where r.route is not null
)
select route from r where route is not null`

const DROP = `update messages set request_until = null, target = x'', headers = x'', body = x''
 where number in (select number from messages where route = ? and request_until <= ? order by request_until limit ?)`

/** Reads all that a route keeps, but only from the index, and the entries that are beyond the bound once more. */
export function keptRequests (prepare: Prepare, bounds: readonly KeptBound[]): KeptRequests[] {
  return bounds.map((bound) => {
    const total = prepare(TOTAL).get(bound.route) as unknown as Pick<KeptBound, 'messages' | 'bytes'>
    return keptOf(bound, oldestOf(prepare, bound.route), { messages: total.messages, bytes: total.bytes })
  })
}

function * oldestOf (prepare: Prepare, route: string): Generator<{ readonly bytes: number, readonly untilMs: number }> {
  for (const { bytes, request_until: untilMs } of prepare(OLDEST).iterate(route) as Iterable<Columns>) {
    yield { bytes: bytes as number, untilMs: untilMs as number }
  }
}

export function dropRequests (prepare: Prepare, beyond: readonly KeptUntil[], limit: number, overMs: number): DroppedRequests {
  const drop = (route: string, untilMs: number): number => Number(prepare(DROP).run(route, Math.floor(untilMs), limit).changes)
  const routes = prepare(ROUTES).all() as unknown as ReadonlyArray<{ readonly route: string }>
  return {
    expired: routes.reduce((sum, { route }) => sum + drop(route, overMs), 0),
    beyond: beyond.map(({ route, untilMs }) => ({ route, count: drop(route, untilMs) }))
  }
}
