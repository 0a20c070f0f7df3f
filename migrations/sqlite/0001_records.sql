-- compatible_from: 1
-- The records, their audit and the name of this installation, in one file for one process. Times are milliseconds since
-- the Unix epoch by that process's clock. What must always hold is a constraint.

-- A rowid table on purpose: with answers of up to a mebibyte in the row, the index by id stays small and in memory.
create table records (
  id              blob not null primary key check (length(id) = 32),
  state           text not null check (state in ('claimed', 'completed', 'consumed', 'released', 'indeterminate')),
  -- Fresh per claim, kept in every later state: a late settle of the same claim is told from anybody else's.
  owner           blob not null check (length(owner) = 16),
  attempt         integer not null check (attempt >= 1),
  fp_alg          integer not null,
  fingerprint     blob not null,
  -- Kept with the row because the sweeper, a renewal and an operator know no routes.
  lease_ms        integer not null check (lease_ms > 0),
  unknown_keep_ms integer not null check (unknown_keep_ms >= 0),
  quarantine_ms   integer not null check (quarantine_ms >= 0),
  claimed_at      integer not null,
  lease_until     integer,
  settled_at      integer,
  settled_by      text check (settled_by in ('owner', 'lease', 'probe', 'operator')),
  expires_at      integer,
  status          integer,
  unknown_stage   text,
  unknown_code    text,
  route           text not null,
  method          text not null,
  path            text not null,
  request_id      text not null,
  instance        text not null,
  key_hash        blob not null,
  key_text        text,
  headers         blob,
  body            blob,
  -- A claimed record cannot expire: expiry is written by the settle, else a long execution would be claimed twice.
  constraint claimed_has_a_lease check ((state = 'claimed') = (lease_until is not null)),
  constraint claimed_never_expires check ((state = 'claimed') = (expires_at is null)),
  constraint settled_says_by_whom check ((state = 'claimed') = (settled_by is null)),
  constraint settled_says_when check ((state = 'claimed') = (settled_at is null)),
  constraint completed_has_a_body check ((state = 'completed') = (body is not null)),
  constraint kept_has_a_status check (state not in ('completed', 'consumed') or status is not null)
) strict;

-- Partial, each as large as what it is for. None on route, key_hash or claimed_at: only `records list` reads by them, a
-- few times a day, while every claim would pay for keeping them.
create index records_lease on records (lease_until) where state = 'claimed';
create index records_expiry on records (expires_at) where expires_at is not null;
create index records_unresolved on records (settled_at) where state = 'indeterminate';

-- Every change by hand: who, when, why. Its rows outlive the record, so there is no reference to it.
create table audit (
  number       integer primary key,
  at           integer not null,
  action       text not null check (action in ('resolve', 'release', 'delete')),
  who          text not null,
  why          text not null,
  record_id    blob not null,
  route        text not null,
  owner        blob not null,
  attempt      integer not null,
  state_before text not null,
  state_after  text not null
) strict;
create index audit_record on audit (record_id);

-- Names this database. One row, for ever.
create table installation (
  only_one integer primary key default 1 check (only_one = 1),
  id       text not null
) strict;
insert into installation (id) values (lower(hex(randomblob(16))));
