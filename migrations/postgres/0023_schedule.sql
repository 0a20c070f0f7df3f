-- compatible_from: 1
-- A sender may say when a message is first due (inbox.deliverAt, inbox.delay). Null: it was due at once, or an operator has retried it since.
-- A build that does not know the column accepts messages without a time. What it calls in a group, or takes, it delivers as if there were none:
-- a message that waits for its turn may then come early.
alter table :schema.messages add column not_before timestamptz;
