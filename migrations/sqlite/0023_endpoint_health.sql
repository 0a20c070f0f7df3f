-- compatible_from: 1
-- Consumers that have taken nothing since then (inbox.pauseAfter), and when that was last told.
create table failing_routes (
  route   text not null primary key,
  since   integer not null,
  last_at integer not null
) strict;

-- When one message of a route that the gateway paused is delivered all the same. null: an operator paused it.
alter table paused_routes add column trial_at integer;
