-- compatible_from: 1
-- The inbox: requests that were accepted and are delivered later (mode `inbox`). A build that does not know these tables has
-- no such routes. Times are milliseconds since the Unix epoch.

create table messages (
  -- The order of acceptance, within a group.
  number       integer primary key,
  id           blob not null unique check (length(id) = 32),
  state        text not null check (state in ('waiting', 'delivering', 'delivered', 'held', 'dead', 'discarded')),
  -- The next of its group waits for it.
  blocks       integer not null,
  -- Fencing, as everywhere: which worker, which delivery. The attempt only ever grows; the tries begin anew when an operator asks for it again.
  owner        blob check (length(owner) = 16),
  attempt      integer not null default 0,
  tries        integer not null default 0,
  -- Of one that waits: for its time; null: for its group's turn.
  due_at       integer,
  route        text not null,
  group_id     blob check (length(group_id) = 32),
  holds        integer not null,
  stops        integer not null,
  keep_ms      integer not null check (keep_ms >= 0),
  dead_keep_ms integer not null check (dead_keep_ms >= 0),
  received_at  integer not null,
  settled_at   integer,
  expires_at   integer,
  bytes        integer not null,
  fp_alg       integer not null,
  fingerprint  blob not null,
  -- Whose it is: nobody else is told how it stands.
  scope_hash   blob not null check (length(scope_hash) = 32),
  status       integer,
  error        text,
  -- For people, as in records: never a credential, never a body.
  method       text not null,
  path         text not null,
  request_id   text not null,
  instance     text not null,
  key_hash     blob not null,
  key_text     text,
  -- What the consumer last answered, where it is kept: codec.ts.
  answer       blob,
  -- The request as it came; gone with the row.
  target       blob not null,
  headers      blob not null,
  body         blob not null,
  constraint delivering_has_an_owner check ((state = 'delivering') = (owner is not null)),
  constraint only_waiting_is_due check (state = 'waiting' or due_at is null),
  constraint what_is_over_expires check ((state in ('waiting', 'delivering')) = (expires_at is null)),
  constraint what_is_under_way_blocks check (blocks or state not in ('waiting', 'delivering'))
) strict;
create index messages_due on messages (route, due_at, number) where state = 'waiting' and due_at is not null;
create index messages_group on messages (group_id, number) where blocks and group_id is not null;
-- Of a group that has its turn: one, but after an operator's retry of an earlier one.
create index messages_called on messages (group_id) where due_at is not null and group_id is not null;
-- One of a group at a time.
create unique index messages_one_of_group on messages (group_id) where state = 'delivering' and group_id is not null;
create index messages_delivering on messages (owner) where state = 'delivering';
create index messages_expiry on messages (expires_at) where expires_at is not null;
-- How much there is, and how old the oldest is, without a look at what was delivered.
create index messages_depth on messages (route, state, received_at, bytes) where state <> 'delivered' and state <> 'discarded';

-- Who delivers. What belongs to one that is no longer alive is taken from it.
create table workers (
  owner       blob not null primary key check (length(owner) = 16),
  alive_until integer not null
) strict;

-- Every change by hand, as for records.
create table message_audit (
  number     integer primary key,
  at         integer not null,
  action     text not null check (action in ('retry', 'discard')),
  message_id blob not null,
  state      text not null,
  attempt    integer not null,
  route      text not null,
  request_id text not null,
  who        text not null,
  why        text not null
) strict;
create index message_audit_message on message_audit (message_id);
