-- compatible_from: 1
-- A restored backup begins a new epoch: what it does not know any more is said to be unknown, once, by `onceway epoch bump`.

-- 1: no backup was ever restored here.
alter table installation add column epoch integer not null default 1;

-- Who said so, when and why, and how many records it made indeterminate. The audit of single records cannot hold it: it
-- wants a record and an owner.
create table epochs (
  epoch    integer primary key check (epoch >= 2),
  at       integer not null,
  claimed  integer not null,
  released integer not null,
  who      text not null,
  why      text not null
) strict;
