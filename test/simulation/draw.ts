/**
 * Draws a whole schedule from one seed. Each schedule has a theme that favours one kind of trouble, because faults spread evenly over a run
 * mostly hit nothing. Every theme still draws all other kinds. Schedules are small on purpose: few keys, clients and faults, so that many
 * can be run and a failure can be read.
 */
import type { IdempotencyPolicy, ProbePolicy } from '../../src/core/policy/policy.ts'
import { scriptOf, scriptUnder } from './behaviours.ts'
import { Chance } from './chance.ts'
import type { Fault, Machine, Schedule, SimulatedClient, Variant } from './schedule.ts'
import { schemeDrawn, switchFrom, withCaller } from './switches.ts'
import { operatorAct, THEMES, triggerOf } from './themes.ts'
import type { Draft } from './themes.ts'

/** Stream 0 of the seed draws the schedule; run.ts has others. */
export function scheduleOf (seed: number): Schedule {
  const chance = new Chance(seed)
  const gateways = chance.weighted([[25, 1], [55, 2], [20, 3]])
  const leaseMs = chance.weighted([[1, 1_000], [3, 1_500], [4, 2_000], [2, 3_000]])
  const upstreamTimeoutMs = chance.one([1_500, 2_500, 4_000, 9_000])
  const draft: Draft = {
    chance,
    gateways,
    leaseMs,
    longestLeaseMs: chance.hit(0.15) ? 2 * leaseMs : leaseMs,
    upstreamTimeoutMs,
    redis: !chance.hit(0.15),
    claimWithinMs: chance.one([500, 1_000, 2_000])
  }
  const theme = chance.weighted(THEMES)
  const { faults, operator = [], ...leaning } = theme.lean(draft)
  const { clients, switches, ...schemes } = schemesOf(seed, draft, clientsOf(draft, theme.name === 'amnesia'), theme.name === 'amnesia')
  const policy = policyOf(draft)
  const probed = probedPolicy(seed, policy, upstreamTimeoutMs)
  const drawn = variantsOf(draft, policy, theme.differs === true ? 1 : DIFFERING_SHARE, probed !== null)
  // An acceptance beside a gateway that executes is made under a claim (registration.ts), and so asks the lock in
  // Redis; nobody registers here.
  const variants = theme.name === 'amnesia' ? drawn.map(({ accepts: _, ...variant }: Variant): Variant => variant) : drawn
  return {
    seed,
    theme: theme.name,
    policy: probed ?? policy,
    variants,
    upstreamTimeoutMs,
    claimWithinMs: draft.claimWithinMs,
    copyTtlMs: chance.one([1_000, 4_000, 60_000]),
    longestLeaseMs: draft.longestLeaseMs,
    limits: {
      share: 1,
      executions: chance.hit(0.05) ? 1 : 100,
      waiters: chance.hit(0.05) ? 1 : 100,
      inFlightPerScope: 0,
      bufferedBytes: 1024 * 1024,
      unsettledBytes: chance.hit(0.1) ? 1 : 64 * 1024,
      recentBytes: 32 * 1024 * 1024
    },
    redis: draft.redis,
    machines: Array.from({ length: gateways }, () => ({ ...machineOf(chance), variant: chance.whole(0, variants.length - 1) })),
    network: networkOf(draft),
    ...schemes,
    clients,
    lagMaxMs: leaseMs + Math.round(upstreamTimeoutMs * LAG_SHARE),
    poolMs: Array.from({ length: 3 }, () => chance.weighted([
      [8, 0],
      [1, chance.whole(1, leaseMs)],
      [1, chance.whole(leaseMs, 2 * leaseMs)]
    ])),
    operator: operator.length > 0 || !chance.hit(0.08) ? operator : [operatorAct(chance)],
    ...leaning,
    // What an inbox has acknowledged is not done again here: another arbiter would have lost it.
    faults: [
      ...variants.some(({ accepts }) => accepts) ? faults.map(withoutLoss) : faults,
      ...leaning.scheme === undefined ? switches : []
    ],
    script: scriptUnder(leaning.script ?? scriptOf(draft), probed ?? policy, upstreamTimeoutMs)
  }
}

