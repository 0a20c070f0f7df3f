-- compatible_from: 1
-- What is due, of single messages and of the groups whose turn it is: each kind has its share of the deliveries, and is found without the other.
create index messages_due_single on messages (route, due_at, number) where state = 'waiting' and due_at is not null and group_id is null;
create index messages_due_group on messages (route, due_at, number) where state = 'waiting' and due_at is not null and group_id is not null;
drop index messages_due;
