-- compatible_from: 1
-- The records, their audit and the name of this installation. `:schema` stands for the configured schema, quoted.
-- What must always hold is a constraint: a release that is wrong about the protocol fails loudly instead of writing.

-- One table, as it is. Measured (bench/results/2026-11-21-growth.md, Postgres 15, two cores): 1,130 bytes a record with a
-- 500-byte answer — heap 1,024, primary key 77, expiry 29 — at a million and at ten million alike. Over an empty table, the p50 of
-- a first request is 0.98 to 1.11 times at ten million with 32 at once, of a replay from the store 1.12 to 1.26 times.
--   A narrow table beside answers partitioned by day would spare the sweep its 1,024 bytes of WAL a record, and cost every
-- settle a second row: the sweep has time, the settle has a client that waits.
--   The key stays 32 bytes: half of it would save 16 in the row and as many in the index, three per cent.
--   fillfactor stays 100: a settle is never a heap-only update, whatever room the page has, because the indexes on
-- lease_until and expires_at change with it.
-- One row per record. Fixed-width and short columns first, the answer last: headers and body go out of line (TOAST)
-- when they are large, and a look at a row that is in flight never reads them.
create table :schema.records (
  id              bytea not null primary key check (octet_length(id) = 32),
  state           text not null check (state in ('claimed', 'completed', 'consumed', 'released', 'indeterminate')),
  -- Fresh per claim, kept in every later state: a late settle of the same claim is told from anybody else's.
  owner           bytea not null check (octet_length(owner) = 16),
  attempt         integer not null check (attempt >= 1),
  -- How the fingerprint was made travels with it, so that a later build compares like with like.
  fp_alg          smallint not null,
  fingerprint     bytea not null,
  -- The three durations are kept with the row because the sweeper, a renewal and an operator know no routes.
  lease_ms        integer not null check (lease_ms > 0),
  unknown_keep_ms bigint not null check (unknown_keep_ms >= 0),
  quarantine_ms   bigint not null check (quarantine_ms >= 0),
  claimed_at      timestamptz not null,
  lease_until     timestamptz,
  settled_at      timestamptz,
  settled_by      text check (settled_by in ('owner', 'lease', 'probe', 'operator')),
  expires_at      timestamptz,
  status          smallint,
  unknown_stage   text,
  unknown_code    text,
  -- For people: what an operator needs to recognise the request. Never a credential, never a body.
  route           text not null,
  method          text not null,
  path            text not null,
  request_id      text not null,
  instance        text not null,
  key_hash        bytea not null,
  key_text        text,
  headers         bytea,
  body            bytea,
  -- A claimed record cannot expire: expiry is written by the settle, else a long execution would be claimed twice.
  constraint claimed_has_a_lease check ((state = 'claimed') = (lease_until is not null)),
  constraint claimed_never_expires check ((state = 'claimed') = (expires_at is null)),
  constraint settled_says_by_whom check ((state = 'claimed') = (settled_by is null)),
  constraint settled_says_when check ((state = 'claimed') = (settled_at is null)),
  constraint completed_has_a_body check ((state = 'completed') = (body is not null)),
  constraint kept_has_a_status check (state not in ('completed', 'consumed') or status is not null)
);

-- Three partial indexes, each as large as what it is for. There is none on route, key_hash or claimed_at: only
-- `records list` reads by them, a few times a day and bounded, while every claim would pay for keeping them.
create index records_lease on :schema.records (lease_until) where state = 'claimed';
create index records_expiry on :schema.records (expires_at) where expires_at is not null;
create index records_unresolved on :schema.records (settled_at) where state = 'indeterminate';

-- Every change by hand: who, when, why. Its rows outlive the record, so there is no reference to it.
create table :schema.audit (
  number     bigint generated always as identity primary key,
  at         timestamptz not null default clock_timestamp(),
  action     text not null check (action in ('resolve', 'release', 'delete')),
  record_id  bytea not null,
  owner      bytea not null,
  attempt    integer not null,
  state      text not null,
  route      text not null,
  request_id text not null,
  who        text not null,
  why        text not null
);
create index audit_record on :schema.audit (record_id);

-- Names this database in every Redis key: two deployments on one Redis never see each other. One row, for ever.
create table :schema.installation (
  only_one boolean primary key default true check (only_one),
  id       text not null check (id <> '')
);
insert into :schema.installation (id) values (gen_random_uuid()::text);