function policyOf ({ chance, leaseMs, upstreamTimeoutMs }: Draft): Schedule['policy'] {
  const profile: IdempotencyPolicy['profile'] = chance.hit(0.2) ? 'relay' : 'api'
  const unknownMinMs = Math.max(2 * leaseMs, upstreamTimeoutMs + leaseMs)
  return {
    profile,
    leaseMs,
    unknown: chance.hit(0.5) ? 'hold' : 'retry',
    answerWithinMs: chance.one([300, 1_000, 3_000, 6_000]),
    inFlight: { waitMs: chance.weighted([[4, 0], [2, 400], [3, 2_500]]), status: 409 },
    retentionMs: chance.weighted([[1, 2 * leaseMs], [1, chance.whole(2 * leaseMs, 4 * leaseMs)], [6, 120_000]]),
    unknownRetentionMs: chance.weighted([[1, unknownMinMs], [5, 300_000]]),
    onMismatch: { action: chance.hit(0.15) ? 'replay' : 'reject', status: 422 }
  }
}

/** Of all other themes: gateways that run with different configurations. */
const DIFFERING_SHARE = 0.05
/** A lease that is raised by more than two makes memories that would outlive a delete. */
const LEASES_OF_A_LEASE = [1, 1, 2, 4] as const

/** Of those: some accept what others execute. */
const ACCEPTING_SHARE = 0.35

/** What a fingerprint is made of; every one of them tells the bodies of the simulated clients apart. */
const FINGERPRINTS: ReadonlyArray<NonNullable<Variant['fingerprint']>> = [
  { of: ['method', 'target', 'mediaType', 'body'], body: 'auto' },
  { of: ['method', 'target', 'body'], body: 'auto' },
  { of: ['target', 'body'], body: 'bytes' },
  { of: ['body'], body: 'json' }
]

/** `probed`: what is not known is asked for under every configuration. */
function variantsOf ({ chance, leaseMs }: Draft, policy: Schedule['policy'], share: number, probed: boolean): Variant[] {
  if (!chance.hit(share)) return [{}]
  const accepts = !probed && chance.hit(ACCEPTING_SHARE)
  return [{}, ...Array.from({ length: chance.whole(1, 2) }, (): Variant => {
    const longerMs = leaseMs * chance.one(LEASES_OF_A_LEASE)
    return {
      leaseMs: longerMs,
      retentionMs: Math.max(policy.retentionMs, 2 * longerMs),
      fingerprint: chance.one(FINGERPRINTS),
      answerWithinMs: chance.one([300, 3_000]),
      ...accepts && chance.hit(0.7) && { accepts },
      ...!probed && chance.hit(0.3) && { unknown: chance.one(['hold', 'retry'] as const) }
    }
  })]
}

function withoutLoss (fault: Fault): Fault {
  return fault.action.kind === 'hang' ? { ...fault, action: { ...fault.action, promoted: false } } : fault
}

/** Stream of a seed that says who asks: what is drawn otherwise stays as it is. */
const PROBE_STREAM = 3
const PROBED_SHARE = 0.3
/** Of confirmAfter: how far the copies of the upstream's books may lag behind, on top of a lease. */
const LAG_SHARE = 0.9

/** Beyond the end of every run: what is never asked about stays there to be seen. */
const UNKNOWN_KEPT_MS = 3_600_000

/** null: nobody asks the upstream what became of a request. */
function probedPolicy (seed: number, policy: Schedule['policy'], upstreamTimeoutMs: number): Schedule['policy'] | null {
  const chance = new Chance(seed, PROBE_STREAM)
  if (!chance.hit(PROBED_SHARE)) return null
  const confirmAfterMs = upstreamTimeoutMs
  const probe: ProbePolicy = {
    method: 'GET',
    path: [{ kind: 'text', text: '/lookup/' }, { kind: 'record' }],
    headers: [],
    timeoutMs: 500,
    found: { statuses: [200], adopt: null, replayStatus: 201 },
    notFound: [404],
    notFoundMarks: [],
    confirmAfterMs,
    intervalMs: chance.one([100, 1_000]),
    giveUpAfterMs: 3_600_000
  }
  return {
    ...policy,
    unknown: 'probe',
    probe,
    unknownRetentionMs: Math.max(UNKNOWN_KEPT_MS, upstreamTimeoutMs + policy.leaseMs + confirmAfterMs)
  }
}

