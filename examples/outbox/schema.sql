create table customers (
  id integer primary key,
  orders integer not null default 1
);

create table orders (
  customer integer references customers,
  number integer,
  placed_at timestamptz not null default now(),
  primary key (customer, number)
);

create table outbox (
  id uuid primary key default gen_random_uuid(),   -- the event's identity, and its Idempotency-Key
  position bigint generated always as identity,
  topic text not null,
  customer integer not null,                       -- a customer's events are sent one after another
  number integer not null,
  payload jsonb not null,
  state text not null default 'pending' check (state in ('pending', 'retry', 'sent')),
  attempts integer not null default 0,
  next_attempt_at timestamptz not null default now(),
  last_error text,
  sent_at timestamptz
);

create index outbox_unsent on outbox (position) where state <> 'sent';
create index outbox_of_customer on outbox (customer, position) where state <> 'sent';
