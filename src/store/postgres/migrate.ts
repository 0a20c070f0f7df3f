/**
 * Applies the numbered files of migrations/postgres, forward only. Each runs in its own transaction, under a lock that all
 * processes share. An applied migration is never undone and never edited.
 */
import { createHash } from 'node:crypto'
import { escapeIdentifier, type ClientBase } from 'pg'
import { StartError } from '../../ports/errors.ts'
import { readMigrationFiles } from '../shared/migration-files.ts'
import type { Migration } from '../shared/migration-files.ts'
import { UNBALANCED } from './statements.ts'
import { faultOfConnecting } from './faults.ts'
import { leaveOpenIfNew, SCHEMES_MIGRATION } from './schemes.ts'

export interface MigrateOptions {
  readonly schema: string
  /** auto: apply what is missing. check: refuse to start if something is missing. */
  readonly mode: 'auto' | 'check'
  /** For tests: another set than the package's. */
  readonly migrations?: readonly Migration[]
}

export interface Migrated { readonly applied: readonly string[] }

/**
 * If a migration waits longer than this for a table lock, it gives way, because every later statement on the table waits
 * behind it. Other transactions may hold one table and ask for another, in another order than the migration. They must go on
 * before Postgres looks for a deadlock (deadlock_timeout, one second) and undoes a client's statement. The migration may wait
 * for five tables, one after the other.
 */
const LOCK_WAIT = '150ms'
const LOCK_NOT_AVAILABLE = '55P03'
const DEADLOCK = '40P01'
/**
 * With a pause after each try, in which all others have their turn: a minute. A transaction that is open for longer keeps a
 * migration out.
 */
const TRIES_MAX = 60
const PAUSE_MS = 1_000
/** Another process may be migrating a large table. It holds the lock as long as that takes. */
const TURN_WAIT = '10min'

/** Throws StartError with a sentence, or pg's own error. */
export async function migrate (client: ClientBase, options: MigrateOptions): Promise<Migrated> {
  const migrations = options.migrations ?? readMigrationFiles('postgres')
  const newest = migrations.at(-1)?.number ?? 0
  const schema = escapeIdentifier(options.schema)
  const applied: string[] = []
  for (;;) {
    const done = await readApplied(client, options.schema)
    refuseNewer(done, newest, options.schema)
    const next = migrations.find(({ number }) => !done.has(number))
    if (next === undefined) break
    if (options.mode === 'check') {
      throw new StartError(`Migration ${next.name} is not applied to the schema "${options.schema}": run \`onceway migrate\`, or start a gateway of this release with stores.postgres.migrate: auto.`)
    }
    if (await applyBetween(client, options.schema, next)) applied.push(next.name)
  }
  // Postgres plans for a table that was never analysed as if it had ten pages. See also connections.ts about plans that are kept.
  if (applied.length > 0) await client.query(`analyze ${schema}.records`)
  return { applied }
}

/** number → compatible_from. Empty if nothing is applied, or if the schema does not exist. */
async function readApplied (client: ClientBase, schema: string): Promise<Map<number, number>> {
  const there = await client.query<{ there: boolean }>(
    `${UNBALANCED} select exists (select from pg_catalog.pg_tables where schemaname = $1 and tablename = 'migrations') as there`, [schema])
  if (there.rows[0]?.there !== true) return new Map()
  const { rows } = await client.query<{ number: number, compatible_from: number }>(
    `${UNBALANCED} select number, compatible_from from ${escapeIdentifier(schema)}.migrations`)
  return new Map(rows.map((row) => [row.number, row.compatible_from]))
}

function refuseNewer (done: ReadonlyMap<number, number>, newest: number, schema: string): void {
  const needed = Math.max(0, ...done.values())
  if (needed <= newest) return
  throw new StartError(`The schema "${schema}" was migrated by a newer release and needs a build that knows migration ${needed}; this one ends at ${newest}: install the newer release, or point this one to another schema.`)
}

/** Tries again while other transactions hold what it needs. Resolves and throws as `apply` does. */
async function applyBetween (client: ClientBase, schema: string, migration: Migration): Promise<boolean> {
  for (let round = 1; ; round++) {
    try {
      return await apply(client, schema, migration)
    } catch (error) {
      if (!isHeldUp(error)) throw error
      if (round === TRIES_MAX) {
        throw faultOfConnecting(
          'open',
          new Error(`migration ${migration.name} needs a table of the schema "${schema}" that a transaction holds all the time: end it (pg_stat_activity); nothing was changed`, { cause: error })
        )
      }
      await new Promise((resolve) => { setTimeout(resolve, PAUSE_MS) })
    }
  }
}

function isHeldUp (error: unknown): boolean {
  const { code } = error as { readonly code?: string }
  return code === LOCK_NOT_AVAILABLE || code === DEADLOCK
}

/** false: another process was first. */
async function apply (client: ClientBase, schema: string, migration: Migration): Promise<boolean> {
  await client.query('begin')
  try {
    await takeTurn(client, schema)
    await client.query('select set_config(\'lock_timeout\', $1, true)', [LOCK_WAIT])
    await prepareSchema(client, schema)
    const mine = !(await readApplied(client, schema)).has(migration.number)
    if (mine) await run(client, schema, migration)
    if (mine && migration.number === SCHEMES_MIGRATION) await leaveOpenIfNew(client, escapeIdentifier(schema))
    await client.query('commit')
    return mine
  } catch (error) {
    await client.query('rollback').catch(() => {})
    throw error
  }
}

async function takeTurn (client: ClientBase, schema: string): Promise<void> {
  await client.query('select set_config(\'lock_timeout\', $1, true)', [TURN_WAIT])
  try {
    await client.query('select pg_advisory_xact_lock($1)', [lockKey(schema)])
  } catch (error) {
    throw isHeldUp(error)
      ? faultOfConnecting('open', new Error(`another process has been migrating the schema "${schema}" for more than ${TURN_WAIT}`, {
        cause: error
      }))
      : error
  }
}

/** `create schema if not exists` needs the privilege even if the schema exists. So look first. */
async function prepareSchema (client: ClientBase, schema: string): Promise<void> {
  const quoted = escapeIdentifier(schema)
  const { rowCount } = await client.query(`${UNBALANCED} select from pg_catalog.pg_namespace where nspname = $1`, [schema])
  if (rowCount === 0) await client.query(`create schema ${quoted}`)
  await client.query(`create table if not exists ${quoted}.migrations (
  number          integer primary key,
  name            text not null,
  applied_at      timestamptz not null default clock_timestamp(),
  compatible_from integer not null check (compatible_from <= number)
)`)
}

async function run (client: ClientBase, schema: string, { number, name, compatibleFrom, text }: Migration): Promise<void> {
  const quoted = escapeIdentifier(schema)
  await client.query(text.replace(/:schema\b/g, () => quoted))
  await client.query(`insert into ${quoted}.migrations (number, name, compatible_from) values ($1, $2, $3)`, [number, name, compatibleFrom])
}

/**
 * The key for pg_advisory_xact_lock: our own, one per schema. 63 bits of a hash, so that no other application has the same
 * key by accident.
 */
function lockKey (schema: string): string {
  return (createHash('sha256').update(`onceway migrations of ${schema}`).digest().readBigInt64BE() >> 1n).toString()
}
