/** The rules, each left out alone, with the smallest faults that show its purpose. */
import { STUCK } from './searches.ts'
import type { Caught } from './searches.ts'

const [HOLD, RETRY, PROBE] = ['HOLD', 'RETRY', 'PROBE']

/** `name`: of the definition M_… in onceway.pml. */
const without = (name: string, what: string, by: string, define: Caught['define']): Caught => ({
  name,
  what,
  by,
  define: { [`M_${name}`]: 1, ...define }
})

export const MUTATIONS: readonly Caught[] = [
  without('REDIS_DECIDES', 'P1: the row is the claim, not the lock', 'I1_at_most_once', { POLICY: HOLD, REDIS: 1 }),
  without('NO_LEASE_CHECK', 'E0: the lease is checked at the last point before the first byte', 'I2_attempts_grow', {
    POLICY: RETRY,
    STALLS: 1
  }),
  without('LEASE_FROM_REPLY', 'P4: the owner counts its lease from before the statement', 'I2_one_lease', { POLICY: RETRY, STALLS: 1 }),
  without('LAPSE_IN_THE_DARK', 'E2b: a lease of contact before anybody\'s lease is lapsed', 'E2b_the_living_keep_their_lease', {
    POLICY: HOLD,
    OUTAGES: 1
  }),
  without(
    'LAPSE_ON_ITS_WAY',
    'E2b: of the moment at which the statement is carried out, not of the one at which it is sent',
    'E2b_the_living_keep_their_lease',
    { POLICY: HOLD, OUTAGES: 1 }
  ),
  without('LAPSE_AS_SEEN', 'P5: lapse tests the lease on the locked row', 'E2b_the_living_keep_their_lease', { POLICY: RETRY, STALLS: 1 }),
  without(
    'CLOCK_BELIEVED',
    'P4: what a clock that has stepped calls over is not over for who knows better',
    'E2b_the_living_keep_their_lease',
    { POLICY: HOLD, STEPS: 1 }
  ),
  without('RETENTION_BELIEVED', 'P4: nor is a retention', 'nothing_ends_early', { POLICY: HOLD, STEPS: 1 }),
  without('DOUBT_UNHEARD', 'P4: who starts hears of the doubt before he serves', 'E2b_the_living_keep_their_lease', {
    POLICY: HOLD,
    STEPS: 1,
    CRASHES: 1
  }),
  without('READS_ARE_CONTACT', 'E2b: only an acknowledged write is contact', 'E2b_the_living_keep_their_lease', { POLICY: HOLD, HANGS: 1 }),
  without('RENEWALS_PASS_BY', 'E2: a renewal that has found its row locked waits for it', 'E2b_the_living_keep_their_lease', {
    POLICY: HOLD,
    LOCKS: 1
  }),
  without('UNVOUCHED', 'P6: what is replayed is durable', 'what_is_told_is_durable', { POLICY: HOLD, HANGS: 1 }),
  without('SETTLED_BY_READING', 'P6: what was settled is known by an acknowledged write', 'what_is_told_is_durable', {
    POLICY: HOLD,
    HANGS: 1
  }),
  without('TAKE_WITHOUT_STATE', 'P5: take tests the state on the locked row', 'I7_completed_stays', {
    POLICY: HOLD,
    STALLS: 1,
    OPERATOR: 1,
    MISTAKEN: 1
  }),
  without('ATTEMPT_KEPT', '§2: the attempt grows by one with every claim of a life', 'I2_attempts_grow', { POLICY: RETRY }),
  without('OWNER_PER_PROCESS', '§2: an owner is drawn anew for every claim', 'P10_own_lock', { POLICY: HOLD, REQS0: 2, LOST: 2 }),
  without('CONFIRM_BY_READING', 'P6: a claim in doubt is confirmed by a write', 'unknown_only_if_sent', {
    POLICY: HOLD,
    LOST: 1,
    GHOSTS: 1
  }),
  without('NOT_RELEASED_AFTERWARDS', 'P6: a token that stays in doubt is released', 'unknown_only_if_sent', { POLICY: HOLD, LOST: 2 }),
  without('RELEASED_ONCE', 'P6: again and again for as long as the claim may still arrive', 'unknown_only_if_sent', {
    POLICY: HOLD,
    LOST: 2,
    GHOSTS: 1
  }),
  without('ATTEMPT_GUESSED', 'P6: the release of a claim in doubt meets it whichever attempt it became', 'unknown_only_if_sent', {
    POLICY: HOLD,
    LOST: 2,
    EXPIRY: 1
  }),
  without('DOUBT_FORGOTTEN', 'P6: a claim that was once in doubt is released, whatever was seen since', 'unknown_only_if_sent', {
    POLICY: HOLD,
    OUTAGES: 1,
    LOST: 1,
    GHOSTS: 1
  }),
  without('SENT_AFTER_503', 'P6: a claim that comes through after its time is released unsent', 'I8_unsent_is_unsent', {
    POLICY: HOLD,
    LOST: 1
  }),
  without('OWN_IS_ANOTHERS', '§5: an own claim that was lapsed is mine and unsent', 'unknown_only_if_sent', {
    POLICY: HOLD,
    STALLS: 1,
    LOST: 1
  }),
  without('SETTLE_WITHOUT_TOKEN', 'P7: settle compares owner and attempt', 'I4_nothing_after_the_answer', { POLICY: RETRY, STALLS: 1 }),
  without('SETTLE_WITHOUT_STATE', 'P7: settle compares the state', 'I7_completed_stays', { POLICY: HOLD, STALLS: 1, OPERATOR: 1 }),
  without('LATE_ANSWER_REFUSED', '§7: a late true answer wins over a release by other hands', 'late_answer_counts', {
    POLICY: HOLD,
    STALLS: 1,
    OPERATOR: 1,
    MISTAKEN: 1
  }),
  without('ANY_HAND_IS_MINE', 'P7: an outcome that others wrote is not the reply that was lost', 'I3_one_answer', {
    POLICY: PROBE,
    STALLS: 1
  }),
  without('LOST_ROW_UNGUARDED', 'P7: a row that vanished is put back only while it cannot have been swept', 'forgotten_stays_forgotten', {
    POLICY: HOLD,
    LOST: 1,
    EXPIRY: 1
  }),
  without('POISON_TRIED_AGAIN', 'P7: content that the store never takes becomes less', STUCK, { LIVE: 1, POLICY: HOLD, POISON: 1 }),
  without('UNSETTLED_REPLAYED', 'E6: an unsettled copy is settled before it is replayed', 'I4_nothing_after_the_answer', {
    POLICY: RETRY,
    REQS0: 2,
    LOST: 1,
    CRASHES: 1,
    REDIS: 1
  }),
  without('UNLOCK_ANYBODYS', 'P10: a lock is deleted by its own token only', 'P10_own_lock', { POLICY: HOLD, REDIS: 1 }),
  without('COPY_OVER_ANYTHING', 'P10: a copy takes the place of its own lock only', 'P10_own_lock', { POLICY: HOLD, REQS0: 2, EXPIRY: 1 }),
  without('DELETED_AT_ONCE', 'P10: a delete takes effect after two leases, when every copy has ended', 'I3_one_answer', {
    POLICY: HOLD,
    REQS0: 2,
    EXPIRY: 1
  }),
  without('EXPIRE_CLAIMED', '§3: a claimed row never expires', 'I1_at_most_once', { POLICY: HOLD, EXPIRY: 1 }),
  without('QUEUED', 'E4: unsent means that it never can be sent', 'I10_released_is_unsent', { POLICY: HOLD, STALLS: 1 }),
  without('NO_TIMEOUT', 'E3: upstream.timeout ends the execution', STUCK, { LIVE: 1, POLICY: HOLD }),
  without('NO_SWEEPER', 'I9: somebody lapses what nobody asks for', 'I9_nothing_stays_claimed', { POLICY: HOLD, CRASHES: 1 }),
  without('NO_QUARANTINE', '§7: "not found" counts after the quarantine only', 'I1_at_most_once', { POLICY: PROBE, STALLS: 0 }),
  without('COUNTED_WHEN_HEARD', '§7: what counts is when the question was asked', 'I1_at_most_once', { POLICY: PROBE, RECONCILERS: 2 }),
  without('ONE_NOT_FOUND', '§7: "not found" is seen twice, confirmAfter apart', 'I1_at_most_once', { POLICY: PROBE, CRASHES: 1 }),
  without('ABSENCE_KEPT', '§7: what was not found of one attempt says nothing of the next', 'I1_at_most_once', { POLICY: PROBE, REQS0: 2 }),
  without('PROBE_WITHOUT_CAS', '§7: a probe resolves only what it asked about, and only from indeterminate', 'I7_completed_stays', {
    POLICY: PROBE,
    STALLS: 1
  }),
  without('ASKED_ONCE', '§7: the ask lease ends, and another asks', 'probe_resolves', { POLICY: PROBE, MUTE: 1 }),
  without('ABSENCE_RENEWED', '§7: confirmAfter counts from the first "not found"', STUCK, { LIVE: 1, POLICY: PROBE })
]
