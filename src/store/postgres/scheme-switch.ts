/**
 * The switch to another scheme (core/record/schemes.ts), for `onceway ids`. The switch locks the tables whose writers test the scheme.
 * Claims in flight end before the switch. Later claims see the new scheme.
 */
import { escapeIdentifier, type ClientBase } from 'pg'
import { LIVES_MS } from '../../core/protocol/aspects.ts'
import type { SchemeReport, SchemeRows, SwitchOrder, SwitchResult } from '../../core/record/scheme-switch.ts'
import { FIRST_SCHEME } from '../../core/record/schemes.ts'
import type { EarlierScheme, Scheme } from '../../core/record/schemes.ts'
import { StartError } from '../../ports/errors.ts'
import { BELIEVED, UNBALANCED } from './statements.ts'
import { isPastMessage } from './inbox-rows.ts'
import { lostIndexes, lostIndexNames } from './lost-schemes.ts'
import { chooseScheme, isAnyLeft, refuseOlder, schemesNow } from './schemes.ts'

/**
 * For each of three tables. Statements of some milliseconds are let out first. Statements behind the lock wait as long, and are
 * in time.
 */
const LOCK_WAIT = '150ms'
const LOCK_NOT_AVAILABLE = '55P03'
/** With a pause between two tries in which other writers get through: some minutes. Only an open transaction blocks longer. */
const TRIES_MAX = 60
const PAUSE_MS = 2_000

/** For `onceway ids`. */
export async function reportSchemesOf (client: ClientBase, schemaName: string): Promise<SchemeReport> {
  const schema = escapeIdentifier(schemaName)
  const ms = (column: string): string => `(extract(epoch from ${column}) * 1000)::float8`
  const { rows: schemes } = await client.query<SchemeReport['schemes'][number]>(
    `${UNBALANCED} select number, name, ${ms('since')} as "sinceMs", who, why, is_lost as "isLost", ${ms('ended_at')} as "endedMs", ${ms('look_from')} as "lookFromMs"
  from ${schema}.schemes order by number desc`
  )
  const { rows: gateways } = await client.query<SchemeReport['gateways'][number]>(
    `${UNBALANCED} select instance, ${ms('seen_at')} as "seenMs", schemes
  from ${schema}.gateways where seen_at > clock_timestamp() - interval '${LIVES_MS} ms' order by instance`
  )
  return {
    schemes,
    gateways: [
      ...gateways,
      ...(await unregistered(client, schema, [])).map(({ instance, nowMs }) => ({ instance, seenMs: nowMs, schemes: null }))
    ]
  }
}

/** @throws StartError if other writers hold the tables for too long */
export async function switchSchemeOf (client: ClientBase, schemaName: string, order: SwitchOrder): Promise<SwitchResult> {
  const schema = escapeIdentifier(schemaName)
  const { current, earlier } = await schemesNow(client, schema)
  if (current?.name === order.name) {
    return order.isLost ? loseEarlier(client, schema, current, earlier, order.dryRun) : { kind: 'same', number: current.number }
  }
  if (earlier !== null && !earlier.isOver && await isLeft(client, schema, earlier)) {
    return {
      kind: 'earlier-left',
      earlier: earlier.name,
      rows: await countRows(client, schema, earlier.number, false),
      untilMs: await leftUntil(client, schema, earlier.number)
    }
  }
  const unable = await unableOf(client, schema, order)
  if (unable.length > 0) return { kind: 'unable', gateways: unable }
  const switched: SwitchResult = {
    kind: 'switched',
    number: current === null ? FIRST_SCHEME : current.number + 1,
    from: current?.name ?? null,
    to: order.name,
    rows: await countRows(client, schema, current?.number ?? 0, true)
  }
  if (order.dryRun) return switched
  await changeLostIndexes(client, schema, earlier, order.isLost ? current : null)
  for (let round = 1; ; round++) {
    if (await switchOnce(client, schema, current, order)) return switched
    if (round === TRIES_MAX) {
      throw new StartError('Somebody has been writing records, messages or marks in one transaction all the time: end it (pg_stat_activity), then run this again. Nothing was changed.')
    }
    await new Promise((resolve) => { setTimeout(resolve, PAUSE_MS) })
  }
}

/**
 * Reports the earlier scheme's secret as lost, after the switch. Its ids cannot be made any more. Gateways read the change and
 * need the secret no more.
 */
async function loseEarlier (
  client: ClientBase,
  schema: string,
  { number }: Scheme,
  earlier: EarlierScheme | null,
  dryRun: boolean
): Promise<SwitchResult> {
  if (earlier === null || earlier.isLost || earlier.isOver) return { kind: 'same', number }
  if (!dryRun) {
    await changeLostIndexes(client, schema, null, earlier)
    await client.query(`update ${schema}.schemes set is_lost = true where number = $1`, [earlier.number])
  }
  return { kind: 'lost', number, earlier: earlier.name, rows: await countRows(client, schema, earlier.number, true) }
}

/** Outside any transaction: writers go on. Indexes of a scheme with no rows left are dropped. */
async function changeLostIndexes (client: ClientBase, schema: string, over: EarlierScheme | null, lost: Scheme | null): Promise<void> {
  if (over?.isLost === true) {
    for (const name of lostIndexNames(schema, over.number)) await client.query(`drop index concurrently if exists ${name}`)
  }
  if (lost !== null) for (const text of lostIndexes(schema, lost.number)) await client.query(text)
}

