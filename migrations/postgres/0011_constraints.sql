-- compatible_from: 1
-- Postgres reads the text of every constraint again in each statement that writes. Fourteen took a tenth to a fifth of what a claim or a
-- settle takes there. Two stay: what is claimed cannot expire, and what is completed has its answer, and nothing else has one.
--   What each of the others meant is held elsewhere. Every write is one of a few statements of src/store/postgres, which set the columns
-- of a state together. Every reader treats a row that makes no sense (an unknown state, an owner of another length, a completed record
-- without its answer) as one of unknown outcome: it is never executed (src/store/postgres/rows.ts). The tests of the store look for rows
-- that break one of them (WHOLE in test/store/postgres/world.ts).
alter table :schema.records
  -- Ids are SHA-256, and owners 16 random bytes.
  drop constraint records_id_check,
  drop constraint records_owner_check,
  -- Written by the statements: literals, and a number that only grows.
  drop constraint records_state_check,
  drop constraint records_settled_by_check,
  drop constraint records_attempt_check,
  -- The configuration has no others.
  drop constraint records_lease_ms_check,
  drop constraint records_unknown_keep_ms_check,
  drop constraint records_quarantine_ms_check,
  -- Set together with the state.
  drop constraint claimed_has_a_lease,
  drop constraint settled_says_by_whom,
  drop constraint settled_says_when,
  drop constraint kept_has_a_status;
