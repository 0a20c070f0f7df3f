/**
 * The kinds of trouble that a schedule can lean towards: each draws faults, and whatever must stand so that they hit. Draws
 * only; what a fault does is the business of run.ts and process.ts.
 */
import { pageOf } from './behaviours.ts'
import type { Chance } from './chance.ts'
import { MESSAGE_FAULTS } from './schedule.ts'
import type { Action, Fault, MessageFault, Moment, OperatorAct, Schedule, SimulatedClient, Trigger } from './schedule.ts'
import { schemeDrawn, switchFrom, withCaller } from './switches.ts'

/** What is drawn before the theme: it knows how long a lease is and who there is. */
export interface Draft {
  readonly chance: Chance
  readonly gateways: number
  readonly leaseMs: number
  readonly longestLeaseMs: number
  readonly upstreamTimeoutMs: number
  readonly claimWithinMs: number
  readonly redis: boolean
}

export type Leaning = Pick<Schedule, 'faults'> & Partial<Schedule>

/** `differs`: gateways run with several configurations. */
export interface Theme { readonly name: string, readonly lean: (draft: Draft) => Leaning, readonly differs?: true }

export const THEMES: ReadonlyArray<readonly [weight: number, theme: Theme]> = [
  [4, { name: 'calm', lean: () => ({ faults: [] }) }],
  [14, { name: 'death', lean: (draft) => ({ faults: some(draft, 1, 2, () => at(draft, crash(draft))) }) }],
  [16, { name: 'stall', lean: (draft) => ({ faults: some(draft, 1, 2, () => at(draft, pause(draft))) }) }],
  [14, { name: 'doubt', lean: (draft) => ({ faults: some(draft, 1, 3, () => message(draft)) }) }],
  [6, { name: 'late claim', lean: lateClaim }],
  [12, { name: 'outage', lean: (draft) => ({ faults: some(draft, 1, 2, () => at(draft, cut(draft))) }) }],
  [10, {
    name: 'redis',
    lean: (draft) => ({ faults: [...some(draft, 1, 2, () => at(draft, redis(draft))), ...some(draft, 0, 1, () => at(draft, any(draft)))] })
  }],
  [8, { name: 'unsettled', lean: unsettled }],
  [8, { name: 'operator', lean: operator }],
  [4, { name: 'overtaken', lean: overtaken }],
  [8, { name: 'queue', lean: queue }],
  [4, { name: 'drain', lean: (draft) => ({ faults: some(draft, 1, 2, () => at(draft, drain(draft))) }) }],
  [18, {
    name: 'mix',
    lean: (draft) => ({ faults: some(draft, 2, 4, () => draft.chance.hit(0.3) ? message(draft) : at(draft, any(draft))) })
  }],
  [2, { name: 'amnesia', lean: amnesia }],
  [10, { name: 'differ', lean: differ, differs: true }],
  [6, { name: 'step', lean: step }],
  [10, { name: 'hang', lean: hang }],
  [4, { name: 'row lock', lean: rowLock }],
  [5, { name: 'snapshot', lean: snapshot }],
  [5, { name: 'hops', lean: hops }],
  [3, { name: 'late acceptance', lean: lateAcceptance }],
  [10, { name: 'switch', lean: switched }]
]

function some (draft: Draft, min: number, max: number, one: () => Fault): Fault[] {
  return Array.from({ length: draft.chance.whole(min, max) }, one)
}

// ---------------------------------------------------------------- when

const OPERATIONS: ReadonlyArray<readonly [weight: number, operation: string]> = [
  [6, 'insert'], [8, 'send'], [7, 'settle'], [4, 'lock'], [3, 'take'], [2, 'swap'], [2, 'unlock'], [2, 'renew'],
  [1, 'look'], [1, 'confirm'], [1, 'lapse'], [1, 'watch'], [1, 'wake'], [1, 'settleLost']
]
const MOMENTS: readonly Moment[] = ['call', 'applied', 'reply']
/** Most of what happens happens in the first seconds. */
const EARLY_MS = 9_000
const STEPS_MAX = 120

