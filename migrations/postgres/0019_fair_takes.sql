-- compatible_from: 1
-- indexes: concurrently
-- What is due, of single messages and of the groups whose turn it is: each kind has its share of the deliveries, and is found without the
-- other. Until they are there, both are found by messages_due. A build that does not know them takes messages by messages_depth then, which
-- is slow beside a long backlog.
create index messages_due_single on :schema.messages (route, due_at, number) where state = 'waiting' and due_at is not null and group_id is null;
create index messages_due_group on :schema.messages (route, due_at, number) where state = 'waiting' and due_at is not null and group_id is not null;
drop index if exists :schema.messages_due;
