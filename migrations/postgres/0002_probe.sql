-- compatible_from: 1
-- What the upstream is to be asked when the outcome of a record stays unknown (`unknown: probe`). A build that does not
-- know these columns leaves them empty: nobody asks about its records, and they are held.

alter table :schema.records
  -- Rendered when the record was claimed: the upstream's name, method, target, fields. Gone once the outcome is known.
  add column question  bytea,
  -- null: nobody has asked yet. While somebody asks, the end of his time for it; infinity: nobody asks any more.
  add column ask_at    timestamptz,
  add column asked     integer not null default 0,
  -- Of the first "not found" that counts; a second one later frees the key.
  add column absent_at timestamptz;

-- As large as what is being asked about, each route in the order in which its records are due.
create index records_question on :schema.records (route, coalesce(ask_at, settled_at)) where state = 'indeterminate' and question is not null;