function at (draft: Draft, action: Action): Fault {
  return { trigger: triggerOf(draft), action }
}

export function triggerOf (draft: Draft): Trigger {
  const { chance } = draft
  const gateway = gatewayOf(draft)
  return chance.weighted<Trigger>([
    [6, {
      kind: 'call',
      gateway,
      operation: chance.weighted(OPERATIONS),
      nth: chance.weighted([[6, 1], [2, 2], [1, 3]]),
      moment: chance.one(MOMENTS)
    }],
    [2, { kind: 'step', gateway, nth: chance.whole(1, STEPS_MAX) }],
    [2, { kind: 'time', atMs: chance.whole(0, EARLY_MS) }]
  ])
}

function gatewayOf ({ chance, gateways }: Draft): number {
  return chance.whole(0, gateways - 1)
}

// ---------------------------------------------------------------- what

function any (draft: Draft): Action {
  return draft.chance.weighted<(draft: Draft) => Action>([
    [8, crash],
    [10, pause],
    [8, cut],
    [6, redis],
    [2, drain],
    [2, clock],
    [1, stepped],
    [1, hung]
  ])(draft)
}

/** Shorter than a lease, about one, and long enough for the whole rest of the story. */
function aroundALease ({ chance, leaseMs, upstreamTimeoutMs }: Draft): number {
  return chance.weighted([
    [2, chance.whole(1, leaseMs)],
    [4, chance.whole(leaseMs, 2 * leaseMs)],
    [3, chance.whole(2 * leaseMs, 4 * leaseMs)],
    [1, upstreamTimeoutMs + 5 * leaseMs]
  ])
}

function crash (draft: Draft): Action {
  return { kind: 'crash', gateway: gatewayOf(draft), restartMs: draft.chance.one([50, 500, 2 * draft.leaseMs]) }
}

function drain (draft: Draft): Action {
  return {
    kind: 'drain',
    gateway: gatewayOf(draft),
    graceMs: draft.chance.one([0, 50, 1_000, 10_000]),
    restartMs: draft.chance.one([0, 500])
  }
}

function pause (draft: Draft): Action {
  return { kind: 'pause', gateway: gatewayOf(draft), forMs: aroundALease(draft), clock: draft.chance.hit(0.75) ? 'runs' : 'stands' }
}

function clock (draft: Draft): Action {
  return { kind: 'clock', gateway: gatewayOf(draft), byMs: draft.chance.one([-3_600_000, -900, 900, 5_000, 3_600_000]) }
}

function cut (draft: Draft): Action {
  const { chance, gateways, redis } = draft
  const all = Array.from({ length: gateways }, (_, gateway) => gateway)
  return {
    kind: 'cut',
    gateways: chance.hit(0.4) ? all : [gatewayOf(draft)],
    ports: redis ? chance.weighted([[5, ['records']], [2, ['locks']], [3, ['records', 'locks']]]) : ['records'],
    forMs: aroundALease(draft),
    way: chance.one(['reset', 'hole'])
  }
}

function redis (draft: Draft): Action {
  const { chance, gateways } = draft
  return chance.weighted<Action>([
    [3, { kind: 'flush' }],
    [3, { kind: 'failover', lostMs: chance.one([5, 50, 400]) }],
    [2, {
      kind: 'cut',
      gateways: Array.from({ length: gateways }, (_, gateway) => gateway),
      ports: ['locks'],
      forMs: aroundALease(draft),
      way: chance.one(['reset', 'hole'])
    }]
  ])
}

/** A statement is not on its way for longer than this after its caller gave up (P6). */
const LATE_MS_MAX = 9_000

