/**
 * Binds the installation id to this database. Keys in Redis carry the id (P2), and so does every copy of the database. So its
 * row names the database that it was drawn for, and a gateway that begins to serve from another one draws a new id. A copy of a
 * whole server shares that name: the beats of its gateways tell it apart (store/redis/mirror.ts).
 */
import { escapeIdentifier, type ClientBase } from 'pg'
import { StartError } from '../../ports/errors.ts'
import type { Log } from '../../ports/telemetry.ts'
import { UNBALANCED } from './statements.ts'
import { chooseScheme } from './schemes.ts'

/** As core/record/generation.ts has it. */
export const NEXT_GENERATION = 'generation = greatest(generation + 1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)'

/** The generation of the copies in Redis. */
export const beginGeneration = (schema: string): string => `update ${schema}.installation set ${NEXT_GENERATION}`

/**
 * A living gateway gives a sign of life every few seconds, at the longest lease too. Without one for this long, no gateway
 * serves from here.
 */
export const LIVES_WITHIN = '1 minute'

/** [system identifier, database, schema]. A part that this user may not read is null. */
type DatabaseLocation = readonly [string | null, string, string]

interface Installation { readonly id: string, readonly bound_to: string | null, /** A gateway lives. */ readonly served: boolean }

const LOOK = (schema: string): string =>
  `${UNBALANCED} select i.id, i.bound_to, exists (select from ${schema}.gateways where seen_at > clock_timestamp() - interval '${LIVES_WITHIN}') as served
  from ${schema}.installation i`

/** For commands and tests: the id as it is. */
export async function readInstallation (client: ClientBase, schemaName: string): Promise<string> {
  const { rows: [row] } = await client.query<Installation>(`${UNBALANCED} select id from ${escapeIdentifier(schemaName)}.installation`)
  return known(row, schemaName).id
}

/**
 * For a gateway that begins to serve: its id is this database's, and a generation begins if no other gateway lives. If nothing
 * must be written, nothing is: a start beside others waits for no commit.
 */
/** `scheme`: the name of the scheme that is chosen if nothing was ever claimed. */
export async function bindInstallation (client: ClientBase, schemaName: string, log: Log, scheme: string): Promise<string> {
  const schema = escapeIdentifier(schemaName)
  await chooseScheme(client, schema, scheme)
  const here = await locationOf(client, schemaName)
  const { rows: [row] } = await client.query<Installation>(LOOK(schema))
  const { id, bound_to: boundTo, served } = known(row, schemaName)
  if (served && boundTo !== null && isSame(parseLocation(boundTo), here)) return id
  await client.query('begin')
  try {
    const bound = await bind(client, schemaName, here, log)
    await client.query('commit')
    return bound
  } catch (error) {
    await client.query('rollback').catch(() => {})
    throw error
  }
}

/** Locks the row: of many gateways that start at once, one writes and the others read its result. */
async function bind (client: ClientBase, schemaName: string, here: DatabaseLocation, log: Log): Promise<string> {
  const schema = escapeIdentifier(schemaName)
  const { rows: [row] } = await client.query<Installation>(`${LOOK(schema)} for update of i`)
  const { id, bound_to: boundTo, served } = known(row, schemaName)
  const mine = boundTo === null || isSame(parseLocation(boundTo), here)
  if (!served || !mine) await client.query(beginGeneration(schema))
  if (mine && boundTo !== null) return id
  const { rows: [drawn] } = await client.query<Installation>(
    `update ${schema}.installation set bound_to = $1${mine ? '' : ', id = gen_random_uuid()::text'} returning id`,
    [JSON.stringify(here)]
  )
  const { id: bound } = known(drawn, schemaName)
  if (!mine) logRedrawn(log, id, bound, boundTo, here)
  return bound
}

/**
 * initdb draws the identifier. A restored dump gets another one, a copy of the data directory keeps it. Every role may read it,
 * unless that was revoked. Then name and schema alone tell databases of one server apart.
 */
async function locationOf (client: ClientBase, schemaName: string): Promise<DatabaseLocation> {
  const { rows: [place] } = await client.query<{ may: boolean, database: string }>(
    `${UNBALANCED} select has_function_privilege('pg_catalog.pg_control_system()', 'execute') as may, current_database() as database`
  )
  const { rows: [control] } = place?.may === true
    ? await client.query<{ system: string }>(`${UNBALANCED} select system_identifier::text as system from pg_catalog.pg_control_system()`)
    : { rows: [] }
  return [control?.system ?? null, place?.database ?? '', schemaName]
}

/** A part that is unknown now, or was then, does not count. */
function isSame ([system, database, schema]: DatabaseLocation, here: DatabaseLocation): boolean {
  return database === here[1] && schema === here[2] && (system === here[0] || system === null || here[0] === null)
}

/** Any other text is not the location of a database that a gateway serves from. */
function parseLocation (text: string): DatabaseLocation {
  try {
    const [system, database, schema] = JSON.parse(text) as unknown[]
    return [typeof system === 'string' ? system : null, String(database), String(schema)]
  } catch {
    return [null, text, '']
  }
}

function logRedrawn (log: Log, was: string, is: string, from: string | null, here: DatabaseLocation): void {
  log.warn({ event: 'database-moved', installation: is, was, from, here: JSON.stringify(here) },
    'this database is a copy of another one, or has moved: it gets an installation id of its own, so that the two share nothing in Redis; locks, copies and marks there begin empty')
}

function known <Found> (row: Found | undefined, schemaName: string): Found {
  if (row === undefined) {
    throw new StartError(
      `The schema "${schemaName}" has lost its installation id: put one row with a new random id into its table installation.`
    )
  }
  return row
}