/** false: another session holds a lock. */
async function switchOnce (
  client: ClientBase,
  schema: string,
  from: Scheme | null,
  { name, who, why, isLost }: SwitchOrder
): Promise<boolean> {
  await client.query('begin')
  try {
    await client.query('select set_config(\'lock_timeout\', $1, true), set_config(\'synchronous_commit\', \'on\', true)', [LOCK_WAIT])
    // Readers go on, and so does a backup.
    await client.query(`lock table ${schema}.records, ${schema}.messages, ${schema}.marks in share row exclusive mode`)
    const { current } = await schemesNow(client, schema)
    if (current?.number !== from?.number || current?.name !== from?.name) {
      throw new StartError('Somebody else has switched the scheme just now: look at `onceway ids`, then run this again.', 1)
    }
    if (from === null) await chooseScheme(client, schema, name)
    else await begin(client, schema, from, { name, who, why, isLost })
    await refuseOlder(client, schema)
    await client.query('commit')
    return true
  } catch (error) {
    await client.query('rollback').catch(() => {})
    if ((error as { code?: string }).code === LOCK_NOT_AVAILABLE) return false
    throw error
  }
}

async function begin (
  client: ClientBase,
  schema: string,
  { number }: Scheme,
  { name, who, why, isLost }: Omit<SwitchOrder, 'dryRun' | 'without'>
): Promise<void> {
  await client.query(`update ${schema}.schemes
   set is_lost = $2, look_from = greatest(clock_timestamp(), (select max(expires_at) from ${schema}.records), (select max(expires_at) from ${schema}.messages), (select max(expires_at) from ${schema}.marks))
 where number = $1`, [number, isLost])
  await client.query(`insert into ${schema}.schemes (number, name, who, why) values ($1, $2, $3, $4)`, [number + 1, name, who, why])
  await client.query(`update ${schema}.installation set scheme = $1`, [number + 1])
}

/**
 * Gateways that may still claim and have not registered that they can make such ids. They could claim nothing after the switch,
 * so stop them first.
 */
async function unableOf (
  client: ClientBase,
  schema: string,
  { name, without }: SwitchOrder
): Promise<Array<{ instance: string, silentMs: number }>> {
  const { rows } = await client.query<{ instance: string, silent_ms: number }>(
    `${UNBALANCED} select g.instance, (extract(epoch from clock_timestamp() - g.seen_at) * 1000)::float8 as silent_ms
  from ${schema}.gateways g
 where g.seen_at > clock_timestamp() - interval '${LIVES_MS} ms' and ($1 = any (g.schemes)) is not true and g.instance <> all ($2::text[])
   and exists (select from ${schema}.gateway_routes r where r.gateway = g.id)
 order by g.instance`,
    [name, without ?? []]
  )
  const silent = rows.map(({ instance, silent_ms: silentMs }) => ({ instance, silentMs }))
  return [...silent, ...(await unregistered(client, schema, without ?? [])).map(({ instance }) => ({ instance, silentMs: 0 }))]
}

/** The length to which pg_stat_activity cuts a name (NAMEDATALEN less its end). */
const APPLICATION_NAME_MAX = 63

/**
 * Gateways of releases that register nothing show in their connections. open.ts names these: purpose, then instance, which ends
 * in its process id unless it was cut. Commands have none. A gateway without a connection at this moment is not found. It can
 * claim nothing any more, and tells its clients so.
 */
async function unregistered (
  client: ClientBase,
  schema: string,
  without: readonly string[]
): Promise<Array<{ instance: string, nowMs: number }>> {
  const { rows } = await client.query<{ instance: string, nowMs: number }>(
    `${UNBALANCED} select distinct n.instance, (extract(epoch from statement_timestamp()) * 1000)::float8 as "nowMs"
  from pg_catalog.pg_stat_activity a, lateral substring(a.application_name from '^onceway ([a-z]+) .') as purpose, lateral substring(a.application_name from '^onceway [a-z]+ (.+)$') as n (instance)
 where a.datname = current_database() and (n.instance ~ '-[0-9]+$' or length(a.application_name) = ${APPLICATION_NAME_MAX}) and n.instance <> all ($1::text[])
   and not exists (select from ${schema}.gateways g where g.seen_at > clock_timestamp() - interval '${LIVES_MS} ms' and left('onceway ' || purpose || ' ' || g.instance, ${APPLICATION_NAME_MAX}) = a.application_name)
 order by 1`,
    [without]
  )
  return rows
}

async function isLeft (client: ClientBase, schema: string, { number }: Scheme): Promise<boolean> {
  const { rows: [row] } = await client.query<{ left: boolean }>(`${UNBALANCED} select ${isAnyLeft(schema, '$1')} as left`, [number + 1])
  if (row?.left !== false) return true
  await client.query(`update ${schema}.schemes set ended_at = clock_timestamp() where number = $1`, [number])
  return false
}

/** Rows of this scheme and those before. */
async function countRows (client: ClientBase, schema: string, number: number, livesOnly: boolean): Promise<SchemeRows> {
  const lives = {
    records: 'expires_at is null or expires_at > clock_timestamp()',
    messages: `not ${isPastMessage('t')}`,
    marks: 'expires_at > clock_timestamp()'
  }
  const count = (table: keyof SchemeRows): string =>
    `(select count(*) from ${schema}.${table} t where scheme <= $1 and (not $2 or ${lives[table].replaceAll(BELIEVED, 'null')}))::float8 as ${table}`
  const { rows: [rows] } = await client.query<SchemeRows>(
    `${UNBALANCED} select ${count('records')}, ${count('messages')}, ${count('marks')}`,
    [number, livesOnly]
  )
  return rows ?? { records: 0, messages: 0, marks: 0 }
}

async function leftUntil (client: ClientBase, schema: string, number: number): Promise<number | null> {
  const { rows: [row] } = await client.query<{ until: number | null }>(
    `${UNBALANCED} select (extract(epoch from look_from) * 1000)::float8 as until from ${schema}.schemes where number = $1`,
    [number]
  )
  return row?.until ?? null
}
