-- compatible_from: 1
-- The trace context (W3C traceparent) of the request that executes, for the traces of its retries. null: it is not recorded.
alter table records add column trace text;
