-- compatible_from: 1
-- By which scheme ids are made (docs/concepts/identity.md): the rules that say what identifies a request, and the secret that keys the ids.

-- Every scheme that ever claimed here. `name`: the rules and the secret's fingerprint; null: nothing was claimed here yet, and the
-- first start chooses.
create table schemes (
  number    integer primary key check (number >= 1),
  name      text,
  since     integer not null,
  who       text,
  why       text,
  -- Its secret: nobody can make its ids any more.
  is_lost   integer not null default 0,
  -- No record, message or mark of it is left.
  ended_at  integer,
  look_from integer
) strict;
insert into schemes (number, name, since) values (1, '1', 0);

alter table installation add column scheme integer not null default 1;

alter table records  add column scheme integer not null default 1;
alter table messages add column scheme integer not null default 1;
alter table marks    add column scheme integer not null default 1;
