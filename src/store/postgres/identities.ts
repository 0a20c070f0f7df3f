/**
 * Conditions on an identity (core/record/record-id.ts) that every statement tests before it begins something. Its scheme must
 * be the one that claims, and nothing live may exist under its earlier id. A switch of the scheme locks out all writers of
 * these tables until it has committed (scheme-switch.ts). A statement gets its lock before its snapshot, so it sees every row
 * of the earlier scheme.
 */
import type { Identity } from '../../core/record/record-id.ts'
import { byteas, smallints } from './arrays.ts'
import { BELIEVED, type Values } from './statements.ts'
import { isPastMessage } from './inbox-rows.ts'

/** A scalar subquery of a table with one row: evaluated once per statement, however many claims it has. */
export function claimsNow (schema: string, scheme: string): string {
  return `${scheme} = (select i.scheme from ${schema}.installation i)`
}

const isPastRecord = (table: string): string => `coalesce(${table}.expires_at <= least(statement_timestamp(), ${BELIEVED}), false)`

/** A record exists under this id that is not past. */
export function isRecorded (schema: string, id: string): string {
  return `(select not ${isPastRecord('e')} from ${schema}.records e where e.id = ${id}) is true`
}

/**
 * Removes past rows of the earlier scheme, for claims of the scheme that claims. Another gateway may be taking such a record,
 * as seen before the switch. So the row is locked and tested again. A row that is live by then stays, and nothing begins beside
 * it. `ids` and `schemes`: the arrays, as SQL.
 */
export function pastBeside (schema: string, ids: string, schemes: string): string {
  return `beside as materialized (
  select w.id from unnest(${ids}, ${schemes}) as w (id, scheme) where w.id is not null and ${claimsNow(schema, 'w.scheme')}
), past as materialized (
  select e.id from ${schema}.records e cross join lock_limit where e.id = any (array(select b.id from beside b)) and ${isPastRecord('e')} order by e.id for update of e
), gone as (
  delete from ${schema}.records e using past p where e.id = p.id returning e.id
), forgotten as (
  delete from ${schema}.messages m where m.id = any (array(select b.id from beside b)) and ${isPastMessage('m')}
)`
}

/** With {@link pastBeside}. A removed row is still in this statement's snapshot. */
export function isFreeBeside (schema: string, id: string): string {
  return `((select e.id from ${schema}.records e where e.id = ${id}) is null or ${id} = any (array(select g.id from gone g)))`
}

export function hasEarlier (identities: readonly Identity[]): boolean {
  return identities.some(({ earlierId }) => earlierId !== null)
}

/** smallint[] and bytea[]. */
export function schemeValues (identities: readonly Identity[]): Values {
  return [smallints(identities.map(({ scheme }) => scheme)), byteas(identities.map(({ earlierId }) => earlierId))]
}
