-- compatible_from: 1
-- indexes: concurrently
-- The requests of delivered messages that are kept, by route and by the end of their time: for the sweep of what is over, and for the
-- bounds of a route. A route without inbox.keepDelivered has no entry. Nothing is swept before the index is there.
create index messages_kept on :schema.messages (route, request_until) include (bytes) where request_until is not null;
