/*
 * One key, two gateways, a Redis that forgets, the arbiter, an upstream, an operator. Every step that the code takes as one
 * statement, one Redis command or one synchronous stretch is one atomic step here; docs/internals/model.md says which is which.
 *
 * POLICY     HOLD, RETRY or PROBE
 * REQS0 …    requests that come to gateway 0 and 1
 * CRASHES …  how many faults of a kind a run may have, at any moment:
 *            CRASHES gateways that die, STALLS processes stopped (or cut off) for longer than a lease, LOST statements whose
 *            reply does not come, GHOSTS of those that are carried out later, OUTAGES of the arbiter, REDIS losses of all that
 *            Redis holds (or one request that cannot reach it), MUTE questions that the upstream does not answer
 *            HANGS of the commits: nothing is acknowledged, what was written can be seen, and is there afterwards or is not; LOCKS of the
 *            row by somebody else; STEPS of the arbiter's clock, by which leases and retentions are over that are not
 * OPERATOR   how often he resolves by hand; MISTAKEN 1: he may release what was done
 * EXPIRY     how often a retention ends
 * POISON     1: the answer is content that the store can never take
 * RECONCILERS  how many gateways ask (PROBE)
 * FROZEN     1: a process may be stopped between its lease check and the write (outside the promise)
 * FAILOVERS  acknowledged rows that the arbiter loses (outside the promise)
 * M_*        leaves out one rule; test/model/mutations.ts says which property catches it
 * LIVE       under weak fairness: nothing stays claimed, and with PROBE nothing stays indeterminate
 */
#define HOLD  0
#define RETRY 1
#define PROBE 2
#ifndef POLICY
#define POLICY HOLD
#endif
#ifndef REQS0
#define REQS0 1
#endif
#ifndef REQS1
#define REQS1 1
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef STALLS
#define STALLS 0
#endif
#ifndef LOST
#define LOST 0
#endif
#ifndef GHOSTS
#define GHOSTS 0
#endif
#ifndef OUTAGES
#define OUTAGES 0
#endif
#ifndef REDIS
#define REDIS 0
#endif
#ifndef MUTE
#define MUTE 0
#endif
#ifndef RECONCILERS
#define RECONCILERS 1
#endif
#ifndef OPERATOR
#define OPERATOR 0
#endif
#ifndef EXPIRY
#define EXPIRY 0
#endif
#ifndef MISTAKEN
#define MISTAKEN 0
#endif
#ifndef POISON
#define POISON 0
#endif
#ifndef HANGS
#define HANGS 0
#endif
#ifndef LOCKS
#define LOCKS 0
#endif
#ifndef STEPS
#define STEPS 0
#endif
#ifndef FROZEN
#define FROZEN 0
#endif
#ifndef FAILOVERS
#define FAILOVERS 0
#endif

mtype = { NONE, CLAIMED, COMPLETED, RELEASED, INDET }
mtype = { NOBODY, OWNER, LEASE, HAND, ASKED }       /* settled_by */
mtype = { FREE, LOCK, UNSETTLED, COPY }             /* what stands in Redis */
mtype = { UNSENT, ONWAY, DONE, REFUSED, GONE }      /* what became of the sending at the upstream */
mtype = { STORED, FENCED }                          /* what a settle came to */
mtype = { FOUND, ABSENT }                           /* what a probe hears */

/* ---- the arbiter's row ---- */
mtype state = NONE, by = NOBODY;
byte owner, attempt, answer;
bool lease;                     /* lease_until lies ahead of the arbiter's clock */
bool past;                      /* retention over, not swept */
bool quiet;                     /* indeterminate for longer than the quarantine */
#if POLICY == PROBE
bool due;                       /* probe_at is over */
bool absent, apart;             /* "not found" was heard once, and confirmAfter has passed since */
#endif

/* ---- Redis: one value ---- */
mtype redis = FREE;
byte rowner, rattempt, ranswer;

/* ---- the gateways ---- */
byte token[2];                  /* owner of the claim that runs there */
bool belief[2];                 /* its own clock says that its lease still has a margin */
bool stalled[2];                /* stopped or cut off for longer than a lease, not renewed since */
bool renews[2];
bool exchange[2];
byte recent[2];                 /* settled answers in memory */
byte drawn[2];
byte unsent[2], unsentAttempt[2];   /* released in the background: given up, or left in doubt */
bool holds[2];                  /* took the lock in Redis and has not given it back (checked, not used) */

/* ---- the world ---- */
bool down;                      /* the arbiter cannot be reached */
bool dark;                      /* less than one lease of contact lies behind everybody (E2b) */
mtype sending = UNSENT;
bool unseen;                    /* done, and the upstream does not find it yet */
#if HANGS
bool hung;                      /* no commit is acknowledged */
mtype wasState, wasBy;          /* what is durable: the row when that began */
byte wasOwner, wasAttempt, wasAnswer;
bool wasQuiet;
bool again;                     /* a claim that is not durable has forgotten what became of the sending before it (checked, not used) */
byte hangs = HANGS;
#define HUNG hung
#else
#define HUNG false
#endif
#if LOCKS
bool locked;                    /* somebody holds the row */
byte locks = LOCKS;
#define LOCKED locked
#else
#define LOCKED false
#endif
#if STEPS
bool early;                     /* the arbiter's clock says that the lease, or the retention, is over, and it is not */
bool knows[2] = { true, true }; /* has trusted the time since before the step: what is early is not over for it */
bool warned;                    /* everybody has been told */
byte steps = STEPS;
#endif
byte ghost, ghostSeen, ghostSeenAttempt;   /* a claim on its way: insert, or take of what was seen */

