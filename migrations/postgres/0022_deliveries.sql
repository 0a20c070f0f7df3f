-- compatible_from: 1
-- What each delivery of a message came to. A delivered message says it in its own row, so a message that is delivered at once has no row here.
-- A build that does not know this table writes nothing into it. It deletes messages all the same, and their rows here go with them.
alter table :schema.messages
  -- Of a delivered message: how long its last delivery took, and the type of its answer. null: not known.
  add column took_ms      bigint,
  add column content_type text;

create table :schema.deliveries (
  message_id   bytea not null references :schema.messages on delete cascade,
  attempt      integer not null,
  -- When it ended.
  at           timestamptz not null,
  -- null: it was not sent, or nobody knows.
  took_ms      bigint,
  status       smallint,
  error        text,
  content_type text,
  -- The first bytes of the answer.
  body         bytea not null,
  -- The answer goes on behind them.
  is_cut       boolean not null,
  primary key (message_id, attempt)
) with (autovacuum_vacuum_cost_limit = 2000);
