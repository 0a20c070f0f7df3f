/**
 * A database whose clock can be set without the server's. A schema that is searched first overrides the functions of time.
 * `now()` as a column's default is still the server's.
 */
import { query } from './postgres.ts'
import type { PostgresServer } from './postgres.ts'

export interface SteppingDatabase {
  readonly url: string
  /** From what it says now. Negative: set back. */
  readonly step: (ms: number) => Promise<void>
}

const FUNCTIONS = ['clock_timestamp', 'statement_timestamp'] as const

export async function steppingDatabase (server: PostgresServer, name: string): Promise<SteppingDatabase> {
  const url = await server.createDatabase(name)
  const database = new URL(url).pathname.slice(1)
  await query(url, 'create schema moved; create table moved.clock (by interval not null); insert into moved.clock values (interval \'0\')')
  for (const each of FUNCTIONS) {
    await query(url, `create function moved.${each}() returns timestamptz ${each === 'clock_timestamp' ? 'volatile' : 'stable'} language sql as 'select pg_catalog.${each}() + by from moved.clock'`)
  }
  await query(url, `alter database "${database}" set search_path = moved, pg_catalog, public`)
  return {
    url,
    step: async (ms) => { await query(url, `update moved.clock set by = by + interval '1 ms' * ${ms}`) }
  }
}
