/** What a run in mode inbox emphasises so that one particular lie shows within seconds. Used on broken builds only. */
import { SHORT_WORKER_LEASE } from '../../broken/inbox-lies.ts'
import type { INBOX_LIES } from '../../broken/inbox-lies.ts'
import type { PlannedFault } from '../plan.ts'
import type { FaultKind } from '../faults.ts'
import type { InboxRule } from './history.ts'
import { printedInbox } from './report.ts'
import { runInbox } from './run.ts'
import type { InboxEmphasis } from './run.ts'

const SEED = 1

export type InboxLie = typeof INBOX_LIES[number]

interface InboxHunt {
  readonly seconds: number
  readonly messages: number
  readonly emphasis: InboxEmphasis
  /** The rules that the lie breaks. One of them must be reported. */
  readonly breaks: readonly InboxRule[]
  /** Shows after the end of a worker's lease. */
  readonly shortLease?: boolean
}

/** No repeated and no foreign requests: the lie shows in deliveries. */
const PLAIN = { twinShare: 0, otherShare: 0, leaveShare: 0 }
const NO_OPERATOR = { replaysEveryMs: null, pausesEveryMs: null }

function faults (kind: FaultKind, atMs: readonly number[], forMs: number): PlannedFault[] {
  return atMs.map((at, index) => ({ atMs: at, kind, gateway: index % 2, forMs, room: `${kind}-${index}`, force: 1 }))
}

export const INBOX_HUNTS: Readonly<Record<InboxLie, InboxHunt>> = {
  'accepted-before-the-commit': {
    seconds: 3,
    messages: 1_500,
    // What the link holds is lost when it is cut. A terminated session alone loses only what happens to be under way.
    emphasis: {
      plan: [...faults('postgres-link-black-hole', [800, 1_600], 500), ...faults('postgres-link-cut', [1_200, 2_000], 0)],
      habits: { ...PLAIN, routes: { loose: 1 } }
    },
    breaks: ['N1']
  },
  'next-beside-a-retry': {
    seconds: 3,
    messages: 400,
    emphasis: { plan: faults('upstream-500', [500], 1_500), habits: { ...PLAIN, groups: 10, routes: { ordered: 1 } } },
    breaks: ['N4']
  },
  'same-attempt-again': {
    seconds: 3,
    messages: 200,
    emphasis: { plan: faults('upstream-500', [500], 1_000), habits: { ...PLAIN, routes: { loose: 1 } } },
    breaks: ['N2']
  },
  'failed-is-delivered': {
    seconds: 3,
    messages: 200,
    emphasis: { plan: faults('upstream-500', [500], 1_000), habits: { ...PLAIN, routes: { loose: 1 } } },
    breaks: ['N8']
  },
  'stopped-groups-go-on': {
    seconds: 4,
    messages: 300,
    emphasis: { plan: [], habits: { ...PLAIN, groups: 6, poisonShare: 0.2, routes: { stops: 1 } } },
    breaks: ['N4']
  },
  'held-is-sent-again': {
    seconds: 3,
    messages: 200,
    emphasis: { plan: faults('upstream-reset-after', [500], 1_000), habits: { ...PLAIN, routes: { held: 1 } } },
    breaks: ['N6']
  },
  'one-key-any-request': {
    seconds: 3,
    messages: 200,
    emphasis: { plan: [], habits: { ...PLAIN, otherShare: 0.5, routes: { held: 1, loose: 1 } } },
    breaks: ['N3']
  },
  'accepted-and-executed': {
    seconds: 3,
    messages: 200,
    emphasis: { plan: [], habits: { ...PLAIN, routes: { wish: 1 } } },
    breaks: ['N2', 'N5']
  },
  // Resumed with answers to deliveries that others have taken over and are sending. There are few messages, so they go out at once.
  'settle-any-token': {
    seconds: 19,
    messages: 100,
    emphasis: { plan: faults('gateway-freeze-lease', [2_000, 11_000], 6_500), pace: 'slower', habits: { ...PLAIN, routes: { loose: 1 } } },
    breaks: ['N8'],
    shortLease: true
  },
  'targets-one-by-one': {
    seconds: 2,
    messages: 100,
    emphasis: { plan: [], habits: { ...PLAIN, routes: { targets: 1 } } },
    breaks: ['N10']
  },
  'every-target-takes': {
    seconds: 2,
    messages: 100,
    emphasis: { plan: [], habits: { ...PLAIN, routes: { targets: 1 } } },
    breaks: ['N10']
  },
  'replay-unsaid': {
    seconds: 3,
    messages: 100,
    emphasis: { plan: [], habits: { ...PLAIN, routes: { kept: 1, targets: 1 } }, operator: { replaysEveryMs: 500 } },
    breaks: ['N11']
  },
  'due-at-once': {
    seconds: 2,
    messages: 100,
    emphasis: { plan: [], habits: { ...PLAIN, routes: { later: 1 } } },
    breaks: ['N12']
  },
  // Others than the first of a second of its pause.
  'delivers-while-paused': {
    seconds: 5,
    messages: 1_000,
    emphasis: { plan: [], habits: { ...PLAIN, routes: { ordered: 1 } }, operator: { pausesEveryMs: 0 } },
    breaks: ['N13']
  },
  'every-take-is-a-trial': {
    seconds: 6,
    messages: 300,
    emphasis: { plan: faults('consumer-down', [200], 5_500), habits: { ...PLAIN, routes: { fails: 1 } } },
    breaks: ['N13']
  }
}

/** What is wrong with the hunt. null: the broken build was detected. */
export async function huntInbox (name: InboxLie): Promise<string | null> {
  const { seconds, messages, emphasis, breaks, shortLease = false } = INBOX_HUNTS[name]
  // The run does not wait for what a broken build leaves open.
  const result = await runInbox({
    seed: SEED,
    seconds,
    gateways: 2,
    messages,
    emphasis: { ...emphasis, operator: { ...NO_OPERATOR, ...emphasis.operator }, drainMs: 0 },
    broken: shortLease ? `${SHORT_WORKER_LEASE},${name}` : name
  })
  const caught = result.violations.some(({ invariant }) => breaks.some((each) => each === invariant))
  return caught ? null : `nothing was found\n${printedInbox(result)}`
}
