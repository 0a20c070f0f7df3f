/**
 * A new epoch in Postgres (core/epoch.ts): one transaction, in which nobody else writes records. The rows go in batches, so
 * that no statement is as long as the table is large.
 */
import { escapeIdentifier, type ClientBase } from 'pg'
import { RESTORED_REASON, type EpochOrder, type EpochResult, type OutdatedState } from '../../core/epoch.ts'
import { StartError } from '../../errors.ts'

/** A second or two a statement, on a table whose rows are a kibibyte each. */
const BATCH_MAX = 10_000
/** Whoever writes for longer than this is a gateway, or an operator with a transaction left open. */
const LOCK_WAIT = '5s'
const LOCK_NOT_AVAILABLE = '55P03'

export async function bumpEpochOf (client: ClientBase, schemaName: string, order: EpochOrder): Promise<EpochResult> {
  const schema = escapeIdentifier(schemaName)
  await client.query('begin')
  try {
    const result = await bump(client, schema, order)
    await client.query(result.kind === 'bumped' && !order.dryRun ? 'commit' : 'rollback')
    return result
  } catch (error) {
    await client.query('rollback').catch(() => {})
    if ((error as { code?: string }).code === LOCK_NOT_AVAILABLE) throw new StartError('Somebody else is writing records: stop every gateway that serves from this database, then run this again.', 1, error)
    throw error
  }
}

async function bump (client: ClientBase, schema: string, order: EpochOrder): Promise<EpochResult> {
  await client.query('select set_config(\'lock_timeout\', $1, true), set_config(\'synchronous_commit\', \'on\', true)', [LOCK_WAIT])
  // Readers go on; a gateway that starts meanwhile waits with its first claim.
  await client.query(`lock table ${schema}.records in share row exclusive mode`)
  const live = await liveLeases(client, schema)
  if (live.leases > 0 && !order.force) return { kind: 'live', ...live }
  const [claimed, released] = [await outdate(client, schema, 'claimed', order.dryRun), await outdate(client, schema, 'released', order.dryRun)]
  const { rows: [installation] } = await client.query<{ epoch: number }>(`update ${schema}.installation set epoch = epoch + 1 returning epoch`)
  if (installation === undefined) throw new StartError('This schema has lost its installation id: put one row with a new random id into its table installation.')
  const { epoch } = installation
  await client.query(`insert into ${schema}.epochs (epoch, claimed, released, who, why) values ($1, $2, $3, $4, $5)`, [epoch, claimed, released, order.who, order.why])
  return { kind: 'bumped', epoch, claimed, released }
}

async function liveLeases (client: ClientBase, schema: string): Promise<{ leases: number, endInMs: number }> {
  const { rows: [live] } = await client.query<{ leases: number, end_in_ms: number | null }>(
    `select count(*)::int as leases, (extract(epoch from max(lease_until) - clock_timestamp()) * 1000)::float8 as end_in_ms
       from ${schema}.records where state = 'claimed' and lease_until > clock_timestamp()`)
  return { leases: live?.leases ?? 0, endInMs: live?.end_in_ms ?? 0 }
}

/** A late answer of the owner still settles it, as after a lapse: owner and attempt stay. */
async function outdate (client: ClientBase, schema: string, state: OutdatedState, dryRun: boolean): Promise<number> {
  if (dryRun) {
    const { rows: [found] } = await client.query<{ count: number }>(`select count(*)::float8 as count from ${schema}.records where state = $1`, [state])
    return found?.count ?? 0
  }
  for (let changed = 0; ;) {
    const { rowCount } = await client.query(`update ${schema}.records r
   set state = 'indeterminate', lease_until = null, settled_at = clock_timestamp(), settled_by = 'operator',
       expires_at = clock_timestamp() + r.unknown_keep_ms * interval '1 ms',
       status = null, headers = null, unknown_stage = $2, unknown_code = $3
 where r.id in (select id from ${schema}.records where state = $1 limit ${BATCH_MAX})`, [state, RESTORED_REASON.stage, RESTORED_REASON.code])
    changed += rowCount ?? 0
    if ((rowCount ?? 0) < BATCH_MAX) return changed
  }
}
