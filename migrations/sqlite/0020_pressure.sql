-- compatible_from: 1
-- A pause that a consumer asks for may hold back the messages of one tenant (inbox.retryAfter), and a consumer may take so many of all gateways
-- together (inbox.total).
alter table messages add column tenant_id blob check (length(tenant_id) = 32);
create index messages_tenant on messages (tenant_id, due_at) where tenant_id is not null and due_at is not null;

create table tenant_pauses (
  tenant_id blob not null primary key check (length(tenant_id) = 32),
  until     integer not null
) strict;

-- By route, as JSON: core/inbox/bound.ts.
create table delivery_bounds (
  route text not null primary key,
  state text not null
) strict;
