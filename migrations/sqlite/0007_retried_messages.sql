-- compatible_from: 1
-- When an operator asked for it again: its age (inbox.maxAge) counts from then, as its tries do.
alter table messages add column retried_at integer;