function message (draft: Draft): Fault {
  const { chance, claimWithinMs } = draft
  const operation = chance.weighted<string>([
    [8, 'insert'],
    [4, 'take'],
    [7, 'settle'],
    [4, 'confirm'],
    [4, 'lock'],
    [2, 'swap'],
    [2, 'unlock'],
    [2, 'renew'],
    [2, 'lapse'],
    [2, 'look'],
    [2, 'send'],
    [1, 'watch']
  ])
  const fault: MessageFault = chance.one(MESSAGE_FAULTS)
  const lateMs = chance.weighted([
    [2, chance.whole(1, claimWithinMs)],
    [2, chance.whole(claimWithinMs, 3 * claimWithinMs)],
    [1, chance.whole(claimWithinMs, LATE_MS_MAX)]
  ])
  return {
    trigger: { kind: 'call', gateway: gatewayOf(draft), operation, nth: chance.weighted([[5, 1], [2, 2], [1, 3]]), moment: 'call' },
    action: { kind: 'message', fault, lateMs }
  }
}

// ---------------------------------------------------------------- leanings

/** One claim that is applied just after it was given up: whoever only looks, finds nothing yet, and it stands there later (P6). */
function lateClaim (draft: Draft): Leaning {
  const { chance, claimWithinMs } = draft
  const trigger: Trigger = { kind: 'call', gateway: gatewayOf(draft), operation: 'insert', nth: chance.whole(1, 2), moment: 'call' }
  const lateMs = claimWithinMs + chance.weighted([[3, chance.whole(10, 300)], [1, chance.whole(1, LATE_MS_MAX)]])
  return {
    faults: [{ trigger, action: { kind: 'message', fault: 'late', lateMs } }],
    network: { baseMs: 1, jitterMs: 5, slow: { share: 0, ms: 0 }, lossShare: 0, wireMs: 0 }
  }
}

/** The store goes when the answer comes, for longer than waiters wait for a settle (E6); then something more. */
function unsettled (draft: Draft): Leaning {
  const { chance, gateways, leaseMs } = draft
  const gateway = gatewayOf(draft)
  const goes: Fault = {
    trigger: { kind: 'call', gateway, operation: 'settle', nth: 1, moment: 'call' },
    action: {
      kind: 'cut',
      gateways: chance.hit(0.5) ? [gateway] : Array.from({ length: gateways }, (_, each) => each),
      ports: ['records'],
      forMs: chance.whole(3_100, 3_000 + 3 * leaseMs),
      way: chance.one(['reset', 'hole'])
    }
  }
  const then: Fault = {
    trigger: { kind: 'call', gateway, operation: 'swap', nth: 1, moment: chance.one(['applied', 'reply']) },
    action: chance.hit(0.6) ? { kind: 'crash', gateway, restartMs: chance.one([50, 500, 2 * leaseMs]) } : any(draft)
  }
  return {
    faults: [goes, ...chance.hit(0.7) ? [then] : []],
    redis: !chance.hit(0.1),
    script: [{ kind: 'answer', status: 201, means: 'keep', afterMs: chance.whole(1, 200) }]
  }
}

/** A dispatch that waits for a connection while its lease runs out, unseen if the machine is suspended meanwhile (E0). */
function queue (draft: Draft): Leaning {
  const { chance, leaseMs } = draft
  const gateway = gatewayOf(draft)
  const waits = chance.whole(Math.round(leaseMs / 3), Math.round(leaseMs * 1.5))
  const trigger: Trigger = { kind: 'call', gateway, operation: 'send', nth: 1, moment: 'call' }
  const suspended: Fault = {
    trigger,
    action: { kind: 'pause', gateway, forMs: chance.whole(100, 2 * leaseMs), clock: chance.hit(0.7) ? 'stands' : 'runs' }
  }
  const unrenewed: Fault = {
    trigger,
    action: {
      kind: 'cut',
      gateways: [gateway],
      ports: ['records'],
      forMs: chance.whole(leaseMs, 3 * leaseMs),
      way: chance.one(['reset', 'hole'])
    }
  }
  return {
    faults: [...chance.hit(0.7) ? [suspended] : [], ...chance.hit(0.6) ? [unrenewed] : []],
    poolMs: [waits, 0, chance.whole(0, leaseMs)]
  }
}

