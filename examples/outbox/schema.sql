create table orders (
  customer integer primary key,
  placed_at timestamptz not null default now()
);

create table outbox (
  id uuid primary key default gen_random_uuid(),   -- the event's identity, and its Idempotency-Key
  position bigint generated always as identity,
  topic text not null,
  payload jsonb not null,
  state text not null default 'pending' check (state in ('pending', 'retry', 'sent')),
  attempts integer not null default 0,
  next_attempt_at timestamptz not null default now(),
  last_error text,
  sent_at timestamptz
);

create index outbox_unsent on outbox (position) where state <> 'sent';
