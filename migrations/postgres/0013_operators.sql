-- compatible_from: 1
-- What the operator API adds. A build that does not know it writes the audit without the new columns, and delivers from a paused route.

-- How an operator was recognised, and the record before and after the change. null: written by a build of before.
alter table :schema.audit
  add column via    text,
  add column before jsonb,
  add column after  jsonb,
  drop constraint audit_action_check,
  add constraint audit_action_check check (action in ('resolve', 'release', 'delete', 'probe'));
create index audit_at on :schema.audit (at);

-- The same for messages. A route that is paused or resumed has no message.
alter table :schema.message_audit
  add column via    text,
  add column before jsonb,
  add column after  jsonb,
  alter column message_id drop not null,
  alter column attempt drop not null,
  alter column request_id drop not null,
  drop constraint message_audit_action_check,
  add constraint message_audit_action_check check (action in ('retry', 'discard', 'replay', 'pause', 'resume'));
create index message_audit_at on :schema.message_audit (at);

-- Routes that accept and do not deliver.
create table :schema.paused_routes (
  route text not null primary key,
  since timestamptz not null default clock_timestamp(),
  who   text not null,
  why   text not null
);

-- An audit row stays as it was written. Whoever owns the table can drop the trigger: let another role own it
-- (docs/guides/deploy-with-postgres.md).
create function :schema.refuse_audit_change() returns trigger language plpgsql as $$
begin
  raise exception 'rows of % are never changed', tg_table_name using errcode = 'integrity_constraint_violation';
end
$$;
create trigger audit_stays before update or delete or truncate on :schema.audit
  for each statement execute function :schema.refuse_audit_change();
create trigger message_audit_stays before update or delete or truncate on :schema.message_audit
  for each statement execute function :schema.refuse_audit_change();
create trigger epochs_stay before update or delete or truncate on :schema.epochs
  for each statement execute function :schema.refuse_audit_change();