byte crashes = CRASHES, stalls = STALLS, lost = LOST, ghosts = GHOSTS, outages = OUTAGES, losses = REDIS;
byte hands = OPERATOR, expiry = EXPIRY, failovers = FAILOVERS;
#if POLICY == PROBE
byte mute = MUTE;
#endif

/* ---- what is checked ---- */
byte life;
byte shown;                     /* the stored answer that was given out in this life */
byte newest;                    /* greatest attempt sent in this life */
#if FAILOVERS
bool forgot;                    /* the arbiter has lost a row that it had acknowledged */
#endif
#if MISTAKEN
bool vouched;                   /* he said that nothing had happened, and that was wrong: his word, not the protocol's */
#define VOUCHED vouched
#else
#define VOUCHED false
#endif
/* Never true. An assertion names with one of these what it holds, so that pan says which one failed. */
bool I1_at_most_once, I2_attempts_grow, I2_one_lease, I3_one_answer, I4_nothing_after_the_answer, I7_completed_stays;
bool I8_unsent_is_unsent, I9_nothing_stays_claimed, I10_released_is_unsent, P10_own_lock, E2b_the_living_keep_their_lease;
bool nothing_ends_early, what_is_told_is_durable, late_answer_counts, forgotten_stays_forgotten, unknown_only_if_sent, probe_resolves;

#define AT(t)       (((t) - 1) % 2)
#define ANSWER(l,a) ((l) * 8 + (a))
#define BY_HAND     0
#define BY_PROBE    7
#define LIFE_OF(x)  ((x) / 8)
/* Runs the claim of this token, and nothing has kept it from renewing. */
#define WELL(t)     (token[AT(t)] == (t) && !stalled[AT(t)])

/* =============================================================== the rules that can be left out */

#ifdef M_NO_LEASE_CHECK
#define MAY_SEND true
#else
#define MAY_SEND belief[g]
#endif
#ifdef M_SETTLE_WITHOUT_TOKEN
#define IS_MINE(t,n) true
#else
#define IS_MINE(t,n) (owner == t && attempt == n)
#endif
#if defined(M_SETTLE_WITHOUT_STATE)
#define MAY_SETTLE(o) true
#elif defined(M_LATE_ANSWER_REFUSED)
#define MAY_SETTLE(o) (state == CLAIMED || (state == INDET && o != INDET))
#else
#define MAY_SETTLE(o) (state == CLAIMED || (state == INDET && o != INDET) || (state == RELEASED && (by == HAND || by == ASKED) && o == COMPLETED))
#endif
#ifdef M_ANY_HAND_IS_MINE
#define BY_MYSELF true
#else
#define BY_MYSELF (by == OWNER || by == LEASE)
#endif
#if STEPS
#define EARLY_FOR(g) (early && !knows[g] && !warned)
#define NOBODY_KNOWS (!knows[0] && !knows[1] && !warned)
#define IN_TIME      early = 0
#else
#define EARLY_FOR(g) false
#define NOBODY_KNOWS true
#define IN_TIME      skip
#endif
/* What is called over by somebody, and is not: of a lease, of a retention. */
#ifdef M_CLOCK_BELIEVED
#define LEASE_EARLY(g) early
#else
#define LEASE_EARLY(g) EARLY_FOR(g)
#endif
#ifdef M_RETENTION_BELIEVED
#define PAST_EARLY(g) early
#else
#define PAST_EARLY(g) EARLY_FOR(g)
#endif
#define SOME_LEASE_EARLY (LEASE_EARLY(0) || LEASE_EARLY(1))
#define SOME_PAST_EARLY  (PAST_EARLY(0) || PAST_EARLY(1))
#ifdef M_LAPSE_AS_SEEN
#define STILL_OVER true
#else
#define STILL_OVER (!lease || SOME_LEASE_EARLY)
#endif
/* An acknowledged write of the row. Whoever only reads needs less. */
#define CAN_WRITE (!down && !HUNG && !LOCKED)
/* Carried out, and nobody hears of it: a reply is lost, or the commit hangs until its caller gives up. */
#define UNHEARD   (!down && !LOCKED && (lost > 0 || HUNG))
#define LOSE      if :: HUNG :: !HUNG -> lost-- fi
#ifdef M_UNVOUCHED
#define DURABLE true
#else
#define DURABLE (!HUNG)
#endif
#ifdef M_LAPSE_IN_THE_DARK
#define IN_CONTACT true
#else
#define IN_CONTACT (!dark)
#endif
#ifdef M_OWN_IS_ANOTHERS
#define OWN_FOUND false
#else
#define OWN_FOUND (owner == tok)
#endif
#ifdef M_UNLOCK_ANYBODYS
#define IS_MY_LOCK(t) true
#else
#define IS_MY_LOCK(t) (rowner == t && (redis == LOCK || redis == UNSETTLED))
#endif
#ifdef M_COPY_OVER_ANYTHING
#define IS_MY_PLACE(t) true
#else
#define IS_MY_PLACE(t) (rowner == t && (redis == LOCK || redis == UNSETTLED))
#endif
#ifdef M_NO_QUARANTINE
#define QUARANTINE_OVER true
#else
#define QUARANTINE_OVER quiet
#endif
#ifdef M_EXPIRE_CLAIMED
#define MAY_EXPIRE (state == COMPLETED || state == RELEASED || state == CLAIMED)
#else
#define MAY_EXPIRE (state == COMPLETED || state == RELEASED || (state == INDET && quiet))
#endif

/* =============================================================== the arbiter's statements */

