-- compatible_from: 1
-- indexes: concurrently
-- The waiting messages of a tenant. A route without such a value has no entry.
create index messages_tenant on :schema.messages (tenant_id, due_at) where tenant_id is not null and due_at is not null;
