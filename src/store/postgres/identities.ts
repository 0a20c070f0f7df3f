/**
 * What every statement that begins something tests of an identity (core/record/record-id.ts): that its scheme is the one that claims, and
 * that nothing living stands under its earlier id. Whoever switches the scheme holds a lock against all writers of these tables
 * until it has committed (scheme-switch.ts); a statement has its lock before it has its snapshot, and so sees every row of the scheme before.
 */
import type { Identity } from '../../core/record/record-id.ts'
import { byteas, smallints } from './arrays.ts'
import { BELIEVED, type Values } from './connections.ts'
import { isPastMessage } from './inbox-rows.ts'

/** A scalar question of a table of one row: asked once for a statement, however many claims it has. */
export function claimsNow (schema: string, scheme: string): string {
  return `${scheme} = (select i.scheme from ${schema}.installation i)`
}

const isPastRecord = (table: string): string => `coalesce(${table}.expires_at <= least(statement_timestamp(), ${BELIEVED}), false)`

/** A record that is not past stands there. */
export function isRecorded (schema: string, id: string): string {
  return `(select not ${isPastRecord('e')} from ${schema}.records e where e.id = ${id}) is true`
}

/**
 * What is past of the scheme before, taken away by a scheme that claims: somebody may be taking such a record just now, who has seen
 * it before the switch. Its row is locked and asked once more; what lives by then stays, and nothing goes beside it. `ids` and
 * `schemes`: the arrays, as SQL.
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

/** With {@link pastBeside}. The row of one that is gone is still in this statement's snapshot. */
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
