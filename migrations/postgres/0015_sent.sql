-- compatible_from: 1
-- When a request was sent and answered, for the time line of its record. A build that does not know it leaves both as they are: what is
-- older than the claim is of an attempt before. null: it was not sent, or nobody knows when.
alter table :schema.records
  add column sent_at     timestamptz,
  add column answered_at timestamptz;