/** Whole days off; a crystal's error, and some. */
function machineOf (chance: Chance): Machine {
  return {
    skewMs: chance.weighted([[2, 0], [2, chance.whole(-5_000, 5_000)], [1, chance.whole(-86_400_000, 86_400_000)]]),
    rate: chance.hit(0.5) ? 1 : 1 + (chance.unit() - 0.5) / 250
  }
}

function networkOf ({ chance, leaseMs }: Draft): Schedule['network'] {
  return {
    baseMs: chance.one([0.2, 1, 3]),
    jitterMs: chance.one([0.5, 2, 10]),
    slow: { share: chance.hit(0.2) ? 0.05 : 0, ms: chance.one([100, 400]) },
    lossShare: chance.hit(0.1) ? 0.03 : 0,
    wireMs: chance.hit(0.3) ? leaseMs / 12 : 0
  }
}

// ---------------------------------------------------------------- schemes

/** Stream of a seed that says by which scheme ids are made, who asks and where: what is drawn otherwise stays as it is. */
const SCHEME_STREAM = 5
/** Of all other themes: the scheme is switched at some time. */
const SWITCHED_SHARE = 0.08
const SWITCHED_AND_FORGOTTEN_SHARE = 0.4
const LOST_SHARE = 0.1
/** Callers, and hosts, that the first rules take for one. */
const SEVERAL_SHARE = 0.25
const HOSTS_SHARE = 0.2

/** `alone`: one record. */
function schemesOf (
  seed: number,
  draft: Draft,
  clients: readonly SimulatedClient[],
  alone: boolean
): Pick<Schedule, 'scheme' | 'host' | 'clients'> & { readonly switches: readonly Fault[] } {
  const chance = new Chance(seed, SCHEME_STREAM)
  const scheme = schemeDrawn(chance)
  const host = chance.hit(HOSTS_SHARE) ? 'preserve' : 'upstream'
  const several = chance.hit(SEVERAL_SHARE) && !alone
  const switches = chance.hit(alone ? SWITCHED_AND_FORGOTTEN_SHARE : SWITCHED_SHARE)
    ? [{ trigger: triggerOf({ ...draft, chance }), action: switchFrom(chance, scheme, LOST_SHARE) }]
    : []
  return {
    scheme,
    host,
    clients: several || (host === 'preserve' && !alone) ? clients.map((client) => withCaller(chance, client, several)) : clients,
    switches
  }
}

// ---------------------------------------------------------------- clients

/** `alone`: one record. */
function clientsOf ({ chance, gateways, leaseMs, longestLeaseMs }: Draft, alone: boolean): SimulatedClient[] {
  const keys = alone ? 1 : chance.weighted([[6, 1], [2, 2], [1, 3]])
  // Before anybody may lapse anything, and after (E2b).
  const fromMs = chance.hit(0.5) ? longestLeaseMs + 100 : 0
  const spreadMs = chance.one([5, 100, leaseMs, 4 * leaseMs])
  return Array.from({ length: chance.whole(keys, 5) }, (_, index) => ({
    key: `k-${index % keys}`,
    scope: !alone && chance.hit(0.1) ? 'Bearer b' : 'Bearer a',
    body: chance.hit(0.12) ? 'two' : 'one',
    startsAtMs: fromMs + (index === 0 || chance.hit(0.15) ? 0 : Math.round(chance.unit() * spreadMs)),
    gateway: chance.whole(0, gateways - 1),
    roams: chance.hit(0.6),
    leavesAfterMs: [
      chance.hit(0.25) ? chance.weighted([[3, chance.whole(1, 150)], [1, chance.whole(150, 4_000)]]) : null,
      chance.hit(0.1) ? chance.whole(50, 4_000) : null
    ],
    triesMax: chance.weighted([[1, 1], [2, 4], [6, 12]]),
    retryMs: chance.one([50, 300, 1_000])
  }))
}
