/**
 * A new epoch in Postgres (core/record/epoch.ts). It is one transaction, and no other session writes meanwhile. The rows
 * change in batches, so that no statement is as long as the table is large.
 */
import { escapeIdentifier, type ClientBase } from 'pg'
import {
  EPOCH_ATTEMPTS,
  RESTORED_REASON,
  type EpochOrder,
  type EpochResult,
  type OutdatedState,
  type RestoredMessages
} from '../../core/record/epoch.ts'
import { StartError } from '../../ports/errors.ts'
import { NEXT_GENERATION } from './binding.ts'

/** A statement takes a second or two on a table whose rows are a kibibyte each. */
const BATCH_MAX = 10_000
/** A writer that keeps its lock for longer than this is a gateway, or an operator with a transaction left open. */
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
    if ((error as { code?: string }).code === LOCK_NOT_AVAILABLE) {
      throw new StartError(
        'Somebody else is writing records or messages: stop every gateway that serves from this database, then run this again.',
        1,
        error
      )
    }
    throw error
  }
}

async function bump (client: ClientBase, schema: string, order: EpochOrder): Promise<EpochResult> {
  await client.query('select set_config(\'lock_timeout\', $1, true), set_config(\'synchronous_commit\', \'on\', true)', [LOCK_WAIT])
  // Readers go on. If a gateway starts meanwhile, its first claim waits.
  await client.query(`lock table ${schema}.records, ${schema}.messages in share row exclusive mode`)
  const live = await liveLeases(client, schema)
  if (live.leases > 0 && !order.force) return { kind: 'live', ...live }
  const [claimed, released] = [
    await outdate(client, schema, 'claimed', order.dryRun),
    await outdate(client, schema, 'released', order.dryRun)
  ]
  const messages = await reopenMessages(client, schema, order.dryRun)
  const { rows: [installation] } = await client.query<{ epoch: number }>(
    `update ${schema}.installation set epoch = epoch + 1, ${NEXT_GENERATION} returning epoch`
  )
  if (installation === undefined) {
    throw new StartError('This schema has lost its installation id: put one row with a new random id into its table installation.')
  }
  const { epoch } = installation
  await client.query(`insert into ${schema}.epochs (epoch, claimed, released, held, again, who, why) values ($1, $2, $3, $4, $5, $6, $7)`, [
    epoch, claimed, released, messages.held, messages.again, order.who, order.why
  ])
  return { kind: 'bumped', epoch, claimed, released, messages }
}

async function liveLeases (client: ClientBase, schema: string): Promise<{ leases: number, endInMs: number }> {
  const { rows: [live] } = await client.query<{ leases: number, end_in_ms: number | null }>(
    `select count(*)::int as leases, (extract(epoch from max(l.until) - clock_timestamp()) * 1000)::float8 as end_in_ms
       from (select lease_until as until from ${schema}.records where state = 'claimed'
             union all select alive_until from ${schema}.workers) l
      where l.until > clock_timestamp()`)
  return { leases: live?.leases ?? 0, endInMs: live?.end_in_ms ?? 0 }
}

/** Owner and attempt stay. So a late answer of the owner still settles the record, as after a lapse. */
async function outdate (client: ClientBase, schema: string, state: OutdatedState, dryRun: boolean): Promise<number> {
  if (dryRun) {
    const { rows: [found] } = await client.query<{ count: number }>(
      `select count(*)::float8 as count from ${schema}.records where state = $1`,
      [state]
    )
    return found?.count ?? 0
  }
  for (let changed = 0; ;) {
    const { rowCount } = await client.query(`update ${schema}.records r
   set state = 'indeterminate', lease_until = null, settled_at = clock_timestamp(), settled_by = 'operator',
       expires_at = clock_timestamp() + r.unknown_keep_ms * interval '1 ms',
       status = null, headers = null, unknown_stage = $2, unknown_code = $3
 where r.id in (select id from ${schema}.records where state = $1 limit ${BATCH_MAX})`, [
      state,
      RESTORED_REASON.stage,
      RESTORED_REASON.code
    ])
    changed += rowCount ?? 0
    if ((rowCount ?? 0) < BATCH_MAX) return changed
  }
}

/**
 * Messages of the backup's workers wait again, or are held, as soon as a gateway recovers the messages of dead workers. A delivered message
 * that may be replayed gets a new number too: a replay after the backup has used the next one.
 */
async function reopenMessages (client: ClientBase, schema: string, dryRun: boolean): Promise<RestoredMessages> {
  const { rows: [open] } = await client.query<RestoredMessages>(
    `select (count(*) filter (where holds))::float8 as held, (count(*) filter (where not holds))::float8 as again
       from ${schema}.messages where state in ('waiting', 'delivering')`)
  const counted = { held: open?.held ?? 0, again: open?.again ?? 0 }
  if (dryRun) return counted
  await client.query(`delete from ${schema}.workers`)
  for (let from: Buffer = FIRST_ID; ;) {
    const { rows } = await client.query<{ id: Buffer }>(`with chosen as materialized (
  select id from ${schema}.messages where (state in ('waiting', 'delivering', 'held', 'dead') or request_until is not null) and id > $1 order by id limit ${BATCH_MAX}
), changed as (
  update ${schema}.messages m
     set attempt = m.attempt + $2
    from chosen c where m.id = c.id
)
select id from chosen order by id desc limit 1`, [from, EPOCH_ATTEMPTS])
    if (rows[0] === undefined) break
    from = rows[0].id
  }
  await client.query(`update ${schema}.messages m
   set state = 'held', owner = null, due_at = null, blocks = m.stops, error = $1,
       settled_at = clock_timestamp(), expires_at = clock_timestamp() + m.dead_keep_ms * interval '1 ms'
 where m.state in ('waiting', 'delivering') and m.holds`, [RESTORED_REASON.code])
  return counted
}

/** Sorts before every id. */
const FIRST_ID: Buffer = Buffer.alloc(0)
