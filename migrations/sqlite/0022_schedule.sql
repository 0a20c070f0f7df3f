-- compatible_from: 1
-- A sender may say when a message is first due (inbox.deliverAt, inbox.delay). Null: it was due at once, or an operator has retried it since.
alter table messages add column not_before integer;
-- How much there is, and how old the oldest is: a message does not age before its time. Read from the index alone, as before.
create index messages_open on messages (route, state, received_at, bytes, not_before) where state <> 'delivered' and state <> 'discarded';
drop index messages_depth;
