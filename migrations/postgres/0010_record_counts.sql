-- compatible_from: 1
-- How many records each caller has on a route that bounds them (recordsPerCaller, recordsPerPeer), in steps of time. A build that
-- does not know this table counts none.
create table :schema.record_counts (
  route      text not null,
  -- A digest of who it is.
  who        bytea not null check (octet_length(who) = 32),
  -- When what came within this step ends.
  expires_at timestamptz not null,
  records    bigint not null,
  primary key (route, who, expires_at)
);
create index record_counts_expiry on :schema.record_counts (expires_at);