#if MISTAKEN
#define NOBODY_VOUCHED vouched = 0
#else
#define NOBODY_VOUCHED skip
#endif
inline new_life () { NOBODY_VOUCHED; life++; shown = 0; newest = 0; sending = UNSENT; unseen = 0 }

#if POLICY == PROBE && defined(M_ABSENCE_KEPT)
#define FORGET_ASKING due = 0
#elif POLICY == PROBE
#define FORGET_ASKING due = 0; absent = 0; apart = 0
#else
#define FORGET_ASKING skip
#endif

inline claimed_row (t, n) {
  state = CLAIMED; owner = t; attempt = n; by = NOBODY; answer = 0; lease = 1; past = 0; quiet = 0; IN_TIME;
  FORGET_ASKING
}

inline settled_row (o, x, hand) {
  assert(I7_completed_stays || state != COMPLETED);
  state = o; by = hand; answer = x; lease = 0; past = 0; quiet = 0; IN_TIME;
  FORGET_ASKING;
#if POLICY == PROBE
  if :: o == INDET -> due = 1 :: else fi
#endif
}

/* claim_insert: never takes */
inline insert (t) {
  if
#if FAILOVERS
  :: state == NONE && forgot -> forgot = 0; claimed_row(t, 1)       /* the same life, whatever the arbiter remembers of it */
  :: state == NONE && !forgot -> new_life(); claimed_row(t, 1)
#else
  :: state == NONE -> new_life(); claimed_row(t, 1)
#endif
  :: else
  fi
}

#if HANGS
#define SENT_BEFORE again = hung
#else
#define SENT_BEFORE skip
#endif
/* claim_take: compare-and-set on what was seen */
#ifdef M_ATTEMPT_KEPT
#define NEXT_ATTEMPT attempt
#else
#define NEXT_ATTEMPT (attempt + 1)
#endif
#ifdef M_TAKE_WITHOUT_STATE
#define MAY_TAKE (state != CLAIMED)
#else
#define MAY_TAKE (state == RELEASED || (POLICY == RETRY && state == INDET))
#endif
inline take (t, seenT, seenN) {
  if
  :: state != NONE && state != CLAIMED && owner == seenT && attempt == seenN && (past || SOME_PAST_EARLY) ->
       assert(nothing_ends_early || past || NOBODY_KNOWS);                          /* what was kept is kept to its end */
       new_life(); claimed_row(t, 1)
  :: state != NONE && MAY_TAKE && owner == seenT && attempt == seenN && !past && !SOME_PAST_EARLY ->
       assert(I7_completed_stays || state != COMPLETED);
       if :: sending == REFUSED || sending == GONE -> sending = UNSENT; SENT_BEFORE :: else fi;
       claimed_row(t, NEXT_ATTEMPT)
  :: else
  fi
}

/* lapse, by the sweeper or a claimant */
inline lapse () {
  if
  :: state == CLAIMED && STILL_OVER ->
       assert(E2b_the_living_keep_their_lease || !WELL(owner) || (SOME_LEASE_EARLY && NOBODY_KNOWS));                                 /* nobody's lease is lapsed who lives and could renew it */
       settled_row(INDET, 0, LEASE)
  :: else
  fi
}

/* settle; what was refused is looked at before it is called fenced */
inline settle (t, n, o, x, came) {
  if
  :: state != NONE && IS_MINE(t, n) && MAY_SETTLE(o) -> settled_row(o, x, OWNER); came = STORED
#ifdef M_LOST_ROW_UNGUARDED
  :: state == NONE && o == COMPLETED ->
       assert(forgotten_stays_forgotten || life != LIFE_OF(x));                     /* what was settled and swept does not come back */
       settled_row(o, x, OWNER); owner = t; attempt = n; came = STORED
#endif
  :: else ->
       /* No true answer is thrown away while nobody has claimed since. */
       assert(late_answer_counts || !(o == COMPLETED && state == RELEASED && owner == t && attempt == n && by != OWNER));
       if
       :: state == o && owner == t && attempt == n && BY_MYSELF -> came = STORED
       :: else -> came = FENCED
       fi
  fi
}

/* ---- Redis' scripts ---- */

inline unlock (t) {
  if :: IS_MY_LOCK(t) -> redis = FREE; rowner = 0; rattempt = 0; ranswer = 0 :: else fi
}

inline swap_for_copy (t, x) {
  if
  :: IS_MY_PLACE(t) && x == answer && !past -> redis = COPY; rowner = 0; rattempt = 0; ranswer = x
#ifdef M_COPY_OVER_ANYTHING
  :: !(x == answer && !past) -> redis = COPY; rowner = 0; rattempt = 0; ranswer = x
#endif
  :: else -> unlock(t)
  fi
}

/* A client reads an answer that is called stored. */
inline tell (x) {
  assert(I3_one_answer || (LIFE_OF(x) == life && (shown == 0 || shown == x)));
  shown = x
}

/* Whoever starts hears of a doubt before he serves; he cannot know better. */
#if !STEPS
#define BEGINS_ANEW(g) skip
#elif defined(M_DOUBT_UNHEARD)
#define BEGINS_ANEW(g) knows[g] = !early
#else
#define BEGINS_ANEW(g) knows[g] = (!early || knows[1 - g] || warned)
#endif
inline dies (g) {
  crashes--; token[g] = 0; belief[g] = 0; stalled[g] = 0; renews[g] = 0; exchange[g] = 0; recent[g] = 0;
  unsent[g] = 0; unsentAttempt[g] = 0; holds[g] = 0; BEGINS_ANEW(g)
}
#define CRASH :: atomic { crashes > 0 -> dies(g); goto next }

