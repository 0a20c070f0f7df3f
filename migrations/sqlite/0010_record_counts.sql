-- compatible_from: 1
-- How many records each caller has on a route that bounds them (recordsPerCaller, recordsPerPeer), in steps of time. A build that
-- does not know this table counts none.
create table record_counts (
  route      text not null,
  -- A digest of who it is.
  who        blob not null check (length(who) = 32),
  -- When what came within this step ends.
  expires_at integer not null,
  records    integer not null,
  primary key (route, who, expires_at)
) strict, without rowid;
create index record_counts_expiry on record_counts (expires_at);