/** A process that is silent for as long as an operator needs. */
function operator (draft: Draft): Leaning {
  const { chance, leaseMs, upstreamTimeoutMs } = draft
  const gateway = gatewayOf(draft)
  const silent: Fault = {
    trigger: { kind: 'call', gateway, operation: 'send', nth: 1, moment: chance.one(['applied', 'reply']) },
    action: { kind: 'pause', gateway, forMs: chance.whole(2 * leaseMs, upstreamTimeoutMs + 6 * leaseMs), clock: 'runs' }
  }
  return {
    faults: chance.hit(0.7) ? [silent] : [at(draft, any(draft))],
    operator: Array.from({ length: chance.whole(1, 3) }, () => operatorAct(chance))
  }
}

/** Stopped with the answer at hand, for as long as others need to call the outcome unknown and to find out themselves. */
function overtaken (draft: Draft): Leaning {
  const { chance, leaseMs } = draft
  const gateway = gatewayOf(draft)
  const trigger: Trigger = chance.hit(0.5)
    ? { kind: 'call', gateway, operation: 'send', nth: 1, moment: 'applied' }
    : { kind: 'call', gateway, operation: 'settle', nth: 1, moment: 'call' }
  const faults: Fault[] = [{
    trigger,
    action: { kind: 'pause', gateway, forMs: chance.whole(Math.round(1.3 * leaseMs), 3 * leaseMs), clock: 'runs' }
  }]
  const other = (gateway + 1) % draft.gateways
  // Whoever has asked is stopped with what he has heard: the owner is back before him.
  if (chance.hit(0.5)) {
    faults.push({
      trigger: { kind: 'call', gateway: other, operation: chance.one(['resolve', 'noteProbe']), nth: 1, moment: 'call' },
      action: { kind: 'pause', gateway: other, forMs: chance.whole(leaseMs, 4 * leaseMs), clock: 'runs' }
    })
  }
  const clients: SimulatedClient[] = [{
    key: 'k-0',
    scope: 'Bearer a',
    body: 'one',
    startsAtMs: draft.longestLeaseMs + 100,
    gateway,
    roams: false,
    leavesAfterMs: [null, null],
    triesMax: 4,
    retryMs: 300
  }]
  // What is found is told as 201: who overwrites what others have found says something else.
  return {
    faults,
    clients,
    script: [{ kind: 'answer', status: chance.one([201, 500]), means: 'keep', afterMs: chance.whole(1, 200) }],
    poolMs: []
  }
}

/** The arbiter loses a claim that was acknowledged, and nothing else goes wrong: Redis still knows who executes (P7). */
function amnesia (draft: Draft): Leaning {
  const { chance } = draft
  const gateway = gatewayOf(draft)
  return {
    faults: [{
      trigger: { kind: 'call', gateway, operation: 'send', nth: 1, moment: chance.one(['call', 'applied', 'reply']) },
      action: { kind: 'amnesia' }
    }],
    redis: true,
    script: [{ kind: 'answer', status: 201, means: 'keep', afterMs: chance.whole(1, 200) }],
    poolMs: [],
    network: { baseMs: 1, jitterMs: 1, slow: { share: 0, ms: 0 }, lossShare: 0, wireMs: 0 },
    copyTtlMs: 60_000
  }
}