/* The lease is counted from before the statement that grants it. */
inline lease_begins (g) { belief[g] = 1; stalled[g] = 0 }

inline give_up (t, n) {
#ifdef M_NOT_RELEASED_AFTERWARDS
  skip
#else
  unsent[g] = t; unsentAttempt[g] = n
#endif
}

/* A claim that was once in doubt may still be carried out, whatever was seen since. */
#ifdef M_DOUBT_FORGOTTEN
#define MAY_LEAVE true
#else
#define MAY_LEAVE (!doubted || unsent[g] == 0)
#endif
inline leave () {
#ifdef M_DOUBT_FORGOTTEN
  skip
#else
  if :: doubted -> give_up(tok, n) :: else fi
#endif
}

inline draw () {
#ifdef M_OWNER_PER_PROCESS
  tok = g + 1;
#else
  tok = 1 + g + 2 * drawn[g]; drawn[g]++;
#endif
  token[g] = tok
}

/* =============================================================== a gateway: the requests of one key, one after another */

#define NOT_PAST (!past && !PAST_EARLY(g))

proctype Gateway (byte g; byte reqs) {
  byte tok, n, seen, seenN, x, mylife;
  mtype out = NOBODY, came = NOBODY;
  bool given, doubted;

next:
  atomic {
    n = 0; seen = 0; seenN = 0; x = 0; mylife = 0; out = NOBODY; came = NOBODY; given = 0; doubted = 0; tok = 0;
    token[g] = 0; belief[g] = 0; stalled[g] = 0; renews[g] = 0; exchange[g] = 0; holds[g] = 0;
    if
    :: reqs > 0 -> reqs--; draw()
    :: reqs == 0 -> goto fin
    fi
  }

handling:  /* the process's own memory, then Redis */
  if
  :: atomic { recent[g] != 0 -> tell(recent[g]); goto next }
  :: atomic { recent[g] == 0 && redis == COPY -> tell(ranswer); recent[g] = ranswer; goto next }
  :: atomic { recent[g] == 0 && redis == UNSETTLED ->
#ifdef M_UNSETTLED_REPLAYED
       tell(ranswer); goto next
#else
       seen = rowner; seenN = rattempt; x = ranswer; goto adopt
#endif
     }
  :: atomic { recent[g] == 0 && redis == LOCK -> goto next }                                   /* in flight */
  :: atomic { recent[g] == 0 && redis == LOCK && state != NONE && state != CLAIMED && !down }  /* an old lock: the row knows better */
  :: atomic { recent[g] == 0 && redis == FREE -> redis = LOCK; rowner = tok; holds[g] = 1 }
  :: atomic { recent[g] == 0 && losses > 0 -> losses--; }                                      /* Redis does not answer */
  :: atomic { recent[g] == 0 && losses > 0 && redis == FREE -> losses--; redis = LOCK; rowner = tok; holds[g] = 1 }   /* it did, unheard */
  CRASH
  fi;
#ifdef M_REDIS_DECIDES
  if
  :: atomic { redis == LOCK && rowner == tok -> if :: life == 0 -> new_life() :: else fi; n = 1; belief[g] = 1; goto won }
  :: atomic { !(redis == LOCK && rowner == tok) }
  fi;
#endif
  goto claim;

adopt:
  if
  :: atomic { CAN_WRITE -> settle(seen, seenN, COMPLETED, x, came); unlock(seen);
       if
       :: came == STORED -> if :: x == answer && state == COMPLETED && !past -> tell(x) :: else fi; goto next
       :: else -> seen = 0; seenN = 0; x = 0; came = NOBODY
       fi }
  :: atomic { UNHEARD -> LOSE; settle(seen, seenN, COMPLETED, x, came); goto next }            /* given, called unsettled */
  :: atomic { lost > 0 || down || HUNG || LOCKED -> if :: lost > 0 && !HUNG && !LOCKED -> lost-- :: else fi; goto next }
  CRASH
  fi;

claim:
  if
  :: atomic { !down && (state != NONE || !HUNG) -> lease_begins(g);
       if :: state == NONE -> insert(tok); n = 1; goto won :: else -> goto look fi }
  :: atomic { UNHEARD -> LOSE; lease_begins(g); insert(tok); n = 1; doubted = 1; goto doubt }
  :: atomic { UNHEARD -> LOSE; lease_begins(g); n = 1; doubted = 1; goto doubt }
  :: atomic { !down && lost > 0 && ghosts > 0 -> lost--; ghosts--; lease_begins(g); ghost = tok; n = 1; doubted = 1; goto doubt }
  :: atomic { down && MAY_LEAVE -> unlock(tok); leave(); goto next }                          /* 503, nothing was sent */
  CRASH
  fi;

look:
  if
  :: atomic { !down ->
       n = 0;
       if
       :: state == NONE -> goto claim
       :: (past || PAST_EARLY(g)) && state != NONE && state != CLAIMED -> seen = owner; seenN = attempt; n = 1; goto taking
       :: state == CLAIMED && owner == tok -> n = attempt; goto doubt                         /* mine, and only read */
       :: state == CLAIMED && owner != tok && (!lease || LEASE_EARLY(g)) && IN_CONTACT -> goto lapsing
       :: state == CLAIMED && owner != tok && ((lease && !LEASE_EARLY(g)) || !IN_CONTACT) ->
            if :: redis == LOCK && rowner == tok && lease -> rowner = owner :: redis == LOCK && rowner == tok && !lease -> unlock(tok) :: else fi;
            goto next
       :: NOT_PAST && state == COMPLETED && DURABLE -> x = answer; mylife = life; goto replay
       :: NOT_PAST && state == COMPLETED && !DURABLE -> unlock(tok); leave(); goto next           /* nobody has vouched for it in time */
       :: NOT_PAST && state == RELEASED -> seen = owner; seenN = attempt; n = attempt + 1; goto taking
       :: NOT_PAST && state == INDET && OWN_FOUND -> goto redraw
       :: NOT_PAST && state == INDET && !OWN_FOUND && POLICY == RETRY -> seen = owner; seenN = attempt; n = attempt + 1; goto taking
       :: NOT_PAST && state == INDET && !OWN_FOUND && POLICY != RETRY -> unlock(tok); goto next   /* outcome unknown */
       fi }
  :: atomic { down && MAY_LEAVE -> unlock(tok); leave(); goto next }
  CRASH
  fi;

lapsing:
  if
#ifdef M_LAPSE_ON_ITS_WAY
  :: atomic { CAN_WRITE -> lapse(); goto claim }
#else
  :: atomic { CAN_WRITE && IN_CONTACT -> lapse(); goto claim }
  :: atomic { CAN_WRITE && !IN_CONTACT -> unlock(tok); goto next }
#endif
  :: atomic { (down || HUNG || LOCKED) && MAY_LEAVE -> unlock(tok); leave(); goto next }
  CRASH
  fi;

taking:
  if
  :: atomic { CAN_WRITE && owner == seen && attempt == seenN -> lease_begins(g); take(tok, seen, seenN); seen = 0; seenN = 0;
       if :: state == CLAIMED && owner == tok -> n = attempt; goto won :: else -> n = 0; goto claim fi }
  :: atomic { !down && !(owner == seen && attempt == seenN) -> lease_begins(g); seen = 0; seenN = 0; n = 0; goto claim }
  :: atomic { UNHEARD -> LOSE; lease_begins(g); take(tok, seen, seenN); seen = 0; seenN = 0; doubted = 1; goto doubt }
  :: atomic { UNHEARD -> LOSE; lease_begins(g); seen = 0; seenN = 0; doubted = 1; goto doubt }
  :: atomic { !down && lost > 0 && ghosts > 0 -> lost--; ghosts--; lease_begins(g); ghost = tok; ghostSeen = seen; ghostSeenAttempt = seenN; seen = 0; seenN = 0; doubted = 1; goto doubt }
  :: atomic { down && MAY_LEAVE -> unlock(tok); leave(); goto next }
  CRASH
  fi;

redraw:
  if
  :: atomic { CAN_WRITE -> settle(tok, attempt, RELEASED, 0, came); came = NOBODY; unlock(tok); holds[g] = 0; draw();
       if :: redis == FREE -> redis = LOCK; rowner = tok; holds[g] = 1 :: else fi; goto claim }
  :: atomic { (down || HUNG || LOCKED || lost > 0) && unsent[g] == 0 -> if :: down || HUNG || LOCKED :: else -> lost-- fi; give_up(tok, attempt); unlock(tok); goto next }
  CRASH
  fi;

doubt:  /* confirmed by a write under the same token */
#ifdef M_CONFIRM_BY_READING
  atomic { if :: !down && state == CLAIMED && owner == tok -> n = attempt; goto won :: else -> unlock(tok); goto next fi };
#else
  if
  :: atomic { !down && (state != NONE || !HUNG) && !((HUNG || LOCKED) && state == CLAIMED && owner == tok) -> lease_begins(g);
       if
       :: state == NONE -> insert(tok); n = 1; goto won
       :: state == CLAIMED && owner == tok -> lease = 1; IN_TIME; n = attempt; goto won
       :: else -> goto look
       fi }
  :: atomic { UNHEARD && unsent[g] == 0 -> LOSE;
       if :: state == NONE -> insert(tok) :: state == CLAIMED && owner == tok -> lease = 1; IN_TIME :: else fi;
       give_up(tok, n); unlock(tok); goto next }
  :: atomic { (down || HUNG || LOCKED || lost > 0) && unsent[g] == 0 -> if :: down || HUNG || LOCKED :: else -> lost-- fi; give_up(tok, n); unlock(tok); goto next }
  CRASH
  fi;
#endif

replay:
  atomic {
    if :: x == answer && state == COMPLETED && !past && mylife == life -> recent[g] = x; tell(x) :: else fi;
    swap_for_copy(tok, x); goto next
  }

won:
  atomic {
    renews[g] = 1; mylife = life
#ifdef M_LEASE_FROM_REPLY
    ; belief[g] = 1
#endif
  }
  if
  :: atomic { MAY_SEND ->
#if FROZEN
       skip }; atomic { skip;
#endif
       assert(I4_nothing_after_the_answer || shown == 0);
       assert(P10_own_lock || !holds[g] || (redis == LOCK && rowner == tok)); /* who took the lock has it */
#if POLICY == RETRY
       assert(I2_attempts_grow || n > newest);                                    /* no older attempt after a newer one */
       assert(I2_one_lease || !(exchange[1 - g] && belief[1 - g]));           /* no two valid leases */
#else
       assert(I1_at_most_once || VOUCHED || (sending != ONWAY && sending != DONE));
#endif
       newest = n; sending = ONWAY; exchange[g] = 1 }
  :: atomic { !MAY_SEND -> out = RELEASED;
#ifdef M_QUEUED
       settle(tok, n, RELEASED, 0, came); came = NOBODY; goto late
#endif
       goto settling }
  :: atomic { lost > 0 && unsent[g] == 0 -> lost--; give_up(tok, n); renews[g] = 0; unlock(tok);
#ifdef M_SENT_AFTER_503
       goto late
#else
       goto next
#endif
     }
  CRASH
  fi;

answered:
  if
#if POLICY == RETRY
  :: atomic { exchange[g] -> out = COMPLETED; x = ANSWER(mylife, n) }
  :: atomic { exchange[g] -> out = RELEASED }
#else
  :: atomic { sending == DONE -> out = COMPLETED; x = ANSWER(mylife, n) }
  :: atomic { sending == REFUSED -> out = RELEASED }
#endif
#ifndef M_NO_TIMEOUT
  :: atomic { out = INDET }
#endif
  CRASH
  fi;

settling:
  if
  :: atomic { CAN_WRITE && !(POISON && out == COMPLETED) -> exchange[g] = 0; settle(tok, n, out, x, came) }
#ifdef M_SETTLED_BY_READING
  :: atomic { HUNG && out == COMPLETED && state == out && owner == tok && attempt == n && BY_MYSELF -> exchange[g] = 0; came = STORED }
#endif
  :: atomic { CAN_WRITE && POISON && out == COMPLETED -> exchange[g] = 0;
#ifndef M_POISON_TRIED_AGAIN
       out = INDET; x = 0;
#endif
       goto settling }
  :: atomic { UNHEARD -> LOSE; exchange[g] = 0; settle(tok, n, out, x, came); came = NOBODY; goto unsettled }
  :: atomic { lost > 0 && !HUNG && !LOCKED -> lost--; exchange[g] = 0; goto unsettled }
  :: atomic { (down || HUNG || LOCKED) && !given -> exchange[g] = 0; goto unsettled }
  CRASH
  fi;

telling:
  atomic {
    renews[g] = 0;
    if
    :: came == STORED && out == COMPLETED ->
         if :: x == answer && state == COMPLETED && !past && mylife == life -> recent[g] = x :: else fi;
         if :: mylife == life -> tell(x) :: else fi
    :: came == FENCED && state == COMPLETED && !past && mylife == life && DURABLE -> tell(answer); unlock(tok); goto next
    :: else -> unlock(tok); goto next
    fi
  }
copying:
  if
  :: atomic { swap_for_copy(tok, x); goto next }
  CRASH
  fi;

unsettled:  /* the waiters have the answer, marked; whoever finds the copy settles it first */
  atomic {
    if :: out == COMPLETED && !given && redis == LOCK && rowner == tok -> redis = UNSETTLED; rattempt = n; ranswer = x :: else fi;
    given = 1; goto settling
  }

#ifdef M_QUEUED
late:  /* what was settled as unsent goes out after all */
  atomic { assert(I10_released_is_unsent || state == CLAIMED); sending = ONWAY; goto next }
#endif
#ifdef M_SENT_AFTER_503
late:  /* the client was told that nothing was sent */
  atomic { assert(I8_unsent_is_unsent); sending = ONWAY; goto next }
#endif

fin: skip
}

