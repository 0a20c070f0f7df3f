-- compatible_from: 1
-- What the operator API adds. A build that does not know it writes the audit without the new columns, and delivers from a paused route.

-- A check cannot be changed in place, so the two tables are made anew. `via`: how the operator was recognised. `before` and `after`: JSON;
-- null: written by a build of before.
alter table audit rename to audit_before_12;
create table audit (
  number       integer primary key,
  at           integer not null,
  action       text not null check (action in ('resolve', 'release', 'delete', 'probe')),
  who          text not null,
  why          text not null,
  record_id    blob not null,
  route        text not null,
  owner        blob not null,
  attempt      integer not null,
  state_before text not null,
  state_after  text not null,
  request_id   text,
  via          text,
  before       text,
  after        text
) strict;
insert into audit (number, at, action, who, why, record_id, route, owner, attempt, state_before, state_after)
  select number, at, action, who, why, record_id, route, owner, attempt, state_before, state_after from audit_before_12;
drop table audit_before_12;
create index audit_record on audit (record_id);
create index audit_at on audit (at);

alter table message_audit rename to message_audit_before_12;
create table message_audit (
  number     integer primary key,
  at         integer not null,
  action     text not null check (action in ('retry', 'discard', 'replay', 'pause', 'resume')),
  -- null: the route was paused or resumed.
  message_id blob,
  state      text not null,
  attempt    integer,
  route      text not null,
  request_id text,
  who        text not null,
  why        text not null,
  via        text,
  before     text,
  after      text
) strict;
insert into message_audit (number, at, action, message_id, state, attempt, route, request_id, who, why)
  select number, at, action, message_id, state, attempt, route, request_id, who, why from message_audit_before_12;
drop table message_audit_before_12;
create index message_audit_message on message_audit (message_id);
create index message_audit_at on message_audit (at);

-- Routes that accept and do not deliver.
create table paused_routes (
  route text not null primary key,
  since integer not null,
  who   text not null,
  why   text not null
) strict;

-- An audit row stays as it was written.
create trigger audit_stays_updated before update on audit begin select raise(abort, 'rows of the audit are never changed'); end;
create trigger audit_stays_deleted before delete on audit begin select raise(abort, 'rows of the audit are never changed'); end;
create trigger message_audit_stays_updated before update on message_audit begin select raise(abort, 'rows of the audit are never changed'); end;
create trigger message_audit_stays_deleted before delete on message_audit begin select raise(abort, 'rows of the audit are never changed'); end;
