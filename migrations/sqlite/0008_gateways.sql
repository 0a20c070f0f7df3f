-- compatible_from: 1
-- What the gateway has seen of this machine's time: a clock that steps ahead ends no retention and no lease early. One process
-- serves from this file, so its sign of life is one row.

create table clock (
  only_one      integer primary key default 1 check (only_one = 1),
  -- The last sign of life; null: none yet.
  seen_at       integer,
  -- How far the clock has stepped ahead and nobody has said that it is right: until `ahead_until` nothing that was written before ends early.
  ahead_ms      integer not null default 0 check (ahead_ms >= 0),
  -- The last time that was right, the time at which it was found not to be, and until when that is believed.
  ahead_after   integer,
  ahead_since   integer,
  ahead_until   integer,
  -- How often an operator has said that the time is right, and who did last.
  confirmations integer not null default 0,
  confirmed_at  integer,
  who           text,
  why           text
) strict;
insert into clock default values;

-- Of the copies in Redis, which this store has none of.
alter table installation add column generation integer not null default 1;