/* The background of a gateway: tokens under which nothing was sent and nothing will be. */
proctype Releasing (byte g) {
  mtype came = NOBODY;
end:
  do
  :: atomic { unsent[g] != 0 && CAN_WRITE ->
#ifndef M_ATTEMPT_GUESSED
       if :: owner == unsent[g] -> unsentAttempt[g] = attempt :: else fi;
#endif
       settle(unsent[g], unsentAttempt[g], RELEASED, 0, came); came = NOBODY; unlock(unsent[g]);
       if
#ifndef M_RELEASED_ONCE
       :: ghost == unsent[g]
#endif
       :: else -> unsent[g] = 0; unsentAttempt[g] = 0
       fi }
  od
}

/* Late renewals: those in time leave nothing to see. */
proctype Renewing () {
end:
  do
  :: atomic { renews[0] && !belief[0] && stalled[0] && CAN_WRITE ->
       if :: state == CLAIMED && owner == token[0] -> lease = 1; IN_TIME; belief[0] = 1; stalled[0] = 0 :: else -> renews[0] = 0 fi }
  :: atomic { renews[1] && !belief[1] && stalled[1] && CAN_WRITE ->
       if :: state == CLAIMED && owner == token[1] -> lease = 1; IN_TIME; belief[1] = 1; stalled[1] = 0 :: else -> renews[1] = 0 fi }
  :: atomic { (dark || LOCKS) && renews[0] && !stalled[0] && CAN_WRITE && (!belief[0] || (state == CLAIMED && owner == token[0] && !lease)) ->
       if :: state == CLAIMED && owner == token[0] -> lease = 1; IN_TIME; belief[0] = 1 :: else -> renews[0] = 0 fi }
  :: atomic { (dark || LOCKS) && renews[1] && !stalled[1] && CAN_WRITE && (!belief[1] || (state == CLAIMED && owner == token[1] && !lease)) ->
       if :: state == CLAIMED && owner == token[1] -> lease = 1; IN_TIME; belief[1] = 1 :: else -> renews[1] = 0 fi }
  od
}

