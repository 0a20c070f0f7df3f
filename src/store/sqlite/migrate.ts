/**
 * The numbered files of migrations/sqlite, applied forward only, each in a transaction of its own. Never undoes one,
 * never edits one that is applied.
 */
import { StartError } from '../../ports/errors.ts'
import { readMigrationFiles } from '../shared/migration-files.ts'
import type { Migration } from '../shared/migration-files.ts'
import { leaveOpen, SCHEMES_MIGRATION } from './scheme-rows.ts'
import type { DatabaseSync } from 'node:sqlite'

/** `file` is for people. Throws StartError if a newer release has left this build behind. */
export function migrate (
  database: DatabaseSync,
  file: string,
  nowMs: number,
  migrations: readonly Migration[] = readMigrationFiles('sqlite')
): void {
  database.exec('create table if not exists migrations (number integer primary key, name text not null, applied_at integer not null, compatible_from integer not null) strict')
  refuseNewer(database, file, migrations.at(-1)?.number ?? 0)
  const fresh = database.prepare('select 1 from migrations').get() === undefined
  for (const migration of migrations) apply(database, migration, fresh, nowMs)
}

function refuseNewer (database: DatabaseSync, file: string, newest: number): void {
  const needed = Number(database.prepare('select max(compatible_from) as needed from migrations').get()?.needed ?? 0)
  if (needed <= newest) return
  throw new StartError(`${file} was migrated by a newer release and needs a build that knows migration ${needed}; this one ends at ${newest}: install the newer release, or point this one to another --data-dir.`)
}

/** Looks again under the write lock: another process may have been first. */
function apply (database: DatabaseSync, { number, name, compatibleFrom, text }: Migration, fresh: boolean, nowMs: number): void {
  database.exec('begin immediate')
  try {
    if (database.prepare('select 1 from migrations where number = ?').get(number) === undefined) {
      run(database, text)
      if (fresh && number === SCHEMES_MIGRATION) leaveOpen(database)
      database.prepare('insert into migrations (number, name, applied_at, compatible_from) values (?, ?, ?, ?)').run(
        number,
        name,
        nowMs,
        compatibleFrom
      )
    }
    database.exec('commit')
  } catch (error) {
    if (database.isTransaction) database.exec('rollback')
    throw error
  }
}

/** A migration may rewrite the text of a table (0011). A connection that serves must not, where Node can forbid it (24.12). */
function run (database: DatabaseSync, text: string): void {
  const isDefensive = 'enableDefensive' in database
  if (isDefensive) database.enableDefensive(false)
  try {
    database.exec(text)
  } finally {
    if (isDefensive) database.enableDefensive(true)
  }
}
