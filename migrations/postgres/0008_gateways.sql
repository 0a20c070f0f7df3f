-- compatible_from: 1
-- Who serves from this database, what it has seen of the database's time, and whether what stands in Redis is of this database
-- and of today. A build that does not know these tables gives no sign of life, and believes its Redis and the clock as before.

-- Every gateway process, by a name that it draws at its start. The row is its sign of life: a small real write, so that
-- whoever has it acknowledged knows that the database takes writes. The newest stays when the others are swept: it says when
-- this database was last in use.
create table :schema.gateways (
  id       bytea not null primary key check (octet_length(id) = 16),
  instance text not null,
  -- Grows with every sign of life: what a copy of this database, made at another moment, does not have.
  beat     bigint not null,
  seen_at  timestamptz not null,
  -- How far it finds the database's clock ahead of where its own says that it should be, in milliseconds,
  ahead_ms bigint not null default 0 check (ahead_ms >= 0),
  -- as it judged the database's time of `judged_at`, trusting that of `anchored_at`. null: it has judged none yet.
  anchored_at timestamptz,
  judged_at   timestamptz
);

-- How far the clock has stepped ahead and nobody has said that it is right: until `ahead_until` nothing that was written
-- before ends early. One row.
create table :schema.clock (
  only_one      boolean primary key default true check (only_one),
  ahead_ms      bigint not null default 0 check (ahead_ms >= 0),
  -- The last time that was right, the time at which it was found not to be, and until when that is believed.
  ahead_after   timestamptz,
  ahead_since   timestamptz,
  ahead_until   timestamptz,
  -- How often an operator has said that the time is right, and who did last.
  confirmations integer not null default 0,
  confirmed_at  timestamptz,
  who           text,
  why           text
);
insert into :schema.clock default values;

alter table :schema.installation
  -- Of the copies in Redis: those of another generation are ignored. A delete by hand begins a new one.
  add column generation bigint not null default 1,
  -- Which database this id was drawn for: a copy of the database draws its own.
  add column bound_to   text;

-- What each gateway does with which route. A build that does not know this table registers nothing: the builds of before are
-- taken down before a route's mode is changed.
create table :schema.gateway_routes (
  gateway  bytea not null references :schema.gateways (id) on delete cascade,
  route    text not null,
  -- Requests of this route may be sent by it under a claim: while it lives, nobody accepts one without a claim. Set under a
  -- lock that waits for the acceptances under way.
  executes boolean not null,
  -- What others should agree with: a short text for each aspect of the route's policy.
  policy   jsonb not null,
  primary key (route, gateway)
);
create index gateway_routes_gateway on :schema.gateway_routes (gateway);
