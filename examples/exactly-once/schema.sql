create table accounts (
  tenant text primary key,
  balance bigint not null default 0 check (balance >= 0)
);

-- No unique constraint, on purpose: it would refuse a second payment of one reference.
create table payments (
  id bigint generated always as identity primary key,
  tenant text not null references accounts,
  reference text not null,
  amount integer not null
);

create table processed_messages (
  key text primary key,             -- Onceway-Key
  attempt integer not null,         -- the highest Idempotency-Attempt that has begun
  answer json,                      -- null: nothing was changed
  begun_at timestamptz not null default now()
);
