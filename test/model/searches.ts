/**
 * The searches of the model. SEARCHES are small enough for every run of the tests. WIDE are the long ones of `npm run model`. OUTSIDE shows
 * why the guarantee ends where docs/concepts/protocol.md §10 says.
 */

export interface Search {
  readonly name: string
  /** Preprocessor definitions. onceway.pml explains each. */
  readonly define: Readonly<Record<string, string | number>>
}

/** A search that must end with exactly this error. */
export interface Caught extends Search {
  readonly what: string
  /** A property of onceway.pml, or STUCK. */
  readonly by: string
}

/** What pan reports if a record never changes again. */
export const STUCK = 'nothing_is_stuck'

const [HOLD, RETRY, PROBE] = ['HOLD', 'RETRY', 'PROBE']

/** One or two faults at a time, for each policy. On a machine with room for all faults at once, run the wide ones. */
export const SEARCHES: readonly Search[] = [
  { name: 'hold, a process dies, another is stopped', define: { POLICY: HOLD, CRASHES: 1, STALLS: 1 } },
  { name: 'hold, replies are lost and statements come late', define: { POLICY: HOLD, LOST: 2, GHOSTS: 1 } },
  { name: 'hold, the arbiter is away, a statement comes late', define: { POLICY: HOLD, OUTAGES: 1, LOST: 1, GHOSTS: 1 } },
  { name: 'hold, Redis forgets, a process dies', define: { POLICY: HOLD, REQS0: 2, REDIS: 1, CRASHES: 1 } },
  { name: 'hold, an operator, a process is stopped', define: { POLICY: HOLD, REQS0: 2, OPERATOR: 1, STALLS: 1 } },
  { name: 'hold, an operator who errs', define: { POLICY: HOLD, OPERATOR: 1, MISTAKEN: 1, STALLS: 1 } },
  { name: 'hold, retention ends, a reply is lost', define: { POLICY: HOLD, REQS0: 2, EXPIRY: 1, LOST: 1 } },
  { name: 'hold, content that cannot be stored, a process is stopped', define: { POLICY: HOLD, POISON: 1, STALLS: 1 } },
  { name: 'retry, a process dies, another is stopped', define: { POLICY: RETRY, CRASHES: 1, STALLS: 1 } },
  { name: 'retry, a reply and Redis are lost, a process dies', define: { POLICY: RETRY, LOST: 1, REDIS: 1, CRASHES: 1 } },
  { name: 'retry, the arbiter is away', define: { POLICY: RETRY, REQS0: 2, OUTAGES: 1 } },
  { name: 'hold, commits hang, a reply is lost', define: { POLICY: HOLD, HANGS: 1, LOST: 1 } },
  { name: 'retry, commits hang, a process dies', define: { POLICY: RETRY, HANGS: 1, CRASHES: 1 } },
  { name: 'hold, somebody locks the row, a process is stopped', define: { POLICY: HOLD, LOCKS: 1, STALLS: 1 } },
  { name: 'retry, somebody locks the row, a reply is lost', define: { POLICY: RETRY, LOCKS: 1, LOST: 1 } },
  { name: 'hold, the clock steps, a process dies', define: { POLICY: HOLD, REQS0: 2, STEPS: 1, CRASHES: 1 } },
  { name: 'retry, the clock steps, a process is stopped', define: { POLICY: RETRY, STEPS: 1, STALLS: 1 } },
  { name: 'probe, a process dies, the upstream is silent', define: { POLICY: PROBE, CRASHES: 1, MUTE: 1 } },
  { name: 'probe, a process is stopped', define: { POLICY: PROBE, STALLS: 1 } },
  { name: 'probe, three requests', define: { POLICY: PROBE, REQS0: 2 } },
  { name: 'probe, two ask at once', define: { POLICY: PROBE, RECONCILERS: 2 } },
  { name: 'hold, nothing is stuck: a process dies', define: { LIVE: 1, POLICY: HOLD, CRASHES: 1 } },
  { name: 'hold, nothing is stuck: the arbiter is away', define: { LIVE: 1, POLICY: HOLD, OUTAGES: 1 } },
  { name: 'hold, nothing is stuck: content that cannot be stored', define: { LIVE: 1, POLICY: HOLD, POISON: 1, LOST: 1 } },
  { name: 'hold, nothing is stuck: commits hang', define: { LIVE: 1, POLICY: HOLD, HANGS: 1 } },
  { name: 'retry, nothing is stuck: a process is stopped', define: { LIVE: 1, POLICY: RETRY, STALLS: 1 } },
  { name: 'probe, nothing is stuck: the upstream is silent at first', define: { LIVE: 1, POLICY: PROBE, MUTE: 1 } }
]

