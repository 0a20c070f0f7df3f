-- compatible_from: 1
-- What operators search by. All but claimed records: a claim writes none of these, and a settle writes one entry in each of the first two.
-- Claimed records are few, and have an index (records_lease).

-- The order of every list. Entries are added at its end.
create index records_claimed_at on records (claimed_at) where state <> 'claimed';

-- A key's hash is a random number, and each would touch another page of a large index. Within ten minutes of claims they share few pages.
-- A search asks for each ten minutes in turn.
create index records_key on records (claimed_at / 600000, substr(key_hash, 1, 8)) where state <> 'claimed';

-- The states that few records have. A list of three would cost each settle a table of its own.
create index records_exceptional on records (state, claimed_at) where state = 'consumed' or state = 'released' or state = 'indeterminate';

-- Messages that have ended. Of the others there is messages_depth.
create index messages_ended on messages (received_at) where state in ('delivered', 'discarded');
