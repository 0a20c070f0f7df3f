/**
 * What a run emphasises so that one particular lie shows within seconds: its faults, and customers that ask at the right moment.
 * Used on broken builds only. A sound build gets everything.
 */
import type { DROP_LIES, LIES } from '../broken/breaks.ts'
import type { FaultKind } from './faults.ts'
import type { Found } from './judge.ts'
import type { PlannedFault } from './plan.ts'
import type { Emphasis } from './run.ts'

export interface Hunt {
  readonly seconds: number
  readonly emphasis: Emphasis
  /** The rules that the lie breaks. One of them must be reported. */
  readonly breaks: ReadonlyArray<Found['invariant']>
  /** Told only where another scheme of ids begins to claim. */
  readonly differ?: true
}

/** Several processes work on every key at once, at every gateway. */
const CROWD = { twinShare: 0.9, leaveShare: 0, otherBodyShare: 0, otherCallerShare: 0, comesBackShare: 0.1 }
/** One gateway after the other. */
function inTurn (kind: FaultKind, atMs: readonly number[], forMs: number): PlannedFault[] {
  return atMs.map((at, index) => ({ atMs: at, kind, gateway: index % 2, forMs, room: `${kind}-${index % 2}`, force: 1 }))
}

export const SCHEME_LIES = ['earlier-ids-unasked'] as const

export const HUNTS: Readonly<Record<typeof LIES[number] | typeof DROP_LIES[number] | typeof SCHEME_LIES[number], Hunt>> = {
  'release-on-disconnect': {
    seconds: 3,
    emphasis: { cards: { 'client-link-cut': 1 }, pace: 'slow', habits: { ...CROWD, leaveShare: 0.3 } },
    breaks: ['I1', 'I2', 'I10']
  },
  'skip-claim': {
    seconds: 3,
    emphasis: { cards: { 'redis-flush': 1 }, pauseMs: 200, pace: 'slow', habits: CROWD },
    breaks: ['I1', 'I2']
  },
  // Resumed with answers to records that others have taken and are executing.
  'accept-any-owner': {
    seconds: 12,
    emphasis: {
      plan: inTurn('gateway-freeze-long', [1_500, 5_500, 9_500], 2_900),
      connections: 64,
      pace: 'slower',
      habits: { ...CROWD, keysPerSecond: 25, routes: { retry: 1 } }
    },
    breaks: ['I1', 'I2', 'I3', 'I7', 'I10', 'I11']
  },
  'settle-after-answer': {
    seconds: 4,
    emphasis: {
      cards: { 'postgres-link-delay': 2, 'postgres-stall': 1 },
      lengths: { 'postgres-link-delay': [800, 1_500] },
      habits: { ...CROWD, keysPerSecond: 40 }
    },
    breaks: ['I11', 'I4', 'I7']
  },
  // Resumed with a queue of requests whose leases others have taken.
  'ignore-lease': {
    seconds: 9,
    emphasis: {
      plan: inTurn('gateway-freeze-long', [1_500, 6_500], 2_800),
      connections: 1,
      pace: 'slow',
      habits: { ...CROWD, keysPerSecond: 25, routes: { retry: 1 } }
    },
    breaks: ['I2', 'I4']
  },
  'done-before-the-answer': {
    seconds: 3,
    emphasis: { cards: { 'upstream-500': 1 }, pace: 'slow', habits: { ...CROWD, routes: { drop: 1, 'drop-redis': 1 } } },
    breaks: ['D1']
  },
  // A mark without a reply is removed twice. By the second time, the next event has made its own.
  'remove-any-mark': {
    seconds: 8,
    emphasis: {
      cards: { 'postgres-link-black-hole': 1 },
      lengths: { 'postgres-link-black-hole': [700, 1_200] },
      pauseMs: 300,
      habits: { ...CROWD, comesBackShare: 0.9, routes: { drop: 1 } }
    },
    breaks: ['D2']
  },
  // Keys that were executed before the switch are asked for after it.
  'earlier-ids-unasked': {
    seconds: 6,
    emphasis: {
      plan: [{ atMs: 2_000, kind: 'ids-upgrade', gateway: 0, forMs: 0, room: 'ids', force: 0 }],
      habits: { ...CROWD, comesBackShare: 0.9, routes: { hold: 1 } }
    },
    breaks: ['I13', 'I1'],
    differ: true
  },
  // The statement arrives after its sender has looked, seen nothing, and left. No client asks for the key again.
  'reread-in-doubt': {
    seconds: 4,
    emphasis: {
      cards: { 'postgres-link-late': 1 },
      pauseMs: 250,
      habits: { ...CROWD, keysPerSecond: 120, twinShare: 0, giveUpShare: 0.6, routes: { hold: 1 } }
    },
    breaks: ['P6']
  },
  // Answered while its own gateway cannot reach the database. The retry goes to the other one, which can.
  'replay-unsettled': {
    seconds: 9,
    emphasis: {
      cards: { 'postgres-link-black-hole': 1 },
      lengths: { 'postgres-link-black-hole': [4_500, 6_000] },
      pauseMs: 800,
      pace: 'slow',
      habits: { ...CROWD, keysPerSecond: 40, routes: { hold: 1 } }
    },
    breaks: ['I11', 'I3', 'I7']
  }
}
