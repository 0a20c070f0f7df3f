-- compatible_from: 1
-- What each delivery of a message came to. A delivered message says it in its own row, so a message that is delivered at once has no row here.
-- A message that is deleted takes its rows here with it.

-- Of a delivered message: how long its last delivery took, and the type of its answer. null: not known.
alter table messages add column took_ms integer;
alter table messages add column content_type text;

create table deliveries (
  message_id   blob not null references messages (id) on delete cascade,
  attempt      integer not null,
  -- When it ended.
  at           integer not null,
  -- null: it was not sent, or nobody knows.
  took_ms      integer,
  status       integer,
  error        text,
  content_type text,
  -- The first bytes of the answer.
  body         blob not null,
  -- The answer goes on behind them.
  is_cut       integer not null,
  primary key (message_id, attempt)
) strict, without rowid;
