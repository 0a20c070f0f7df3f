/**
 * A new installation id, for a database that was promoted out of another one: a half of a cell that is split. Both halves have one system
 * identifier, one name and one schema, so no gateway can tell that they are two (binding.ts). Records and their ids do not depend on the
 * installation id: a retry finds its record in either half.
 */
import { escapeIdentifier, type ClientBase } from 'pg'
import { LIVES_WITHIN, NEXT_GENERATION } from './binding.ts'

export type NewInstallation =
  | { readonly kind: 'standby' }
  /** Gateways or commands are connected, or a gateway has given a sign of life here. */
  | { readonly kind: 'served', readonly by: readonly string[] }
  /** Both halves would deliver them. */
  | { readonly kind: 'open-messages', readonly messages: number }
  | { readonly kind: 'drawn', readonly was: string, readonly is: string, readonly claimed: number }

/**
 * A sign of life that came through replication is of the old primary's gateways. After a promotion the last replayed commit stays known
 * until the server restarts. Then a minute without any sign is needed.
 */
const LOOK = (schema: string): string => `select pg_is_in_recovery() as standby,
  array(select distinct application_name from pg_catalog.pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid() and application_name like 'onceway %') as connected,
  array(select instance from ${schema}.gateways
         where seen_at > greatest(clock_timestamp() - interval '${LIVES_WITHIN}', coalesce(pg_last_xact_replay_timestamp(), '-infinity'))) as living,
  (select count(*) from ${schema}.messages where state in ('waiting', 'delivering'))::float8 as messages,
  (select count(*) from ${schema}.records where state = 'claimed')::float8 as claimed`

interface Found {
  readonly standby: boolean
  readonly connected: readonly string[]
  readonly living: readonly string[]
  readonly messages: number
  readonly claimed: number
}

export async function newInstallation (client: ClientBase, schemaName: string, dryRun: boolean): Promise<NewInstallation> {
  const schema = escapeIdentifier(schemaName)
  const { rows: [found] } = await client.query<Found>(LOOK(schema))
  if (found === undefined || found.standby) return { kind: 'standby' }
  const by = [...found.connected, ...found.living]
  if (by.length > 0) return { kind: 'served', by }
  if (found.messages > 0) return { kind: 'open-messages', messages: found.messages }
  await client.query('begin')
  try {
    const { rows: [was] } = await client.query<{ id: string }>(`select id from ${schema}.installation for update`)
    const { rows: [is] } = await client.query<{ id: string }>(
      `update ${schema}.installation set id = gen_random_uuid()::text, ${NEXT_GENERATION} returning id`
    )
    await client.query(dryRun ? 'rollback' : 'commit')
    return { kind: 'drawn', was: was?.id ?? '', is: is?.id ?? '', claimed: found.claimed }
  } catch (error) {
    await client.query('rollback').catch(() => {})
    throw error
  }
}
