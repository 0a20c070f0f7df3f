/**
 * The audit of the messages, inside the database. A trigger of this harness records every change in the same transaction.
 * Calls of a group's next turn are left out, because they change no state. Of what an operator or a gateway changes for others to see
 * (pauses, and messages that wait again), the time is that of the commit, as near as a trigger can come to it.
 */
import type { MessageState } from '../../../src/core/inbox/message.ts'
import { triggersOn, withClient } from '../audit.ts'

const INSTALL = `
create schema chaos;
create table chaos.messages (
  place   bigint generated always as identity,
  at      double precision not null,
  began   double precision not null default extract(epoch from statement_timestamp()) * 1000,
  gone    boolean not null,
  id      bytea not null,
  state   text not null,
  owner   bytea,
  attempt integer not null,
  tries   integer not null,
  status  smallint,
  error   text,
  request_id text not null,
  due_from double precision
);
create function chaos.note (m onceway.messages, gone boolean) returns void language sql as $$
  insert into chaos.messages (at, gone, id, state, owner, attempt, tries, status, error, request_id, due_from)
  values (extract(epoch from clock_timestamp()) * 1000, gone, m.id, m.state, m.owner, m.attempt, m.tries, m.status, m.error, m.request_id,
          extract(epoch from m.not_before) * 1000)
$$;
create table chaos.pauses (
  place    bigint generated always as identity,
  at       double precision not null,
  gone     boolean not null,
  route    text not null,
  trial_at timestamptz
);
create function chaos.on_pause () returns trigger language plpgsql as $$ begin
  insert into chaos.pauses (at, gone, route, trial_at)
  values (extract(epoch from clock_timestamp()) * 1000, tg_op = 'DELETE', coalesce(new.route, old.route), new.trial_at);
  return null;
end $$;
create constraint trigger chaos_pause after insert or update or delete on onceway.paused_routes
  deferrable initially deferred for each row execute function chaos.on_pause();
create table chaos.by_hand (number bigint primary key, at double precision not null);
create function chaos.on_audit () returns trigger language plpgsql as $$ begin
  insert into chaos.by_hand values (new.number, extract(epoch from clock_timestamp()) * 1000);
  return null;
end $$;
create constraint trigger chaos_by_hand after insert on onceway.message_audit
  deferrable initially deferred for each row execute function chaos.on_audit();
${triggersOn('onceway.messages', 'new.state <> old.state or new.owner is distinct from old.owner or new.attempt <> old.attempt or new.tries <> old.tries')}
`

/** The new state of a message. */
export interface Change {
  readonly atMs: number
  /** When its statement began, by the database. The statement saw everything that was committed before. */
  readonly beganMs: number
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
  /** It is not handed out before. null: it has no time. */
  readonly dueFromMs: number | null
}

/** A pause of an inbox begins, changes or ends. */
export interface PauseChange {
  readonly atMs: number
  readonly gone: boolean
  readonly route: string
  /** When a gateway may deliver one message all the same. null: an operator paused it. */
  readonly trialAtMs: number | null
}

/** An operator's change: the state and the attempt of the message before it. */
export interface ByHand {
  readonly record: string
  readonly atMs: number
  readonly action: 'retry' | 'discard' | 'replay'
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
    'select at, began, gone, id, state, owner, attempt, tries, status, error, request_id, due_from from chaos.messages order by at, place'
  )
}

/** As they stand. */
export async function readMessages (url: string): Promise<Change[]> {
  return readChangesOf(
    url,
    'select 0::float8 as at, 0::float8 as began, false as gone, id, state, owner, attempt, tries, status, error, request_id, null::float8 as due_from from onceway.messages'
  )
}

export async function readByHand (url: string): Promise<ByHand[]> {
  const rows = await withClient(url, async (client) => (await client.query<Omit<ByHand, 'record' | 'atMs'> & {
    readonly at: number
    readonly message_id: Buffer
  }>(
    `select h.at, m.message_id, m.action, m.state, m.attempt from onceway.message_audit m join chaos.by_hand h on h.number = m.number
      where m.message_id is not null order by m.number`
  )).rows)
  return rows.map(({ at, message_id: id, ...rest }) => ({ ...rest, atMs: at, record: id.toString('base64url') }))
}

/** Of all inboxes, in order. */
export async function readPauses (url: string): Promise<PauseChange[]> {
  return withClient(url, async (client) => (await client.query<PauseChange>(
    'select at as "atMs", gone, route, (extract(epoch from trial_at) * 1000)::float8 as "trialAtMs" from chaos.pauses order by at, place'
  )).rows)
}

/** The inboxes that are paused now, and by whom. */
export async function readPaused (url: string): Promise<Map<string, 'operator' | 'gateway'>> {
  const rows = await withClient(url, async (client) => (await client.query<{ readonly route: string, readonly by_hand: boolean }>(
    'select route, trial_at is null as by_hand from onceway.paused_routes'
  )).rows)
  return new Map(rows.map(({ route, by_hand: byHand }) => [route, byHand ? 'operator' : 'gateway']))
}

/** The key of some message of an inbox that was delivered. null: there is none. */
export async function readDeliveredKey (url: string, inbox: string): Promise<string | null> {
  const rows = await withClient(url, async (client) => (await client.query<{ readonly key_text: string }>(
    'select key_text from onceway.messages where route = $1 and state = \'delivered\' order by random() limit 1',
    [inbox]
  )).rows)
  return rows[0]?.key_text ?? null
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
  readonly began: number
  readonly gone: boolean
  readonly id: Buffer
  readonly state: MessageState
  readonly owner: Buffer | null
  readonly attempt: number
  readonly tries: number
  readonly status: number | null
  readonly error: string | null
  readonly request_id: string
  readonly due_from: number | null
}

async function readChangesOf (url: string, text: string): Promise<Change[]> {
  const rows = await withClient(url, async (client) => (await client.query<Columns>(text)).rows)
  return rows.map(({ at, began, id, owner, request_id: call, due_from: dueFromMs, ...rest }) => ({
    ...rest,
    atMs: at,
    beganMs: began,
    dueFromMs,
    record: id.toString('base64url'),
    owner: owner === null ? null : owner.toString('base64url'),
    call
  }))
}
