-- compatible_from: 1
-- Consumers that have taken nothing since then (inbox.pauseAfter), and when that was last told.
create table :schema.failing_routes (
  route   text not null primary key,
  since   timestamptz not null default clock_timestamp(),
  last_at timestamptz not null default clock_timestamp()
);

-- When one message of a route that a gateway paused is delivered all the same. null: an operator paused it.
alter table :schema.paused_routes add column trial_at timestamptz;