/** Gateways with several configurations, which change under requests; one that is started anew has another one; and something more. */
function differ (draft: Draft): Leaning {
  const { chance } = draft
  const deletedMs = chance.whole(300, 1_500)
  const configured = (): Action => ({ kind: 'configure', gateway: gatewayOf(draft), variant: chance.whole(0, 2), reloads: chance.hit(0.7) })
  return {
    faults: [...some(draft, 1, 4, () => at(draft, configured())), ...some(draft, 0, 1, () => at(draft, any(draft)))],
    // A memory of the row's own reading outlives its delete only where no copy is found first.
    ...chance.hit(0.4) && {
      redis: chance.hit(0.4),
      operator: [{ kind: 'delete', atMs: deletedMs }],
      clients: aroundADelete(draft, deletedMs).clients
    }
  }
}

/**
 * A key that was let go of comes to a gateway that accepts what the others execute: its acceptance, under a claim, is held back until
 * about the end of the lease, when somebody else may have taken the key.
 */
function lateAcceptance (draft: Draft): Leaning {
  const { chance, gateways, leaseMs, longestLeaseMs } = draft
  const gateway = gatewayOf(draft)
  const other = (gateway + 1) % gateways
  const startsAtMs = longestLeaseMs + 100
  const asks = (at: number, ms: number, triesMax: number): SimulatedClient => ({
    key: 'k-0',
    scope: 'Bearer a',
    body: 'one',
    startsAtMs: startsAtMs + ms,
    gateway: at,
    roams: false,
    leavesAfterMs: [null, null],
    triesMax,
    retryMs: 100
  })
  const forMs = chance.whole(Math.round(0.7 * leaseMs), 4 * leaseMs)
  const action: Action = chance.hit(0.7)
    ? { kind: 'pause', gateway, forMs, clock: chance.hit(0.8) ? 'runs' : 'stands' }
    : { kind: 'message', fault: chance.one(['late', 'request']), lateMs: Math.min(forMs, LATE_MS_MAX) }
  return {
    faults: [{
      trigger: {
        kind: 'call',
        gateway,
        operation: 'accept',
        nth: chance.weighted([[1, 1], [3, 2]]),
        moment: chance.one(['call', 'call', 'applied'])
      },
      action
    }],
    variants: [{ unknown: 'retry' }, { unknown: 'retry', accepts: true }],
    machines: Array.from({ length: gateways }, (_, each) => ({ skewMs: 0, rate: 1, variant: each === gateway ? 1 : 0 })),
    clients: [asks(other, 0, 1), asks(gateway, chance.whole(100, 300), 12), asks(other, chance.whole(300, leaseMs), 60)],
    script: [
      { kind: 'answer', status: 429, means: 'release', afterMs: chance.whole(1, 50) },
      { kind: 'answer', status: 201, means: 'keep', afterMs: chance.whole(1, 200) }
    ],
    redis: chance.hit(0.4),
    poolMs: []
  }
}

/** By about a lease, by more than any retention, by days; back by no more than a lease: every lease and retention ends so much later. */
function stepped ({ chance, leaseMs }: Draft): Action {
  return {
    kind: 'step',
    byMs: chance.weighted([
      [3, chance.whole(leaseMs, 3 * leaseMs)],
      [2, 130_000],
      [2, 90_000_000],
      [1, 30 * 86_400_000],
      [2, -chance.whole(100, leaseMs)]
    ])
  }
}

/** While somebody executes for longer than a lease, or behind what he has settled. */
function step (draft: Draft): Leaning {
  const { chance, gateways } = draft
  const operation = chance.one(['send', 'send', 'settle'])
  const trigger: Trigger = {
    kind: 'call',
    gateway: chance.whole(0, gateways - 1),
    operation,
    nth: 1,
    moment: chance.one(['applied', 'reply'])
  }
  return {
    faults: [{ trigger, action: stepped(draft) }, ...some(draft, 0, 1, () => at(draft, any(draft)))],
    ...chance.hit(0.6) && slowly(draft).leaning
  }
}