/** All faults at once, as many of each kind as fit into some gigabytes. */
export const WIDE: readonly Search[] = [
  {
    name: 'hold, wide: a process dies, another is stopped, a reply and Redis are lost',
    define: { POLICY: HOLD, REQS0: 2, CRASHES: 1, STALLS: 1, LOST: 1, REDIS: 1 }
  },
  {
    name: 'hold, wide: the arbiter is away, claims come late, a process dies',
    define: { POLICY: HOLD, OUTAGES: 1, LOST: 2, GHOSTS: 1, CRASHES: 1 }
  },
  {
    name: 'hold, wide: an operator, retention ends, a reply is lost, a process is stopped',
    define: { POLICY: HOLD, REQS0: 2, OPERATOR: 1, EXPIRY: 1, LOST: 1, STALLS: 1 }
  },
  { name: 'hold, wide: two replies and Redis are lost, retention ends', define: { POLICY: HOLD, REQS0: 2, LOST: 2, EXPIRY: 1, REDIS: 1 } },
  { name: 'hold, wide: commits hang, a process dies, another is stopped', define: { POLICY: HOLD, HANGS: 1, CRASHES: 1, STALLS: 1 } },
  { name: 'retry, wide: commits hang, somebody locks the row, a process dies', define: { POLICY: RETRY, HANGS: 1, LOCKS: 1, CRASHES: 1 } },
  {
    name: 'retry, wide: the clock steps, a process dies, another is stopped, a reply is lost',
    define: { POLICY: RETRY, STEPS: 1, CRASHES: 1, STALLS: 1, LOST: 1 }
  },
  { name: 'probe, wide: commits hang, the clock steps', define: { POLICY: PROBE, HANGS: 1, STEPS: 1 } },
  {
    name: 'retry, wide: a process dies, another is stopped, a reply is lost',
    define: { POLICY: RETRY, REQS0: 2, CRASHES: 1, STALLS: 1, LOST: 1 }
  },
  {
    name: 'retry, wide: the arbiter is away, a process dies, another is stopped',
    define: { POLICY: RETRY, OUTAGES: 1, CRASHES: 1, STALLS: 1, REDIS: 1 }
  },
  {
    name: 'retry, wide: retention ends, a reply is lost, a process is stopped',
    define: { POLICY: RETRY, REQS0: 2, EXPIRY: 1, LOST: 1, STALLS: 1 }
  },
  {
    name: 'probe, wide: a process dies, another is stopped, the upstream is silent',
    define: { POLICY: PROBE, CRASHES: 1, STALLS: 1, MUTE: 1 }
  },
  { name: 'probe, wide: two ask at once, three requests, a process dies', define: { POLICY: PROBE, REQS0: 2, RECONCILERS: 2, CRASHES: 1 } },
  { name: 'probe, wide: two ask at once, a process is stopped', define: { POLICY: PROBE, RECONCILERS: 2, STALLS: 1 } },
  { name: 'probe, wide: an operator, the arbiter is away', define: { POLICY: PROBE, OPERATOR: 1, OUTAGES: 1, STALLS: 1 } },
  { name: 'probe, wide: retention ends, replies are lost', define: { POLICY: PROBE, EXPIRY: 1, LOST: 2 } },
  {
    name: 'hold, wide, nothing is stuck: a process dies, the arbiter is away, a reply is lost',
    define: { LIVE: 1, POLICY: HOLD, CRASHES: 1, OUTAGES: 1, LOST: 1 }
  },
  { name: 'retry, wide, nothing is stuck: a process is stopped, another dies', define: { LIVE: 1, POLICY: RETRY, STALLS: 1, CRASHES: 1 } },
  {
    name: 'probe, wide, nothing is stuck: a process dies, the upstream is silent',
    define: { LIVE: 1, POLICY: PROBE, CRASHES: 1, MUTE: 1 }
  },
  { name: 'probe, wide, nothing is stuck: two ask at once', define: { LIVE: 1, POLICY: PROBE, RECONCILERS: 2 } }
]

export const OUTSIDE: readonly Caught[] = [
  {
    name: 'the arbiter loses an acknowledged claim',
    what: 'an asynchronous failover: the row is gone, and Redis with it',
    define: { POLICY: HOLD, FAILOVERS: 1, REDIS: 1 },
    by: 'I1_at_most_once'
  },
  {
    name: 'retry, frozen between the check and the write',
    what: 'for longer than a lease; only the upstream can refuse the older attempt',
    define: { POLICY: RETRY, STALLS: 1, FROZEN: 1 },
    by: 'I2_attempts_grow'
  },
  {
    name: 'probe, frozen between the check and the write',
    what: 'for longer than the quarantine and confirmAfter: both "not found" were true when they were said',
    define: { POLICY: PROBE, STALLS: 1, FROZEN: 1 },
    by: 'I1_at_most_once'
  },
  {
    name: 'hold, frozen between the check and the write, resolved by hand meanwhile',
    what: 'for longer than the operator waited',
    define: { POLICY: HOLD, STALLS: 1, FROZEN: 1, OPERATOR: 1 },
    by: 'I4_nothing_after_the_answer'
  }
]
