/**
 * The audit of the records, inside the database. A trigger of this harness (in no migration) records every change of a row in the same
 * transaction. Renewals and probes without a result are left out, because they change no state.
 */
import { Client } from 'pg'
import { decodeHeaders } from '../../src/core/protocol/codec.ts'
import type { RecordState } from '../../src/core/record/record.ts'
import { printOf } from '../harness/history.ts'
import type { HistoryEvent } from '../harness/history.ts'

const INSTALL = `
create schema chaos;
create table chaos.audit (
  number     bigint generated always as identity,
  transaction bigint not null default txid_current(),
  at         double precision not null,
  gone       boolean not null,
  id         bytea not null,
  state      text not null,
  owner      bytea not null,
  attempt    integer not null,
  settled_by text,
  keep_ms    double precision,
  instance   text not null,
  status     smallint,
  headers    bytea,
  body       bytea
);
create function chaos.note (r onceway.records, gone boolean) returns void language sql as $$
  insert into chaos.audit (at, gone, id, state, owner, attempt, settled_by, keep_ms, instance, status, headers, body)
  values (extract(epoch from clock_timestamp()) * 1000, gone, r.id, r.state, r.owner, r.attempt, r.settled_by,
          extract(epoch from r.expires_at - r.settled_at) * 1000, r.instance, r.status, r.headers, r.body)
$$;
-- An operator's delete: at the moment that it takes effect.
create function chaos.on_shorten () returns trigger language plpgsql as $$ begin
  insert into chaos.audit (at, gone, id, state, owner, attempt, instance)
  values (extract(epoch from new.expires_at) * 1000, true, new.id, new.state, new.owner, new.attempt, new.instance);
  return null;
end $$;
create trigger chaos_shorten after update on onceway.records for each row
  when (new.expires_at < old.expires_at and new.settled_at = old.settled_at and new.state = old.state and new.owner = old.owner)
  execute function chaos.on_shorten();
${triggersOn('onceway.records', 'new.state <> old.state or new.owner <> old.owner or new.attempt <> old.attempt or new.settled_at is distinct from old.settled_at')}
`

/** A database that was just killed may still be restarting. */
const CONNECTS_WITHIN_MS = 30_000

/** The contents of a row, or what was written to it. */
export interface Written {
  readonly atMs: number
  readonly gone: boolean
  readonly record: string
  readonly state: RecordState
  readonly owner: string
  readonly attempt: number
  readonly by: 'owner' | 'lease' | 'probe' | 'operator' | null
  readonly keepMs: number
  readonly instance: string
  readonly print: string | null
  /** Of the answer. */
  readonly status?: number | null
  /** The transaction that wrote it. Absent: read from a row. */
  readonly transaction?: string | null
  /** What the row was called. Absent: as `record`. */
  readonly id?: string
}

interface Columns {
  readonly at: number
  readonly gone: boolean
  readonly id: Buffer
  readonly state: RecordState
  readonly owner: Buffer
  readonly attempt: number
  readonly settled_by: Written['by']
  readonly keep_ms: number | null
  readonly instance: string
  readonly status: number | null
  readonly headers: Buffer | null
  readonly body: Buffer | null
  readonly transaction: string | null
}

/** The records' table must be there: the first gateway has made it. */
export async function installAudit (url: string): Promise<void> {
  await withClient(url, async (client) => { await client.query(INSTALL) })
}

/** All committed writes, in order. */
export async function readAudit (url: string): Promise<Written[]> {
  return read(url, 'select at, transaction, gone, id, state, owner, attempt, settled_by, keep_ms, instance, status, headers, body from chaos.audit order by at, number')
}

export async function readRows (url: string, where = 'true'): Promise<Written[]> {
  return read(url, `select 0::float8 as at, null as transaction, false as gone, id, state, owner, attempt, settled_by, (extract(epoch from expires_at - settled_at) * 1000)::float8 as keep_ms, instance, status, headers, body from onceway.records where ${where}`)
}

/** The new state of a row, as the history has it. */
export function eventOf (written: Written): HistoryEvent {
  const { atMs, record, owner, attempt, state, by, keepMs, print, gone } = written
  if (gone) return { kind: 'deleted', atMs, record }
  if (state === 'claimed') return { kind: 'claimed', atMs, record, owner, attempt }
  return { kind: 'settled', atMs, record, owner, attempt, outcome: state, by: by ?? 'owner', keepMs, print }
}

async function read (url: string, text: string): Promise<Written[]> {
  return withClient(url, async (client) => (await client.query<Columns>(text)).rows.map(writtenOf))
}

function writtenOf (columns: Columns): Written {
  const { at, gone, id, state, owner, attempt, settled_by: by, keep_ms: keepMs, instance } = columns
  return {
    atMs: at,
    gone,
    record: id.toString('base64url'),
    state,
    owner: owner.toString('base64url'),
    attempt,
    by,
    keepMs: keepMs ?? 0,
    instance,
    print: printIn(columns),
    status: columns.status,
    transaction: columns.transaction
  }
}

function printIn ({ status, headers, body }: Columns): string | null {
  const decoded = headers === null ? null : decodeHeaders(headers)
  return status === null || decoded === null || body === null ? null : printOf(status, decoded, body)
}

/** The triggers that pass every inserted, deleted or changed row to `chaos.note`. */
export function triggersOn (table: string, changes: string): string {
  return `
create function chaos.on_insert () returns trigger language plpgsql as $$ begin perform chaos.note(new, false); return null; end $$;
create function chaos.on_delete () returns trigger language plpgsql as $$ begin perform chaos.note(old, true); return null; end $$;
create trigger chaos_insert after insert on ${table} for each row execute function chaos.on_insert();
create trigger chaos_update after update on ${table} for each row when (${changes}) execute function chaos.on_insert();
create trigger chaos_delete after delete on ${table} for each row execute function chaos.on_delete();
`
}

export async function withClient<Result> (url: string, work: (client: Client) => Promise<Result>): Promise<Result> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: CONNECTS_WITHIN_MS })
  client.on('error', () => {})
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end().catch(() => {})
  }
}
