-- compatible_from: 1
-- What a new epoch made of messages: so many are held, so many are delivered again.
alter table :schema.epochs
  add column held  bigint not null default 0 check (held >= 0),
  add column again bigint not null default 0 check (again >= 0);
