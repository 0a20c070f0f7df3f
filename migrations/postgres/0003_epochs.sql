-- compatible_from: 1
-- A restored backup begins a new epoch: what it does not know any more is said to be unknown, once, by `onceway epoch bump`.

-- 1: no backup was ever restored here.
alter table :schema.installation add column epoch integer not null default 1 check (epoch >= 1);

-- Who said so, when and why, and how many records it made indeterminate. The audit of single records cannot hold it: it
-- wants a record and an owner.
create table :schema.epochs (
  epoch    integer primary key check (epoch >= 2),
  at       timestamptz not null default clock_timestamp(),
  claimed  bigint not null check (claimed >= 0),
  released bigint not null check (released >= 0),
  who      text not null,
  why      text not null
);
