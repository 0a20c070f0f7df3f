-- compatible_from: 1
-- When a request was sent and answered, for the time line of its record. null: it was not sent, or nobody knows when.
alter table records add column sent_at     integer;
alter table records add column answered_at integer;