/** An answer that takes longer than a lease, where the upstream has so long, and something that is over shortly before it comes. */
function slowly ({ chance, leaseMs, upstreamTimeoutMs }: Draft): { readonly forMs: number, readonly leaning: Partial<Schedule> } {
  const afterMs = chance.whole(Math.min(1.3 * leaseMs, upstreamTimeoutMs / 2), upstreamTimeoutMs - 100)
  const forMs = chance.whole(Math.min(leaseMs, afterMs / 2), Math.min(LATE_MS_MAX, afterMs))
  return { forMs, leaning: { script: [{ kind: 'answer', status: 201, means: 'keep', afterMs }], poolMs: [] } }
}

/** No longer than a statement may be on its way (P6). */
function hung (draft: Draft): Extract<Action, { kind: 'hang' }> {
  const { chance, leaseMs } = draft
  return {
    kind: 'hang',
    forMs: chance.weighted([[1, chance.whole(100, leaseMs)], [2, slowly(draft).forMs]]),
    shows: chance.hit(0.6),
    promoted: chance.hit(0.5)
  }
}

function hang (draft: Draft): Leaning {
  const { chance } = draft
  const gateway = gatewayOf(draft)
  const trigger = {
    kind: 'call',
    gateway,
    operation: chance.weighted([[2, 'insert'], [5, 'send'], [5, 'settle'], [1, 'take']]),
    nth: 1,
    moment: chance.one(['call', 'applied'] as const)
  } as const
  const { forMs, leaning } = slowly(draft)
  const faults: Fault[] = [
    { trigger, action: { ...hung(draft), ...trigger.operation === 'send' && { forMs } } },
    ...some(draft, 0, 1, () => at(draft, any(draft)))
  ]
  return { faults, ...(trigger.operation === 'send' || chance.hit(0.3)) && leaning, ...beside(draft, gateway) }
}

/**
 * Who asks again and again at another gateway keeps its contact with an arbiter that is only read, and finds a lease
 * over before any sweeper does.
 */
function beside ({ chance, longestLeaseMs, gateways }: Draft, gateway: number): Partial<Schedule> {
  if (gateways === 1 || chance.hit(0.3)) return {}
  const client = { key: 'k-0', scope: 'Bearer a', body: 'one', roams: false, leavesAfterMs: [null, null], retryMs: 50 } as const
  const startsAtMs = longestLeaseMs + 100
  return {
    redis: chance.hit(0.3),
    clients: [
      { ...client, startsAtMs, gateway, triesMax: 12 },
      { ...client, startsAtMs: startsAtMs + 20, gateway: (gateway + 1) % gateways, triesMax: 150 }
    ]
  }
}

/** The database is fine, and its owner lives. */
function rowLock (draft: Draft): Leaning {
  const gateway = gatewayOf(draft)
  const trigger: Trigger = { kind: 'call', gateway, operation: 'send', nth: 1, moment: 'applied' }
  const { forMs, leaning } = slowly(draft)
  return { faults: [{ trigger, action: { kind: 'row-lock', forMs } }], ...leaning, ...beside(draft, gateway) }
}

/** Kept, looked at once more just before it is deleted, and done anew as soon as the delete takes effect. */
function aroundADelete (
  { chance, leaseMs, gateways }: Draft,
  deletedMs: number
): { readonly againMs: number, readonly client: (startsAtMs: number) => SimulatedClient, readonly clients: readonly SimulatedClient[] } {
  // A delete takes effect after two leases, and the operator looks for something to delete again and again.
  const againMs = deletedMs + 2 * leaseMs + chance.whole(10, 1_500)
  const client = (startsAtMs: number): SimulatedClient => ({
    key: 'k-0',
    scope: 'Bearer a',
    body: 'one',
    startsAtMs,
    gateway: chance.whole(0, gateways - 1),
    roams: true,
    leavesAfterMs: [null, null],
    triesMax: 12,
    retryMs: 300
  })
  return { againMs, client, clients: [client(0), client(deletedMs - 50), client(againMs), client(againMs + chance.whole(100, 1_000))] }
}

