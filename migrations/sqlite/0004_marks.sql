-- compatible_from: 1
-- Which events have gone through of late, on routes with `mode: drop` that keep their marks in the database. A build that
-- does not know this table has no such routes.

create table marks (
  id         blob not null primary key check (length(id) = 32),
  -- Fresh per event that is let through: only its own takes a mark back.
  token      blob not null check (length(token) = 16),
  done       integer not null check (done in (0, 1)),
  -- Of one that runs: when a crash has freed it. Of one that is done: the end of its window.
  expires_at integer not null
) strict, without rowid;
create index marks_expiry on marks (expires_at);
