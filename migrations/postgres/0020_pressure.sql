-- compatible_from: 1
-- A pause that a consumer asks for may hold back the messages of one tenant (inbox.retryAfter), and a consumer may take so many of all gateways
-- together (inbox.total). A build that does not know them accepts messages without a tenant, and delivers without regard to either.
-- A check would read the whole table while everything waits.
alter table :schema.messages add column tenant_id bytea;

create table :schema.tenant_pauses (
  tenant_id bytea not null primary key check (octet_length(tenant_id) = 32),
  until     timestamptz not null
);

-- By route: core/inbox/bound.ts. The version grows with every change, and no change is made on what another has changed.
create table :schema.delivery_bounds (
  route   text not null primary key,
  version bigint not null,
  state   jsonb not null
);