/** Kept, deleted, asked for again; then Redis comes back as it was before the delete, and somebody asks once more. */
function snapshot (draft: Draft): Leaning {
  const { chance } = draft
  const deletedMs = chance.whole(300, 1_500)
  const { againMs, client, clients } = aroundADelete(draft, deletedMs)
  const backMs = againMs + chance.whole(200, 2_000)
  return {
    faults: [
      { trigger: { kind: 'time', atMs: backMs }, action: { kind: 'snapshot', lostMs: backMs - chance.whole(100, deletedMs) } },
      ...some(draft, 0, 1, () => at(draft, any(draft)))
    ],
    operator: [{ kind: 'delete', atMs: deletedMs }],
    clients: [...clients, client(backMs + chance.whole(1, 1_000)), client(backMs + chance.whole(1, 3_000))],
    redis: true,
    copyTtlMs: 60_000
  }
}

/**
 * Ids by another scheme, from a moment on that is about to matter to somebody; gateways that hear of it late or cannot make such ids;
 * callers whom only the new rules tell apart; another switch when the first has ended.
 */
function switched (draft: Draft): Leaning {
  const { chance, gateways, leaseMs, longestLeaseMs } = draft
  if (chance.hit(0.1)) return acceptanceOvertaken(draft)
  const scheme = schemeDrawn(chance)
  const first = switchFrom(chance, scheme, 0.3)
  const gateway = gatewayOf(draft)
  const other = (gateway + 1) % gateways
  const deletedMs = chance.hit(0.4) ? chance.whole(300, 1_500) : null
  const trigger = switching(draft, gateway)
  const deaf = chance.weighted<Action | null>([
    [3, null],
    [2, { kind: 'cut', gateways: [other], ports: ['records'], forMs: aroundALease(draft), way: chance.one(['reset', 'hole']) }],
    [2, { kind: 'pause', gateway: other, forMs: aroundALease(draft), clock: chance.hit(0.8) ? 'runs' : 'stands' }],
    [1, crash(draft)],
    [2, hung(draft)]
  ])
  const lacks = !first.isLost && first.to.startsWith('keyed') && chance.hit(0.4)
  const again = deletedMs !== null && chance.hit(0.6)
  const late = (): Fault => ({
    trigger: {
      kind: 'call',
      gateway: gatewayOf(draft),
      operation: chance.one(['insert', 'insert', 'take', 'accept', 'schemes', 'beat']),
      nth: chance.weighted([[3, 1], [2, 2], [1, 3]]),
      moment: 'call'
    },
    action: { kind: 'message', fault: chance.one(MESSAGE_FAULTS), lateMs: chance.whole(1, LATE_MS_MAX) }
  })
  const faults: Fault[] = [
    ...deaf === null ? [] : [{ trigger, action: deaf }],
    { trigger, action: first },
    ...lacks
      ? [{ trigger: { kind: 'time', atMs: chance.whole(0, EARLY_MS) } as const, action: { kind: 'secrets', gateway: other } as const }]
      : [],
    ...again ? [{ trigger: { kind: 'time', atMs: deletedMs + 2 * leaseMs } as const, action: switchFrom(chance, first.to, 0) }] : [],
    ...some(draft, 0, 1, late),
    ...some(draft, 0, 1, () => at(draft, any(draft)))
  ]
  const startsAtMs = chance.hit(0.5) ? 0 : longestLeaseMs + 100
  const asks = (): SimulatedClient => ({
    key: 'k-0',
    scope: 'Bearer a',
    body: chance.hit(0.1) ? 'two' : 'one',
    startsAtMs: startsAtMs + chance.whole(0, chance.one([50, leaseMs, 4 * leaseMs])),
    gateway: gatewayOf(draft),
    roams: chance.hit(0.5),
    leavesAfterMs: [null, null],
    triesMax: chance.one([4, 12]),
    retryMs: chance.one([50, 300])
  })
  const clients = deletedMs === null ? Array.from({ length: chance.whole(2, 4) }, asks) : aroundADelete(draft, deletedMs).clients
  const several = chance.hit(0.5)
  const accepting = !first.isLost && chance.hit(0.2) ? chance.one([gateway, other]) : null
  return {
    scheme,
    faults: accepting === null ? faults : faults.filter(({ action }) => action.kind !== 'hang'),
    clients: clients.map((client) => withCaller(chance, client, several)),
    ...deletedMs !== null && { operator: [{ kind: 'delete', atMs: deletedMs }] },
    ...(lacks || accepting !== null) && {
      machines: Array.from({ length: gateways }, (_, each) => ({
        skewMs: 0,
        rate: 1,
        ...lacks && each === other && { lacks },
        ...accepting !== null && { variant: each === accepting ? 1 : 0 }
      }))
    },
    ...accepting !== null && { variants: [{}, { accepts: true }] }
  }
}

