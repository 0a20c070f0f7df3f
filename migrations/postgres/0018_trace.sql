-- compatible_from: 1
-- The trace context (W3C traceparent) of the request that executes, for the traces of its retries. null: it is not recorded. A build that
-- does not know it claims a past row anew without clearing it: then a retry's trace leads to the execution before.
alter table :schema.records add column trace text;
