/**
 * The list of a message's deliveries. The last one of a delivered message stands in the message's row alone, so that a message that is
 * delivered at once costs nothing more. Every other one has a row in `deliveries`, which the statement writes that ends it.
 */
import { DELIVERIES_MAX, REPLY_BYTES_MAX, type PastDelivery } from '../../core/inbox/message.ts'
import { listedOf } from '../../core/inbox/row.ts'
import { ANSWER_HEADERS_AT, ANSWER_PREFIX_BYTES } from '../../core/protocol/codec.ts'
import type { Session, Statement } from './statements.ts'

const COLUMNS = 'attempt, at, took_ms, status, error, content_type, body, is_cut'

/**
 * Further parts of a statement: lists the rows of `from`, which have an `id` and these columns. The first delivery of a message stays, and
 * the last ones. A message is found by its id alone: a join that the planner takes for large would read the whole table.
 */
export function listing (schema: string, from: string): string {
  return `listed as (
  insert into ${schema}.deliveries (message_id, ${COLUMNS})
  select l.id, ${COLUMNS.replaceAll(/\w+/g, 'l.$&')} from ${from} l
  on conflict do nothing
), dropped as (
  delete from ${schema}.deliveries d using ${from} l cross join lateral (
    select e.attempt from ${schema}.deliveries e where e.message_id = l.id order by e.attempt desc offset ${DELIVERIES_MAX - 2} limit 1) last
   where l.attempt > ${DELIVERIES_MAX} and d.message_id = any (array[l.id]) and d.attempt <= last.attempt
     and exists (select from ${schema}.deliveries f where f.message_id = d.message_id and f.attempt < d.attempt)
)`
}

/** The last delivery of a message that has ended, from its row. */
export function lastDelivery (table: string): string {
  const headers = `('x' || encode(substring(${table}.answer from ${ANSWER_HEADERS_AT + 1} for 4), 'hex'))::bit(32)::bigint`
  const bodyAt = `least(octet_length(${table}.answer), ${ANSWER_PREFIX_BYTES} + ${headers})::int`
  return `${table}.settled_at as at, ${table}.took_ms, ${table}.status, ${table}.content_type,
       coalesce(substring(${table}.answer from ${bodyAt} + 1 for ${REPLY_BYTES_MAX}), '') as body,
       coalesce(octet_length(${table}.answer) - ${bodyAt} > ${REPLY_BYTES_MAX}, false) as is_cut`
}

/**
 * It is not listed: the message is delivered, or a build ended it that lists nothing. Times tell, because attempts change with an epoch.
 */
export function isUnlisted (schema: string, table: string, id: string): string {
  return `(${table}.state = 'delivered' or (${table}.state in ('dead', 'held') and not exists (
    select from ${schema}.deliveries p where p.message_id = ${id} and p.at >= ${table}.settled_at)))`
}

const MESSAGE_DELIVERIES: Statement = {
  name: 'message_deliveries',
  writes: false,
  text: (schema) => `select l.attempt, (extract(epoch from l.at) * 1000)::float8 as at_ms, l.took_ms::float8 as took_ms, l.status, l.error, l.content_type, l.body, l.is_cut
  from (
    select ${COLUMNS} from ${schema}.deliveries where message_id = $1
    union all
    select ${COLUMNS} from (select m.attempt, m.error, ${lastDelivery('m')} from ${schema}.messages m where m.id = $1 and ${isUnlisted(schema, 'm', 'm.id')}) u) l
 order by l.attempt`
}

interface DeliveryColumns {
  readonly attempt: number
  readonly at_ms: number
  readonly took_ms: number | null
  readonly status: number | null
  readonly error: string | null
  readonly content_type: string | null
  readonly body: Buffer
  readonly is_cut: boolean
}

export async function pastDeliveries (session: Session, id: Buffer): Promise<readonly PastDelivery[]> {
  const rows = await session.run<DeliveryColumns>(MESSAGE_DELIVERIES, [id])
  return listedOf(rows.map(({ at_ms: atMs, took_ms: ms, content_type: contentType, is_cut: isCut, ...rest }) => ({
    ...rest, atMs, ms, contentType, isCut
  })))
}
