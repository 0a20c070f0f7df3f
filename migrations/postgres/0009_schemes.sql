-- compatible_from: 1
-- By which scheme ids are made (docs/concepts/identity.md): the rules that say what identifies a request, and the secret that keys the ids. A
-- build that does not know this table makes them by the rules of the first. Once others claim, its inserts fail: it names no
-- scheme, and there is none for it.

-- Every scheme that ever claimed here. `name`: the rules and the secret's fingerprint; null: nothing was claimed here yet, and the
-- first gateway that serves chooses.
create table :schema.schemes (
  number      smallint primary key check (number >= 1),
  name        text,
  since       timestamptz not null default clock_timestamp(),
  who         text,
  why         text,
  -- Its secret: nobody can make its ids any more.
  is_lost     boolean not null default false,
  -- No record, message or mark of it is left. Until then it is looked for under it, too; and not before `look_from` is it worth looking for rows.
  ended_at    timestamptz,
  look_from   timestamptz
);
insert into :schema.schemes (number, name) values (1, '1');

alter table :schema.installation add column scheme smallint not null default 1;

-- What is claimed by a build that names no scheme: null, which no column takes, where the rules are not its own. For everybody
-- who may write the tables.
create function :schema.unnamed_scheme() returns smallint language sql stable
  as 'select s.number from :schema.installation i join :schema.schemes s on s.number = i.scheme where s.name = ''1''';

-- With a constant first: the rows that are there need not be written anew.
alter table :schema.records  add column scheme smallint not null default 1;
alter table :schema.messages add column scheme smallint not null default 1;
alter table :schema.marks    add column scheme smallint not null default 1;
alter table :schema.records  alter column scheme set default :schema.unnamed_scheme();
alter table :schema.messages alter column scheme set default :schema.unnamed_scheme();
alter table :schema.marks    alter column scheme set default :schema.unnamed_scheme();

-- What each gateway can make ids by; null: it does not say, and knows the first scheme alone.
alter table :schema.gateways add column schemes text[];
