/**
 * The audit of the messages, inside the database. A trigger of this harness records every change in the same transaction.
 * Calls of a group's next turn are left out, because they change no state.
 */
import type { MessageState } from '../../../src/core/inbox/message.ts'
import { triggersOn, withClient } from '../audit.ts'

const INSTALL = `
create schema chaos;
create table chaos.messages (
  place   bigint generated always as identity,
  at      double precision not null,
  gone    boolean not null,
  id      bytea not null,
  state   text not null,
  owner   bytea,
  attempt integer not null,
  tries   integer not null,
  status  smallint,
  error   text,
  request_id text not null
);
create function chaos.note (m onceway.messages, gone boolean) returns void language sql as $$
  insert into chaos.messages (at, gone, id, state, owner, attempt, tries, status, error, request_id)
  values (extract(epoch from clock_timestamp()) * 1000, gone, m.id, m.state, m.owner, m.attempt, m.tries, m.status, m.error, m.request_id)
$$;
${triggersOn('onceway.messages', 'new.state <> old.state or new.owner is distinct from old.owner or new.attempt <> old.attempt or new.tries <> old.tries')}
`

/** The new state of a message. */
export interface Change {
  readonly atMs: number
  readonly gone: boolean
  readonly record: string
  readonly state: MessageState
  /** Of one that is being delivered. */
  readonly owner: string | null
  readonly attempt: number
  readonly tries: number
  readonly status: number | null
  readonly error: string | null
  /** X-Request-Id of the request that was accepted. */
  readonly call: string
}

/** An operator's change: the state and the attempt of the message at that time. */
export interface ByHand {
  readonly record: string
  readonly atMs: number
  readonly action: 'retry' | 'discard'
  readonly state: MessageState
  readonly attempt: number
}

export async function installMessageAudit (url: string): Promise<void> {
  await withClient(url, async (client) => { await client.query(INSTALL) })
}

/** All committed changes, in order. */
export async function readChanges (url: string): Promise<Change[]> {
  return readChangesOf(
    url,
    'select at, gone, id, state, owner, attempt, tries, status, error, request_id from chaos.messages order by at, place'
  )
}

/** As they stand. */
export async function readMessages (url: string): Promise<Change[]> {
  return readChangesOf(
    url,
    'select 0::float8 as at, false as gone, id, state, owner, attempt, tries, status, error, request_id from onceway.messages'
  )
}

export async function readByHand (url: string): Promise<ByHand[]> {
  const rows = await withClient(url, async (client) => (await client.query<Omit<ByHand, 'record' | 'atMs'> & {
    readonly at: number
    readonly message_id: Buffer
  }>(
    'select (extract(epoch from at) * 1000)::float8 as at, message_id, action, state, attempt from onceway.message_audit order by number'
  )).rows)
  return rows.map(({ at, message_id: id, ...rest }) => ({ ...rest, atMs: at, record: id.toString('base64url') }))
}

/** How many messages are not over, by route and state. */
export async function readOpen (url: string): Promise<Map<string, number>> {
  const rows = await withClient(url, async (client) => (await client.query<{ readonly name: string, readonly count: number }>(
    'select route || \' \' || state as name, count(*)::int as count from onceway.messages where state in (\'waiting\', \'delivering\') group by 1'
  )).rows)
  return new Map(rows.map(({ name, count }) => [name, count]))
}

interface Columns {
  readonly at: number
  readonly gone: boolean
  readonly id: Buffer
  readonly state: MessageState
  readonly owner: Buffer | null
  readonly attempt: number
  readonly tries: number
  readonly status: number | null
  readonly error: string | null
  readonly request_id: string
}

async function readChangesOf (url: string, text: string): Promise<Change[]> {
  const rows = await withClient(url, async (client) => (await client.query<Columns>(text)).rows)
  return rows.map(({ at, id, owner, request_id: call, ...rest }) => ({
    ...rest,
    atMs: at,
    record: id.toString('base64url'),
    owner: owner === null ? null : owner.toString('base64url'),
    call
  }))
}
