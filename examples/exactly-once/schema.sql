create table accounts (
  tenant text primary key,
  balance bigint not null default 0 check (balance >= 0)
);

-- On purpose without anything that would refuse a second payment of one reference.
create table payments (
  id bigint generated always as identity primary key,
  tenant text not null references accounts,
  reference text not null,
  amount integer not null
);

create table processed_messages (
  key text primary key,             -- Onceway-Key
  attempt integer not null,         -- the highest Idempotency-Attempt that has begun
  answer json,                      -- null: it has changed nothing
  begun_at timestamptz not null default now()
);