/* Some gateway's sweeper. */
proctype Sweeper () {
#ifdef M_LAPSE_ON_ITS_WAY
  bool ordered;
#endif
end:
  do
#ifndef M_NO_SWEEPER
#ifdef M_LAPSE_ON_ITS_WAY
  :: atomic { state == CLAIMED && IN_CONTACT && CAN_WRITE && !ordered -> ordered = 1 }
  :: atomic { ordered && CAN_WRITE -> ordered = 0; lapse() }
#else
  :: atomic { state == CLAIMED && (!lease || SOME_LEASE_EARLY) && IN_CONTACT && CAN_WRITE -> lapse() }
#endif
#endif
  :: atomic { (past || SOME_PAST_EARLY) && state != NONE && state != CLAIMED && CAN_WRITE ->
       assert(nothing_ends_early || past || NOBODY_KNOWS); IN_TIME;
       state = NONE; owner = 0; attempt = 0; by = NOBODY; answer = 0; past = 0; quiet = 0; FORGET_ASKING }
  od
}

/* =============================================================== time and faults */

/* A lease ends once its owner has not renewed it for so long; the owner's own clock says so first (P4). */
proctype LeaseEnds () {
end:
  do
#ifdef M_LEASE_FROM_REPLY
  :: atomic { state == CLAIMED && lease && !WELL(owner) -> lease = 0 }
#else
  :: atomic { state == CLAIMED && lease && !WELL(owner) && !(token[AT(owner)] == owner && belief[AT(owner)]) -> lease = 0 }
#endif
  :: atomic { state == CLAIMED && lease && (down || HUNG || LOCKED) && belief[AT(owner)] && token[AT(owner)] == owner -> belief[AT(owner)] = 0 }
  :: atomic { state == CLAIMED && lease && (down || HUNG || LOCKED) && !(token[AT(owner)] == owner && belief[AT(owner)]) -> lease = 0 }
  :: atomic { redis == LOCK && !WELL(rowner) -> holds[AT(rowner)] = 0; redis = FREE; rowner = 0 }
  od
}

