/**
 * Migrations of nothing but indexes, and of what they replace. Nothing waits for them: without them something is slow, and right. On a
 * small table they are made at once. On a large one they are built `concurrently`, beside what writes the table. That takes minutes, and
 * may not happen in a transaction. A gateway builds them while it serves, and `onceway migrate` waits for them.
 */
import type { ClientBase } from 'pg'
import type { Migration } from '../shared/migration-files.ts'
import { UNBALANCED } from './statements.ts'

/** What is smaller is read within a second, and writers may wait that long. */
const SMALL_BYTES_MAX = 32 * 1024 * 1024

const INDEX = /^create index (?<name>\w+) on :schema\.(?<table>\w+)\s+(?<rest>\([\s\S]*)$/
const DROPPED = /^drop index if exists :schema\.(?<name>\w+)$/

interface Index { readonly name: string, readonly table: string, /** Columns and condition. */ readonly rest: string }

/** All that it makes. Beside them a file may drop indexes that these replace, and nothing else. */
export function indexesOf (migration: Migration): Index[] {
  return statementsOf(migration).filter((statement) => !DROPPED.test(statement)).map((statement) => {
    const groups = INDEX.exec(statement)?.groups
    if (groups === undefined) throw new Error(`${migration.name} has a statement that makes no index`)
    const { name: index = '', table = '', rest = '' } = groups
    return { name: index, table, rest }
  })
}

function droppedBy (migration: Migration): string[] {
  return statementsOf(migration).flatMap((statement) => DROPPED.exec(statement)?.groups?.name ?? [])
}

function statementsOf ({ text }: Migration): string[] {
  return text.replace(/^--.*$/gm, '').split(';').map((statement) => statement.trim()).filter((statement) => statement !== '')
}

/** Whether every table is small enough for the indexes to be made in a transaction, while its writers wait. `schema`: quoted. */
export async function areSmall (client: ClientBase, schema: string, migration: Migration): Promise<boolean> {
  for (const { table } of indexesOf(migration)) {
    const { rows } = await client.query<{ bytes: string }>(
      `${UNBALANCED} select coalesce(sum(pg_catalog.pg_relation_size(t.relid)), 0)::text as bytes
         from (select $1::regclass as relid union select relid from pg_catalog.pg_partition_tree($1::regclass)) t`,
      [`${schema}.${table}`]
    )
    if (Number(rows[0]?.bytes) > SMALL_BYTES_MAX) return false
  }
  return true
}

/** Outside any transaction. What an earlier try has left half done is built anew. The caller sees to it that nobody else builds. */
export async function buildConcurrently (client: ClientBase, schema: string, migration: Migration): Promise<void> {
  for (const index of indexesOf(migration)) {
    const leaves = await leavesOf(client, schema, index.table)
    if (leaves === null) await buildOne(client, schema, index)
    else await buildParted(client, schema, index, leaves)
  }
  for (const name of droppedBy(migration)) await client.query(`drop index concurrently if exists ${schema}.${quoted(name)}`)
}

/** The tables of a partitioned table. null: it is not partitioned. */
async function leavesOf (client: ClientBase, schema: string, table: string): Promise<string[] | null> {
  const { rows } = await client.query<{ name: string }>(
    `${UNBALANCED} select c.relname as name from pg_catalog.pg_partition_tree($1::regclass) p join pg_catalog.pg_class c on c.oid = p.relid
      where p.isleaf and p.level > 0`,
    [`${schema}.${table}`]
  )
  return rows.length === 0 ? null : rows.map(({ name }) => name)
}

async function buildOne (client: ClientBase, schema: string, { name, table, rest }: Index): Promise<void> {
  const state = await stateOf(client, schema, name)
  if (state === 'valid') return
  if (state === 'invalid') await client.query(`drop index concurrently if exists ${schema}.${quoted(name)}`)
  await client.query(`create index concurrently ${quoted(name)} on ${schema}.${quoted(table)} ${rest}`)
}

/** Postgres builds no index of a partitioned table concurrently. So each part gets its own, and then they are put together. */
async function buildParted (client: ClientBase, schema: string, { name, table, rest }: Index, leaves: readonly string[]): Promise<void> {
  if (await stateOf(client, schema, name) === 'valid') return
  for (const leaf of leaves) await buildOne(client, schema, { name: partName(leaf, name), table: leaf, rest })
  await client.query(`drop index if exists ${schema}.${quoted(name)}`)
  await client.query(`create index ${quoted(name)} on only ${schema}.${quoted(table)} ${rest}`)
  for (const leaf of leaves) {
    await client.query(`alter index ${schema}.${quoted(name)} attach partition ${schema}.${quoted(partName(leaf, name))}`)
  }
}

function partName (leaf: string, index: string): string {
  return `${leaf}_${index}`
}

async function stateOf (client: ClientBase, schema: string, name: string): Promise<'valid' | 'invalid' | 'absent'> {
  const { rows } = await client.query<{ valid: boolean }>(
    `${UNBALANCED} select i.indisvalid as valid from pg_catalog.pg_index i where i.indexrelid = pg_catalog.to_regclass($1)`,
    [`${schema}.${quoted(name)}`]
  )
  const [index] = rows
  return index === undefined ? 'absent' : index.valid ? 'valid' : 'invalid'
}

function quoted (name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
