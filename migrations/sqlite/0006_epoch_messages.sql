-- compatible_from: 1
-- What a new epoch made of messages: so many are held, so many are delivered again.
alter table epochs add column held integer not null default 0;
alter table epochs add column again integer not null default 0;
