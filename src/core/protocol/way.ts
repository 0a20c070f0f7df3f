/**
 * The way of a guarded request, from its head to its answer, as a table: in which state it is, what happens, where it is then, and what is
 * done there. transitions.ts is the table of its record. Every cell is filled. Pure: gateway/way.ts does what the table says.
 */

/**
 * A state is named after what is being done.
 *
 * - scope: find its caller. A token may have to be verified.
 * - body: read its body.
 * - identify: find its key, its id and its fingerprint.
 * - authorise: check what the route asks of its caller. No check waits for anybody yet.
 * - recall: look for its answer, or its execution, in this process.
 * - admit: check the limits, those of its caller too.
 * - lock: ask Redis for the lock.
 * - claim: ask the arbiter for the claim.
 * - decide: the claim was not simply won, so further statements decide.
 * - forward: it is at the upstream.
 * - settle: ask the arbiter to take the outcome.
 * - store: the arbiter has not taken it at once, or it needs more than one statement.
 * - apart: another execution, another mode or a wait answers it.
 * - over: this process owes nothing more for it.
 */
export const STATES = [
  'scope', 'body', 'identify', 'authorise', 'recall', 'admit', 'lock', 'claim', 'decide', 'forward', 'settle', 'store', 'apart', 'over'
] as const
export type State = typeof STATES[number]

/**
 * What happens to it.
 *
 * - scoped, body: its caller is known, its body is whole. Or neither can be had.
 * - permitted: what was checked has nothing against it.
 * - refused: there is an answer without a claim.
 * - elsewhere: other code answers it, and takes its time.
 * - locked: Redis has nothing against a claim.
 * - claimed: the claim is acknowledged. lost: it was not won at once.
 * - decided: it is not sent under a claim.
 * - answered: a whole answer has come. headers: the head of an answer that is not buffered. failed: there is none, or the settle failed.
 * - settled: the outcome is acknowledged. unfinished: it is, and more is to be done before anybody gets it.
 * - timeout: the time of this state is over. late: its client has waited for as long as it may.
 * - gone: its client has left. drained: the time of a drain is over.
 */
export const EVENTS = [
  'scoped', 'body', 'permitted', 'refused', 'elsewhere', 'locked', 'claimed', 'lost', 'decided', 'headers', 'answered', 'failed', 'settled',
  'unfinished', 'timeout', 'late', 'gone', 'drained'
] as const
export type Event = typeof EVENTS[number]

/** What is done. The last action of a move may cause the next event at once. */
export type Action =
  | 'readBody' | 'identify' | 'authorise' | 'recall' | 'admit' | 'lock' | 'claim' | 'decide' | 'forward' | 'settle' | 'keep' | 'store'
  | 'respond' | 'respondInFlight' | 'answerDecision' | 'giveUp' | 'unlock' | 'giveBack' | 'endSending' | 'cutOff' | 'leave'

export interface Move { readonly to: State, readonly do: readonly Action[] }

/** kept: nothing changes. never: it cannot happen, so it would be a bug. */
export type Cell = Move | 'kept' | 'never'

function move (to: State, ...actions: readonly Action[]): Move {
  return { to, do: actions }
}

/** A client that leaves changes nothing for the record (E1). A waiter notices it by itself. */
const CLAIMED = { gone: 'kept' } as const
/** Nothing is claimed, so there is nothing that a drain could cut off. */
const UNCLAIMED = { ...CLAIMED, drained: 'kept' } as const
const REFUSED = move('over', 'respond', 'leave')

const NEVER = Object.fromEntries(EVENTS.map((event) => [event, 'never'])) as Readonly<Record<Event, 'never'>>

export const WAY: Readonly<Record<State, Readonly<Record<Event, Cell>>>> = {
  scope: { ...NEVER, ...UNCLAIMED, scoped: move('body', 'readBody'), refused: REFUSED },
  body: { ...NEVER, ...UNCLAIMED, body: move('identify', 'identify'), refused: REFUSED },
  identify: { ...NEVER, ...UNCLAIMED, permitted: move('authorise', 'authorise'), refused: REFUSED, elsewhere: move('apart') },
  authorise: { ...NEVER, ...UNCLAIMED, permitted: move('recall', 'recall'), refused: REFUSED, elsewhere: move('apart') },
  recall: { ...NEVER, ...UNCLAIMED, permitted: move('admit', 'admit'), refused: REFUSED, elsewhere: move('apart') },
  admit: { ...NEVER, ...UNCLAIMED, permitted: move('lock', 'lock'), refused: REFUSED, elsewhere: move('apart') },
  lock: {
    ...NEVER,
    ...CLAIMED,
    locked: move('claim', 'claim'),
    timeout: move('over', 'giveUp', 'leave'),
    drained: move('lock', 'cutOff')
  },
  claim: {
    ...NEVER,
    ...CLAIMED,
    claimed: move('forward', 'forward'),
    lost: move('decide', 'decide'),
    decided: move('apart', 'answerDecision'),
    timeout: move('over', 'giveUp', 'leave'),
    drained: move('claim', 'cutOff')
  },
  decide: {
    ...NEVER,
    ...CLAIMED,
    claimed: move('forward', 'forward'),
    decided: move('apart', 'answerDecision'),
    timeout: move('over', 'giveUp', 'leave'),
    drained: move('decide', 'cutOff')
  },
  forward: {
    ...NEVER,
    ...CLAIMED,
    answered: move('settle', 'settle'),
    headers: move('settle', 'settle'),
    failed: move('settle', 'settle'),
    timeout: move('forward', 'endSending'),
    // The client gets "in flight", and the execution goes on (E1).
    late: move('forward', 'respondInFlight'),
    drained: move('forward', 'cutOff')
  },
  settle: {
    ...NEVER,
    ...CLAIMED,
    settled: move('over', 'keep', 'leave'),
    unfinished: move('store', 'store'),
    failed: move('store', 'store'),
    // E6: the client gets the answer now, and the settle goes on.
    timeout: move('store', 'store'),
    late: move('settle', 'respondInFlight'),
    drained: 'kept'
  },
  store: { ...NEVER, ...CLAIMED, settled: move('over', 'leave'), late: move('store', 'respondInFlight'), drained: 'kept' },
  apart: {
    ...NEVER,
    ...CLAIMED,
    elsewhere: 'kept',
    refused: REFUSED,
    late: move('apart', 'respondInFlight'),
    drained: move('apart', 'cutOff')
  },
  // P6: a claim that was given up may still be won. What it was granted is given back.
  over: {
    ...NEVER,
    ...UNCLAIMED,
    locked: move('over', 'unlock'),
    claimed: move('over', 'giveBack'),
    lost: move('over', 'decide'),
    answered: 'kept',
    headers: 'kept',
    failed: 'kept'
  }
}
