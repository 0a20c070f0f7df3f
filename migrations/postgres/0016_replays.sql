-- compatible_from: 1
-- Requests of delivered messages that are kept for replays (inbox.keepDelivered). A build that does not know it deletes the request at each
-- delivery of its own, so such a message cannot be replayed. It delivers what was replayed, without the header Onceway-Replay.

alter table :schema.messages
  -- Of a delivered message: its request is kept until then. null: it is not kept.
  add column request_until timestamptz,
  -- When an operator last replayed it. It stays, because the consumer has taken the message before.
  add column replayed_at   timestamptz;
