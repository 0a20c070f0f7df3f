/** Requests of delivered messages that are kept for replays. Each statement reads the index messages_kept. */
import type { DroppedRequests, KeptBound, KeptRequests, KeptUntil } from '../../ports/inbox.ts'
import { bigints, texts } from './arrays.ts'
import { BELIEVED, type Session, type Statement } from './statements.ts'

/** A large table gets its index beside the gateways. Before that, each of these statements would read the whole table. */
const isIndexed = (schema: string) =>
  `exists (select from pg_catalog.pg_index i where i.indexrelid = pg_catalog.to_regclass('${schema.replaceAll("'", "''")}.messages_kept') and i.indisvalid)`

/**
 * $1 routes, $2 how many requests each may keep, $3 how many bytes. The newest are kept. The other requests end with the newest of them.
 * What a route keeps is read once from the index, and once more if it is too much.
 */
const REQUESTS_KEPT: Statement = {
  name: 'requests_kept',
  writes: false,
  text: (schema) => `with bounds as materialized (
  select * from unnest($1::text[], $2::bigint[], $3::bigint[]) as b (route, messages, bytes) where ${isIndexed(schema)}
)
select b.route, k.messages::float8 as messages, k.bytes::float8 as bytes, case when k.messages > b.messages or k.bytes > b.bytes then (
    select ceil(extract(epoch from max(o.request_until)) * 1000)::float8 from (
      select m.request_until, row_number() over newest as place, sum(m.bytes::bigint) over newest as upto
        from ${schema}.messages m where m.route = b.route and m.request_until is not null
      window newest as (order by m.request_until desc rows unbounded preceding)) o
     where o.place > b.messages or o.upto > b.bytes) end as "beyondMs"
  from bounds b cross join lateral (
    select count(*) as messages, coalesce(sum(m.bytes::bigint), 0) as bytes
      from ${schema}.messages m where m.route = b.route and m.request_until is not null) k`
}

export async function keptRequests (session: Session, bounds: readonly KeptBound[]): Promise<KeptRequests[]> {
  if (bounds.length === 0) return []
  return session.run<KeptRequests>(REQUESTS_KEPT, [
    texts(bounds.map(({ route }) => route)),
    bigints(bounds.map(({ messages }) => messages)),
    bigints(bounds.map(({ bytes }) => bytes))
  ])
}

/** From the rows `over`, which are locked. Somebody who holds one of them locked replays it, or deletes it. */
const dropping = (schema: string) => `update ${schema}.messages m
   set request_until = null, target = '', headers = '', body = ''
 where m.id = any (array(select id from over))
returning m.route`

/** $1 limit for each route. One entry of the index is read for each route. */
const REQUESTS_EXPIRE: Statement = {
  name: 'requests_expire',
  writes: true,
  text: (schema) => `with recursive routes as (
  (select m.route from ${schema}.messages m where m.request_until is not null and ${isIndexed(schema)} order by m.route limit 1)
  union all
  select (select m.route from ${schema}.messages m where m.request_until is not null and m.route > r.route order by m.route limit 1)
    from routes r where r.route is not null
), over as materialized (
  select o.id from routes r cross join lateral (
    select m.id from ${schema}.messages m
     where m.route = r.route and m.request_until <= least(statement_timestamp(), ${BELIEVED})
     order by m.request_until
     limit $1
       for no key update of m skip locked) o
)
${dropping(schema)}`
}

/** $1 limit for each route, $2 routes, $3 until when. */
const REQUESTS_DROP: Statement = {
  name: 'requests_drop',
  writes: true,
  text: (schema) => `with over as materialized (
  select o.id from unnest($2::text[], $3::bigint[]) as b (route, until_ms) cross join lateral (
    select m.id from ${schema}.messages m
     where m.route = b.route and m.request_until <= to_timestamp(b.until_ms / 1000.0)
     order by m.request_until
     limit $1
       for no key update of m skip locked) o
)
${dropping(schema)}`
}

export async function dropRequests (session: Session, beyond: readonly KeptUntil[], limit: number): Promise<DroppedRequests> {
  const expired = await session.run<{ route: string }>(REQUESTS_EXPIRE, [limit])
  if (beyond.length === 0) return { expired: expired.length, beyond: [] }
  const rows = await session.run<{ route: string }>(REQUESTS_DROP, [
    limit,
    texts(beyond.map(({ route }) => route)),
    bigints(beyond.map(({ untilMs }) => Math.floor(untilMs)))
  ])
  const countOf = (name: string): number => rows.filter(({ route }) => route === name).length
  return { expired: expired.length, beyond: beyond.map(({ route }) => ({ route, count: countOf(route) })) }
}
