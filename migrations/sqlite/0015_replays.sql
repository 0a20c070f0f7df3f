-- compatible_from: 1
-- Requests of delivered messages that are kept for replays (inbox.keepDelivered). A build that does not know it deletes the request at each
-- delivery of its own, so such a message cannot be replayed. It delivers what was replayed, without the header Onceway-Replay.

-- Of a delivered message: its request is kept until then. null: it is not kept.
alter table messages add column request_until integer;
-- When an operator last replayed it. It stays, because the consumer has taken the message before.
alter table messages add column replayed_at integer;

-- For the sweep of what is over, and for the bounds of a route. A route without inbox.keepDelivered has no entry.
create index messages_kept on messages (route, request_until, bytes) where request_until is not null;
