-- compatible_from: 1
-- Which events have gone through of late, on routes with `mode: drop` that keep their marks in the database. A build that
-- does not know this table has no such routes.

-- No row of `records` and none of its rules: a mark has two values and an end, and nothing is replayed from it.
create table :schema.marks (
  id         bytea not null primary key check (octet_length(id) = 32),
  -- Fresh per event that is let through: only its own takes a mark back.
  token      bytea not null check (octet_length(token) = 16),
  done       boolean not null,
  -- Of one that runs: when a crash has freed it. Of one that is done: the end of its window.
  expires_at timestamptz not null
);
create index marks_expiry on :schema.marks (expires_at);
