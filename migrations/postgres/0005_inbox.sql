-- compatible_from: 1
-- The inbox: requests that were accepted and are delivered later (mode `inbox`). A build that does not know these tables has
-- no such routes.

-- The order of acceptance. Not an identity: a batch draws in the order of its messages and inserts in the order of their ids.
create sequence :schema.message_numbers as bigint;
-- Whoever may use the schema: rights on its tables are all that a gateway's role is given.
grant usage on sequence :schema.message_numbers to public;

create table :schema.messages (
  id           bytea not null primary key check (octet_length(id) = 32),
  number       bigint not null,
  state        text not null check (state in ('waiting', 'delivering', 'delivered', 'held', 'dead', 'discarded')),
  -- The next of its group waits for it.
  blocks       boolean not null,
  -- Fencing, as everywhere: which worker, which delivery. The attempt only ever grows; the tries begin anew when an operator asks for it again.
  owner        bytea check (octet_length(owner) = 16),
  attempt      integer not null default 0,
  tries        integer not null default 0,
  -- Of one that waits: for its time; null: for its group's turn.
  due_at       timestamptz,
  route        text not null,
  group_id     bytea check (octet_length(group_id) = 32),
  holds        boolean not null,
  stops        boolean not null,
  keep_ms      bigint not null check (keep_ms >= 0),
  dead_keep_ms bigint not null check (dead_keep_ms >= 0),
  received_at  timestamptz not null,
  settled_at   timestamptz,
  expires_at   timestamptz,
  bytes        integer not null,
  fp_alg       smallint not null,
  fingerprint  bytea not null,
  -- Whose it is: nobody else is told how it stands.
  scope_hash   bytea not null check (octet_length(scope_hash) = 32),
  status       smallint,
  error        text,
  -- For people, as in records: never a credential, never a body.
  method       text not null,
  path         text not null,
  request_id   text not null,
  instance     text not null,
  key_hash     bytea not null,
  key_text     text,
  -- What the consumer last answered, where it is kept: codec.ts.
  answer       bytea,
  -- The request as it came; gone with the row.
  target       bytea not null,
  headers      bytea not null,
  body         bytea not null,
  constraint delivering_has_an_owner check ((state = 'delivering') = (owner is not null)),
  constraint only_waiting_is_due check (state = 'waiting' or due_at is null),
  constraint what_is_over_expires check ((state in ('waiting', 'delivering')) = (expires_at is null)),
  constraint what_is_under_way_blocks check (blocks or state not in ('waiting', 'delivering'))
);
create index messages_due on :schema.messages (route, due_at, number) where state = 'waiting' and due_at is not null;
create index messages_group on :schema.messages (group_id, number) where blocks and group_id is not null;
-- Of a group that has its turn: one, but after an operator's retry of an earlier one.
create index messages_called on :schema.messages (group_id) where due_at is not null and group_id is not null;
-- One of a group at a time, whatever two takers saw of it.
create unique index messages_one_of_group on :schema.messages (group_id) where state = 'delivering' and group_id is not null;
create index messages_delivering on :schema.messages (owner) where state = 'delivering';
create index messages_expiry on :schema.messages (expires_at) where expires_at is not null;
-- How much there is, and how old the oldest is, without a look at what was delivered.
create index messages_depth on :schema.messages (route, state, received_at) include (bytes) where state <> 'delivered' and state <> 'discarded';

-- Who delivers. What belongs to one that is no longer alive is taken from it.
create table :schema.workers (
  owner       bytea not null primary key check (octet_length(owner) = 16),
  alive_until timestamptz not null
);

-- Every change by hand, as for records.
create table :schema.message_audit (
  number     bigint generated always as identity primary key,
  at         timestamptz not null default clock_timestamp(),
  action     text not null check (action in ('retry', 'discard')),
  message_id bytea not null,
  state      text not null,
  attempt    integer not null,
  route      text not null,
  request_id text not null,
  who        text not null,
  why        text not null
);
create index message_audit_message on :schema.message_audit (message_id);