/** An acceptance that comes when another scheme claims, and somebody has asked elsewhere meanwhile. */
function acceptanceOvertaken (draft: Draft): Leaning {
  const { chance, gateways, claimWithinMs, longestLeaseMs } = draft
  const scheme = schemeDrawn(chance)
  const gateway = gatewayOf(draft)
  const trigger: Trigger = { kind: 'call', gateway, operation: 'accept', nth: 1, moment: 'call' }
  const everywhere = chance.hit(0.5)
  const asks = (startsAtMs: number, at: number, triesMax: number): SimulatedClient => ({
    key: 'k-0',
    scope: 'Bearer a',
    body: 'one',
    startsAtMs,
    gateway: at,
    roams: false,
    leavesAfterMs: [null, null],
    triesMax,
    retryMs: 100
  })
  const startsAtMs = longestLeaseMs + 100
  return {
    scheme,
    faults: [
      { trigger, action: switchFrom(chance, scheme, 0) },
      { trigger, action: { kind: 'message', fault: 'late', lateMs: chance.whole(claimWithinMs, LATE_MS_MAX) } }
    ],
    variants: [{}, { accepts: true }],
    machines: Array.from({ length: gateways }, (_, each) => ({ skewMs: 0, rate: 1, variant: everywhere || each === gateway ? 1 : 0 })),
    clients: [asks(startsAtMs, gateway, 1), asks(startsAtMs + chance.whole(50, 2_000), (gateway + 1) % gateways, 12)],
    poolMs: []
  }
}

/** When it matters: about a claim, a sending or a settle of this gateway, or at any time. */
function switching (draft: Draft, gateway: number): Trigger {
  const { chance, leaseMs, longestLeaseMs } = draft
  const operation = chance.weighted([
    [6, 'insert'],
    [3, 'send'],
    [3, 'settle'],
    [2, 'take'],
    [2, 'look'],
    [1, 'lock'],
    [1, 'accept'],
    [1, 'schemes'],
    [1, 'sweep']
  ])
  return chance.weighted<Trigger>([
    [7, { kind: 'call', gateway, operation, nth: chance.weighted([[4, 1], [2, 2], [1, 3]]), moment: chance.one(MOMENTS) }],
    [3, { kind: 'time', atMs: chance.whole(0, longestLeaseMs + 3 * leaseMs) }]
  ])
}

/** Pages of hops, before an answer or for good. */
function hops (draft: Draft): Leaning {
  const { chance } = draft
  return {
    faults: some(draft, 0, 1, () => at(draft, any(draft))),
    script: Array.from({ length: chance.whole(1, 3) }, () => pageOf(chance, chance.whole(1, 200)))
  }
}

export function operatorAct (chance: Chance): OperatorAct {
  return { kind: chance.weighted([[2, 'complete'], [1, 'consume'], [2, 'release'], [2, 'delete']]), atMs: chance.whole(100, 8_000) }
}
