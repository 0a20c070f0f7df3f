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
import { areSmall, buildConcurrently } from './indexes.ts'
import { leaveOpenIfNew, SCHEMES_MIGRATION } from './schemes.ts'

export interface MigrateOptions {
  readonly schema: string
  /** auto: apply what is missing. check: refuse to start if something is missing. */
  readonly mode: 'auto' | 'check'
  /** For tests: another set than the package's. */
  readonly migrations?: readonly Migration[]
  /** Another connection to the same database. With it indexes of large tables are built before this returns (indexes.ts). */
  readonly besides?: Besides
}

/** Runs something with a connection of its own. */
export type Besides = <Result>(work: (client: ClientBase) => Promise<Result>) => Promise<Result>

/** `left`: indexes of large tables, for {@link buildLeft}. */
export interface Migrated { readonly applied: readonly string[], readonly left: readonly Migration[] }

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
  const left: Migration[] = []
  for (;;) {
    const done = await readApplied(client, options.schema)
    refuseNewer(done, newest, options.schema)
    const next = migrations.find((migration) => !done.has(migration.number) && !left.includes(migration))
    if (next === undefined) break
    if (next.indexes === true && (options.mode === 'check' || !await areSmall(client, schema, next))) {
      left.push(next)
      continue
    }
    if (options.mode === 'check') {
      throw new StartError(`Migration ${next.name} is not applied to the schema "${options.schema}": run \`onceway migrate\`, or start a gateway of this release with stores.postgres.migrate: auto.`)
    }
    if (await applyBetween(client, options.schema, next)) applied.push(next.name)
  }
  // Postgres plans for a table that was never analysed as if it had ten pages. See also connections.ts about plans that are kept.
  if (applied.length > 0) await client.query(`analyze ${schema}.records`)
  if (options.besides === undefined) return { applied, left }
  for (const migration of left) if (await buildLeft(client, options.besides, options.schema, migration)) applied.push(migration.name)
  return { applied, left: [] }
}

/**
 * Builds the indexes of a large table beside what writes it. `client` holds the turn in a transaction that does nothing else, so that the
 * build waits for nothing of it. false: another process was first. @throws as `migrate` does
 */
export async function buildLeft (client: ClientBase, besides: Besides, schema: string, migration: Migration): Promise<boolean> {
  return inTurn(client, schema, async () => {
    if ((await readApplied(client, schema)).has(migration.number)) return false
    await besides((builder) => buildConcurrently(builder, escapeIdentifier(schema), migration))
    await note(client, schema, migration)
    return true
  })
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
  return inTurn(client, schema, async () => {
    await client.query('select set_config(\'lock_timeout\', $1, true)', [LOCK_WAIT])
    await prepareSchema(client, schema)
    const mine = !(await readApplied(client, schema)).has(migration.number)
    if (mine) await run(client, schema, migration)
    if (mine && migration.number === SCHEMES_MIGRATION) await leaveOpenIfNew(client, escapeIdentifier(schema))
    return mine
  })
}

/** In one transaction, while no other process migrates. */
async function inTurn<Result> (client: ClientBase, schema: string, work: () => Promise<Result>): Promise<Result> {
  await client.query('begin')
  try {
    await takeTurn(client, schema)
    const result = await work()
    await client.query('commit')
    return result
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

async function run (client: ClientBase, schema: string, migration: Migration): Promise<void> {
  const quoted = escapeIdentifier(schema)
  await client.query(migration.text.replace(/:schema\b/g, () => quoted))
  await note(client, schema, migration)
}

async function note (client: ClientBase, schema: string, { number, name, compatibleFrom }: Migration): Promise<void> {
  const quoted = escapeIdentifier(schema)
  await client.query(`insert into ${quoted}.migrations (number, name, compatible_from) values ($1, $2, $3)`, [number, name, compatibleFrom])
}

/**
 * The key for pg_advisory_xact_lock: our own, one per schema. 63 bits of a hash, so that no other application has the same
 * key by accident.
 */
function lockKey (schema: string): string {
  return (createHash('sha256').update(`onceway migrations of ${schema}`).digest().readBigInt64BE() >> 1n).toString()
}