/* The quarantine is longer than any request may be on its way. */
proctype QuarantineEnds () {
end:
  do
  :: atomic { state == INDET && !quiet && sending != ONWAY -> quiet = 1 }
  od
}

proctype Faults () {
end:
  do
  :: atomic { stalls > 0 && token[0] != 0 && !stalled[0] -> stalls--; stalled[0] = 1; belief[0] = 0 }
  :: atomic { stalls > 0 && token[1] != 0 && !stalled[1] -> stalls--; stalled[1] = 1; belief[1] = 0 }
  :: atomic { losses > 0 && redis != FREE -> losses--; redis = FREE; rowner = 0; rattempt = 0; ranswer = 0; holds[0] = 0; holds[1] = 0 }
  :: atomic { outages > 0 && !down -> outages--; down = 1; dark = 1 }
#if HANGS
  :: atomic { hangs > 0 && !hung && !down -> hangs--; hung = 1;
#ifndef M_READS_ARE_CONTACT
       dark = 1;
#endif
       wasState = state; wasBy = by; wasOwner = owner; wasAttempt = attempt; wasAnswer = answer; wasQuiet = quiet }
#endif
#if LOCKS
  :: atomic { locks > 0 && !locked && !down && !HUNG && state == CLAIMED -> locks--; locked = 1 }
#endif
#if STEPS
  :: atomic { steps > 0 && !early && ((state == CLAIMED && lease) || (state != NONE && state != CLAIMED && !past)) -> steps--; early = 1 }
#endif
#if FAILOVERS
  :: atomic { failovers > 0 && state == CLAIMED -> failovers--; forgot = 1; state = NONE; owner = 0; attempt = 0; lease = 0 }
#endif
  od
}

/* An outage ends; after one lease of contact everybody who lives has renewed what he holds. */
proctype Contact () {
end:
  do
  :: atomic { down -> down = 0 }
#if HANGS
  :: atomic { hung -> hung = 0; again = 0 }
  :: atomic { hung -> hung = 0;                                        /* another takes over, which has none of it */
       assert(what_is_told_is_durable || shown == 0 || wasState == COMPLETED);
       state = wasState; by = wasBy; owner = wasOwner; attempt = wasAttempt; answer = wasAnswer; quiet = wasQuiet; lease = 0;
       if :: again && sending == UNSENT && state != NONE -> sending = REFUSED :: else fi; again = 0 }
#endif
#if LOCKS
  :: atomic { locked -> locked = 0;
#ifndef M_RENEWALS_PASS_BY
       /* A renewal that has found the row locked waits for it: it stands before everybody who comes when the row is free. */
       if :: state == CLAIMED && WELL(owner) -> lease = 1; IN_TIME; belief[AT(owner)] = 1 :: else fi
#endif
     }
#endif
#if STEPS
  :: atomic { early && (knows[0] || knows[1]) && !warned && !down -> warned = 1 }
  :: atomic { warned && !early -> warned = 0 }
#endif
  :: atomic { dark && !down && !HUNG && !(state == CLAIMED && !lease && WELL(owner)) -> dark = 0 }
  od
}

/* A claim that the network carries out late, within the time that releases are repeated. */
proctype Ghost () {
end:
  do
  :: atomic { ghost != 0 && !down ->
       if :: ghostSeen == 0 -> insert(ghost) :: else -> take(ghost, ghostSeen, ghostSeenAttempt) fi;
       ghost = 0; ghostSeen = 0; ghostSeenAttempt = 0 }
  :: atomic { ghost != 0 -> ghost = 0; ghostSeen = 0; ghostSeenAttempt = 0 }
  od
}

/* Does, refuses or loses what reaches it, whoever still waits. */
proctype Upstream () {
end:
  do
  :: atomic { sending == ONWAY -> sending = DONE; unseen = (POLICY == PROBE) }
  :: atomic { sending == ONWAY -> sending = REFUSED }
  :: atomic { sending == ONWAY -> sending = GONE }
  :: atomic { unseen -> unseen = 0 }
  od
}

/* He looks at what the upstream did, which is true and may be too early: the quarantine is what keeps him from that. */
proctype Operator () {
end:
  do
  :: atomic { hands > 0 && CAN_WRITE && state == INDET && QUARANTINE_OVER && sending != DONE -> hands--; settled_row(RELEASED, 0, HAND) }
#if MISTAKEN
  :: atomic { hands > 0 && CAN_WRITE && state == INDET && QUARANTINE_OVER && sending == DONE -> hands--; vouched = 1; settled_row(RELEASED, 0, HAND) }
#endif
  :: atomic { hands > 0 && CAN_WRITE && state == INDET -> hands--; settled_row(COMPLETED, ANSWER(life, BY_HAND), HAND) }
  od
}

/* Retention over, or two leases after a delete: every copy has ended before the row (P10). */
proctype Retention () {
end:
  do
  :: atomic { expiry > 0 && MAY_EXPIRE && !past && ghost == 0 -> expiry--;
#ifdef M_EXPIRE_CLAIMED
       if :: state == CLAIMED -> state = NONE; owner = 0; attempt = 0; lease = 0 :: else -> past = 1 fi;
#else
       past = 1;
#endif
       if :: redis == LOCK -> holds[AT(rowner)] = 0 :: else fi;
       redis = FREE; rowner = 0; rattempt = 0; ranswer = 0;
#ifndef M_DELETED_AT_ONCE
       recent[0] = 0; recent[1] = 0
#endif
     }
  od
}

/* =============================================================== the probe */

#if POLICY == PROBE
/*
 * A gateway's reconciler. Any number of them may ask about one record, and answer late. What the upstream says is as old as
 * the question here: no younger word is more dangerous. Whoever hears nothing, or dies, leaves the row to the ask lease.
 */
inline forget () { seen = 0; seenN = 0; heard = NOBODY; counts = 0; second = 0 }

proctype Reconciler () {
  byte seen, seenN;
  mtype heard = NOBODY;
  bool counts, second;

end:
  do
  :: atomic { due && state == INDET && !past && !down && heard == NOBODY ->
       due = 0; seen = owner; seenN = attempt; counts = QUARANTINE_OVER; second = apart;
       if
       :: sending == DONE && !unseen -> heard = FOUND
#ifdef M_COUNTED_WHEN_HEARD
       :: sending != DONE || unseen -> heard = ABSENT
#else
       :: (sending != DONE || unseen) && counts -> heard = ABSENT
       :: (sending != DONE || unseen) && !counts
#endif
       :: mute > 0 -> mute--
       fi }
  :: atomic { heard != NOBODY && crashes > 0 -> crashes--; forget() }
  :: atomic { heard == FOUND && !down ->
       if
#ifdef M_PROBE_WITHOUT_CAS
       :: state != NONE -> settled_row(COMPLETED, ANSWER(life, BY_PROBE), ASKED)
#else
       :: state == INDET && owner == seen && attempt == seenN -> settled_row(COMPLETED, ANSWER(life, BY_PROBE), ASKED)
#endif
       :: else
       fi; forget() }
  :: atomic { heard == ABSENT && !down ->
#ifdef M_COUNTED_WHEN_HEARD
       counts = quiet; second = apart;
#endif
       if
       :: counts && state == INDET && owner == seen && attempt == seenN && QUARANTINE_OVER ->
            if
#ifdef M_ONE_NOT_FOUND
            :: true -> settled_row(RELEASED, 0, ASKED)
#else
            :: absent && second -> settled_row(RELEASED, 0, ASKED)
            :: !absent -> absent = 1; apart = 0
#ifdef M_ABSENCE_RENEWED
            :: absent && !second -> apart = 0
#else
            :: absent && !second
#endif
#endif
            fi
       :: else
       fi; forget() }
  od
}

/* The ask lease of whoever took the row is over, or the pause before the next question. */
proctype AskLeaseEnds () {
end:
  do
#ifdef M_ASKED_ONCE
  :: false
#else
  :: atomic { state == INDET && !due -> due = 1 }
#endif
  od
}

/* confirmAfter: what the upstream did before the first question, it finds by then. */
proctype ConfirmAfter () {
end:
  do
  :: atomic { state == INDET && absent && !apart && !unseen -> apart = 1 }
  od
}
#endif

/* =============================================================== when all is quiet */

proctype Quiet () {
end:
  timeout;
  assert(I9_nothing_stays_claimed || state != CLAIMED);
#if POLICY == PROBE
  assert(probe_resolves || state != INDET);                               /* the upstream did answer at last */
#endif
  /* Unknown is only what was sent, unless somebody died. */
  assert(unknown_only_if_sent || !(state == INDET && sending == UNSENT && crashes == CRASHES))
}

init {
  atomic {
    run Gateway(0, REQS0); run Gateway(1, REQS1);
    run Sweeper(); run LeaseEnds(); run QuarantineEnds(); run Upstream();
#ifndef LIVE
    run Quiet();
#endif
#if LOST || OUTAGES || HANGS || LOCKS
    run Releasing(0); run Releasing(1);
#endif
#if STALLS || OUTAGES || HANGS || LOCKS
    run Renewing();
#endif
#if STALLS || OUTAGES || REDIS || FAILOVERS || HANGS || LOCKS || STEPS
    run Faults();
#endif
#if OUTAGES || HANGS || LOCKS || STEPS
    run Contact();
#endif
#if GHOSTS
    run Ghost();
#endif
#if OPERATOR
    run Operator();
#endif
#if EXPIRY
    run Retention();
#endif
#if POLICY == PROBE
    run Reconciler();
#if RECONCILERS > 1
    run Reconciler();
#endif
    run AskLeaseEnds(); run ConfirmAfter();
#endif
  }
}

#ifdef LIVE
#if POLICY == PROBE
#define OPEN (state == CLAIMED || state == INDET)
#else
#define OPEN (state == CLAIMED)
#endif
ltl nothing_is_stuck { [] (OPEN -> <> !OPEN) }
#endif
