/**
 * Runs one schedule: gateways on simulated machines, clients, an operator, and faults. Then comes a calm in which everything must end. It
 * returns the history and what it reached. judge.ts judges it. The same schedule gives the same run, event by event.
 */
import { heartbeat } from '../../src/background/heartbeat.ts'
import { reconciler } from '../../src/background/reconciler.ts'
import { sweeper } from '../../src/background/sweeper.ts'
import type { GuardedRoute } from '../../src/core/policy/policy.ts'
import type { Answer, Claim } from '../../src/core/record/record.ts'
import type { Scheme } from '../../src/core/record/schemes.ts'
import { Gateway } from '../../src/gateway/gateway.ts'
import { MODES } from '../../src/process/modes.ts'
import { inboxRoutes, probedRoutes } from '../../src/gateway/shared/deps.ts'
import type { Deps } from '../../src/gateway/shared/deps.ts'
import type { Lapsed, LapseOrder, RecordStore } from '../../src/ports/records.ts'
import type { LogFields } from '../../src/ports/telemetry.ts'
import { NO_SUBSCRIPTIONS } from '../../src/store/shared/inbox-subscriptions.ts'
import { NO_LOCKS } from '../../src/store/shared/no-locks.ts'
import { RouteMarks } from '../../src/store/route-marks.ts'
import { MemoryCounts } from '../../src/store/memory/counts.ts'
import { NO_REGISTRY } from '../../src/store/shared/no-registry.ts'
import { SimulatedUpstream } from '../crash/outside.ts'
import type { Behaviour } from '../crash/outside.ts'
import { nameOf, printOfSettled, watched } from '../crash/watched.ts'
import { inboxPolicy } from '../gateway/inbox/inbox-world.ts'
import { guardedRoute } from '../harness/gateway.ts'
import type { History, HistoryEvent, Told } from '../harness/history.ts'
import { Timeline } from '../harness/timeline.ts'
import { carriedBy, SimulatedArbiter } from './arbiter.ts'
import type { Believed } from './arbiter.ts'
import { Books } from './books.ts'
import { Chance } from './chance.ts'
import { Clients, isFinal, staysUnknown } from './clients.ts'
import type { Seat } from './clients.ts'
import { Director } from './director.ts'
import { Faults } from './faults.ts'
import { HistoryKeeper } from './history-keeper.ts'
import { Living } from './living.ts'
import { Network } from './network.ts'
import { Operator } from './operator.ts'
import { BACKGROUND_PATIENCE_MS, patienceMsOf, rulesOf } from './patience.ts'
import { SimulatedProcess } from './process.ts'
import { Reach } from './reach.ts'
import type { Schedule, SchemeKind, SimulatedClient } from './schedule.ts'
import { Identities, nameOfScheme, schemesOf, secretsOf } from './schemes.ts'
import { SimulatedRedis } from './stores.ts'

export interface Run {
  readonly history: History
  /** Executions that the upstream has really done. */
  readonly done: ReadonlySet<number>
  readonly reach: Reach
  /** Records whose key is a message's. */
  readonly accepted: ReadonlySet<string>
  /** Calls that were answered by who could not reach the arbiter. */
  readonly cutOff: ReadonlySet<string>
  /** Whose request is found under which ids, and whose call it was. */
  readonly identities: Identities
  readonly clientOf: (call: string) => SimulatedClient
  /** Who lived and lost his lease all the same (E2b). */
  readonly wronged: readonly string[]
  /** What is wrong and no invariant's affair: clients without an end, errors that nobody caught. */
  readonly trouble: readonly string[]
}

export async function play (schedule: Schedule): Promise<Run> {
  return new Simulation(schedule).run()
}

type Configured = Pick<Deps, 'longestLeaseMs' | 'probed' | 'inboxes'>

/** Streams of one seed: what one of them draws more does not change the others. */
const NETWORK_STREAM = 1
const CLIENT_STREAM = 2
const BOOKS_STREAM = 4
const PROCESS_STREAM = 10
/** No client of any schedule asks for longer. */
const CLIENTS_END_MS = 400_000
/** What follows the last answer, faults and all. */
const AFTERWARDS_MS = 1_500
/** Between two tries to reach the arbiter at start. */
const MEETS_AGAIN_MS = 1_000
/** Between two looks whether all is over. */
const LOOK_MS = 500
/** Settle time on top of the upstream's (E2). */
const HARD_END_MS = 20_000
/** A question that has waited longest comes after five minutes; then the two that free a key. */
const ASKED_WITHIN_MS = 400_000
const QUICK: Behaviour = { kind: 'answer', status: 201, means: 'keep', afterMs: 5 }

class Simulation {
  readonly #schedule: Schedule
  readonly #timeline = new Timeline()
  readonly #keeper = new HistoryKeeper()
  readonly #trouble: string[] = []
  readonly #reach: Reach
  /** One for each configuration. */
  readonly #routes: readonly GuardedRoute[]
  readonly #route: GuardedRoute
  /** By call: the route that it was taken by. */
  readonly #taken = new Map<string, GuardedRoute>()
  readonly #network: Network
  readonly #director: Director
  readonly #arbiter: SimulatedArbiter
  /** Who claimed which record last, and which were settled since (watched.ts). */
  readonly #owners = new Map<string, Claim>()
  readonly #settled = new Set<string>()
  readonly #records: RecordStore
  readonly #living: Living
  readonly #faults: Faults
  readonly #redis: SimulatedRedis
  readonly #upstream: SimulatedUpstream
  readonly #books: Books
  readonly #clients: Clients
  readonly #seats: Seat[] = []
  /** Of each gateway: the configuration that its next process starts with. */
  readonly #variants: number[]
  /** Those that have no secret but that of the first scheme. */
  readonly #lacking: Set<number>
  readonly #schemes: readonly SchemeKind[]
  readonly #identities: Identities
  readonly #wronged: string[] = []
  #calm = false
  #processes = 0
  #dispatches = 0
  #operators = 0

  constructor (schedule: Schedule) {
    const { seed, policy, host, upstreamTimeoutMs, variants, faults, machines, clients } = schedule
    this.#schedule = schedule
    this.#variants = machines.map(({ variant }) => variant ?? 0)
    this.#lacking = new Set(machines.flatMap(({ lacks = false }, number) => lacks ? [number] : []))
    this.#schemes = schemesOf(schedule)
    this.#reach = new Reach(policy.leaseMs, (fields) => { this.#trouble.push(JSON.stringify(fields)) })
    this.#routes = variants.map(({ accepts = false, ...variant }) => guardedRoute(
      'http://upstream.test',
      { ...policy, ...variant, ...accepts && { inbox: inboxPolicy(), inboxFor: 'all' as const } },
      { timeoutMs: upstreamTimeoutMs, host }
    ))
    this.#route = this.#routes[0] as GuardedRoute
    this.#identities = new Identities(this.#route, this.#schemes)
    for (const client of clients) this.#identities.of(client)
    this.#network = new Network(schedule.network, new Chance(seed, NETWORK_STREAM), this.#timeline)
    this.#director = new Director(faults, (action) => { this.#faults.act(action) })
    this.#arbiter = new SimulatedArbiter({
      timeline: this.#timeline,
      steps: faults.some(({ action }) => action.kind === 'step' && action.byMs > 0),
      promoted: faults.some(({ action }) => action.kind === 'hang' && action.promoted),
      scheme: nameOfScheme(schedule.scheme),
      switched: (scheme) => { this.#switched(scheme) },
      doubtful: () => this.#doubtful()
    })
    this.#living = new Living(schedule, this.#timeline, this.#seats)
    const records = watched(this.#arbiter.records, this.#owners, this.#keeper.note, () => this.#timeline.nowMs, this.#settled)
    this.#records = { ...records, lapse: async (order) => this.#lapse(records, order) }
    this.#redis = new SimulatedRedis(this.#timeline)
    this.#books = new Books({
      chance: new Chance(seed, BOOKS_STREAM),
      lagMaxMs: schedule.lagMaxMs,
      workMaxMs: upstreamTimeoutMs,
      begunAtMs: (record) => this.#begunAtMs(record)
    })
    this.#upstream = new SimulatedUpstream(this.#timeline, this.#keeper.note, (turn) => this.#behaviour(turn), this.#books)
    this.#clients = new Clients({
      timeline: this.#timeline,
      chance: new Chance(seed, CLIENT_STREAM),
      keeper: this.#keeper,
      reach: this.#reach,
      route: this.#route,
      routes: this.#taken,
      seats: this.#seats,
      identities: this.#identities,
      trouble: this.#trouble,
      reachesArbiter: (gateway) => this.#network.blocked(gateway, 'records') === null
    })
    this.#faults = new Faults({
      timeline: this.#timeline,
      reach: this.#reach,
      network: this.#network,
      arbiter: this.#arbiter,
      redis: this.#redis,
      keeper: this.#keeper,
      living: this.#living,
      trouble: this.#trouble,
      seats: this.#seats,
      variants: this.#variants,
      lacking: this.#lacking,
      calm: () => this.#calm,
      configurations: variants.length,
      start: (number) => this.#start(number)
    })
  }

  async run (): Promise<Run> {
    const { machines, clients, faults, operator } = this.#schedule
    machines.forEach((_, number) => { this.#seats[number] = this.#start(number) })
    await this.#timeline.pass(() => this.#seats.every(({ serves }) => serves), MEETS_AGAIN_MS)
    for (const { trigger, action } of faults) {
      if (trigger.kind === 'time') this.#timeline.after(trigger.atMs, () => { if (!this.#calm) this.#faults.act(action) })
    }
    const operating = this.#operator()
    for (const act of operator) {
      this.#operators++
      void operating.act(act).finally(() => { this.#operators-- })
    }
    await this.#clients.serve(clients, CLIENTS_END_MS)
    await this.#timeline.pass(() => false, AFTERWARDS_MS)
    this.#calm = true
    this.#books.calm = true
    this.#network.heal()
    this.#director.end()
    for (const gateway of this.#seats.keys()) this.#faults.act({ kind: 'secrets', gateway })
    await this.#settleDown()
    await this.#askOnceMore()
    const rows = await this.#rows()
    const accepted = new Set((await this.#arbiter.inbox.list({ limit: 100 })).map(({ id }) => nameOf(id)))
    for (const { process } of this.#seats) process.die()
    this.#keeper.end(this.#timeline.nowMs)
    const history = this.#history(rows)
    this.#reach.read(history.events, this.#identities, (call) => this.#clients.clientOf(call))
    const { done } = this.#books
    return {
      history,
      done,
      accepted,
      cutOff: this.#clients.cutOff,
      identities: this.#identities,
      clientOf: (call) => this.#clients.clientOf(call),
      reach: this.#reach,
      wronged: this.#wronged,
      trouble: this.#trouble
    }
  }

  #behaviour (turn: number): Behaviour {
    const behaviour = this.#calm ? QUICK : this.#schedule.script[turn - 1] ?? QUICK
    if (behaviour.kind === 'page') this.#reach.turns.add('page of a hop')
    return behaviour
  }

  // -------------------------------------------------------------- processes

  #start (number: number): Seat {
    const { machines, seed, redis, claimWithinMs, copyTtlMs, limits } = this.#schedule
    const machine = machines[number]
    if (machine === undefined) throw new RangeError(`there is no machine ${number}`)
    const name = `gateway-${number}-${++this.#processes}`
    const clock: { believedMs: Believed } = { believedMs: () => null }
    const process = new SimulatedProcess({
      name,
      gateway: number,
      machine,
      originMs: this.#processes * 1_000_000,
      timeline: this.#timeline,
      chance: new Chance(seed, PROCESS_STREAM + this.#processes),
      network: this.#network,
      director: this.#director,
      records: carriedBy(this.#arbiter, this.#records, () => clock.believedMs()),
      hangs: () => this.#arbiter.hampered,
      locks: redis ? this.#redis : NO_LOCKS,
      inbox: this.#arbiter.inboxOf(() => clock.believedMs()),
      upstream: this.#upstream,
      poolMs: () => this.#calm ? 0 : this.#schedule.poolMs[this.#dispatches++] ?? 0,
      patienceMs: (port, operation) => patienceMsOf(this.#schedule, port, operation),
      watcher: this.#reach
    })
    const seat = this.#seatOf(process, this.#variants[number] ?? 0, {
      secrets: this.#secretsOf(number),
      wakes: NO_SUBSCRIPTIONS,
      registry: NO_REGISTRY,
      counts: new MemoryCounts(() => 0),
      marks: new RouteMarks(() => 0, false),
      tokens: { verify: async () => ({ kind: 'invalid', fault: 'malformed' }) },
      meter: this.#reach.meter,
      log: { ...this.#reach.log, warn: (fields, message) => { this.#warned(fields, message) } },
      deliveryLog: { note: () => {} },
      limits,
      claimWithinMs,
      copyTtlMs
    })
    clock.believedMs = seat.gateway.arbiterClock.believedMs
    void this.#meet(seat)
    return seat
  }

  #seatOf (
    process: SimulatedProcess,
    variant: number,
    fixed: Omit<Deps, 'records' | 'locks' | 'inbox' | 'upstream' | 'clock' | 'random' | 'instance' | keyof Configured>
  ): Seat {
    const { policy, redis, variants, theme } = this.#schedule
    const { records, inbox, upstream, clock, random } = process
    const shortestLeaseMs = Math.min(...variants.map(({ leaseMs }) => leaseMs ?? policy.leaseMs))
    const gateway = new Gateway(
      {
        ...fixed,
        ...this.#configured(variant),
        records,
        inbox,
        locks: redis ? process.locks : NO_LOCKS,
        upstream,
        clock,
        random,
        instance: process.name
      },
      MODES,
      shortestLeaseMs
    )
    gateway.rowsMayVanish = theme === 'amnesia'
    const seat: Seat = {
      process,
      gateway,
      route: this.#routeOf(variant),
      serves: false,
      become: (next) => {
        gateway.reconfigure({ ...this.#configured(next), secrets: this.#secretsOf(process.gateway), limits: fixed.limits })
        seat.route = this.#routeOf(next)
      }
    }
    return seat
  }

  /** As stores.ts: it reads the arbiter's clock before it serves anybody. */
  async #meet (seat: Seat): Promise<void> {
    const { gateway, process } = seat
    while (process.alive && !seat.serves) {
      try {
        await gateway.arbiterClock.beat(process.records)
        await gateway.ids.refresh()
        seat.serves = true
        // As far as it was told there is nothing wrong with the time: it may be the first to find it so (docs/concepts/guarantees.md).
        if (this.#arbiter.stepped && gateway.arbiterClock.aheadMs === 0) this.#reach.turns.add('clock stepped, and nobody knew')
      } catch {
        await this.#timeline.sleep(MEETS_AGAIN_MS)
      }
    }
    if (process.alive) for (const service of [heartbeat, sweeper, reconciler]) service(gateway).start()
  }

  /** Who has found it so has died before it was everybody's word (docs/concepts/guarantees.md). */
  #warned (fields: LogFields, message: string): void {
    this.#reach.log.warn(fields, message)
    if (this.#arbiter.stepped && message.startsWith('nobody finds the clock of the store ahead any more')) {
      this.#reach.turns.add('clock stepped, and nobody knew')
    }
  }

  #routeOf (variant: number): GuardedRoute {
    return this.#routes[variant] ?? this.#route
  }

  /** What a configuration says to a process: it knows of no other one. */
  #configured (variant: number): Configured {
    const { longestLeaseMs, policy } = this.#schedule
    const route = this.#routeOf(variant)
    return {
      longestLeaseMs: longestLeaseMs - policy.leaseMs + route.idempotency.leaseMs,
      probed: probedRoutes([route]),
      inboxes: inboxRoutes([route])
    }
  }

  #secretsOf (gateway: number): Buffer[] {
    return secretsOf(this.#lacking.has(gateway) ? this.#schemes.slice(0, 1) : this.#schemes)
  }

  #switched ({ number, name }: Scheme): void {
    this.#reach.turns.add('scheme switched')
    this.#keeper.note({ kind: 'switched', atMs: this.#timeline.nowMs, number, to: name })
  }

  async #lapse (records: RecordStore, order: LapseOrder): Promise<Lapsed[]> {
    const lapsed = await records.lapse(order)
    this.#wronged.push(...this.#living.wronged(lapsed))
    return lapsed
  }

  /** What is written from now on may never have been: then the history is as it was, but for what was said and sent. */
  #doubtful (): () => void {
    const neverWas = this.#keeper.doubtful()
    const [owners, settled] = [new Map(this.#owners), new Set(this.#settled)]
    return () => {
      neverWas()
      this.#owners.clear()
      this.#settled.clear()
      for (const [record, claim] of owners) this.#owners.set(record, claim)
      for (const record of settled) this.#settled.add(record)
    }
  }

  // -------------------------------------------------------------- the operator

  #operator (): Operator {
    return new Operator({
      timeline: this.#timeline,
      records: this.#arbiter.records,
      hampered: () => this.#arbiter.hampered,
      locks: this.#schedule.redis ? this.#redis : NO_LOCKS,
      route: this.#route,
      keeper: this.#keeper,
      answered: (record) => this.#inTheBooks(record)
    })
  }

  #begunAtMs (record: string): number {
    return this.#keeper.events.findLast((event) => event.kind === 'claimed' && event.record === record && event.attempt === 1)?.atMs ?? 0
  }

  /** The answer to what was sent under its last claim, if it is one to keep. */
  #inTheBooks (record: string): Answer | null {
    const { events } = this.#keeper
    const last = events.findLast((event) => (event.kind === 'sent' || event.kind === 'claimed') && event.record === record)
    const sent = last?.kind === 'sent' ? last : null
    const replied = events.find((event) => event.kind === 'replied' && event.execution === sent?.execution && event.means === 'keep')
    return replied?.kind === 'replied' ? this.#upstream.answers.get(replied.execution) ?? null : null
  }

  // -------------------------------------------------------------- the end

  /** Until nobody is stopped or away, nothing is executed and nothing is claimed, and every lock has ended since. */
  async #settleDown (): Promise<void> {
    const { policy, variants, faults, longestLeaseMs, upstreamTimeoutMs } = this.#schedule
    const leaseMs = Math.max(policy.leaseMs, ...variants.map((variant) => variant.leaseMs ?? 0))
    // A clock that was set back lets every lease last so much longer.
    const backMs = faults.reduce((sum, { action }) => action.kind === 'step' ? sum + Math.max(0, -action.byMs) : sum, 0)
    await this.#timeline.pass(() =>
      !this.#arbiter.hampered &&
      this.#seats.every(({ process, gateway, serves }) => process.alive && serves && !process.stopped && !gateway.drain.refusing) &&
      this.#operators === 0, CLIENTS_END_MS)
    this.#confirmTime()
    await this.#timeline.pass(() => false, backMs + leaseMs + LOOK_MS + this.#network.lateMs())
    const endsAtMs = this.#timeline.nowMs + upstreamTimeoutMs + HARD_END_MS + BACKGROUND_PATIENCE_MS + leaseMs +
      2 * longestLeaseMs + (this.#route.idempotency.unknown === 'probe' ? ASKED_WITHIN_MS : 0)
    while (this.#timeline.nowMs < endsAtMs && (await this.#isBusy())) await this.#timeline.pass(() => false, LOOK_MS)
  }

  /** By the operator's word all that was kept before the clock stepped may end. */
  #confirmTime (): void {
    const { faults } = this.#schedule
    if (!faults.some(({ action }) => action.kind === 'step' && action.byMs > 0)) return
    this.#arbiter.confirmTime()
    for (const record of this.#keeper.latest.keys()) this.#keeper.note({ kind: 'deleted', atMs: this.#timeline.nowMs, record, early: true })
  }

  async #isBusy (): Promise<boolean> {
    const asks = this.#route.idempotency.unknown === 'probe'
    return this.#seats.some(({ gateway }) =>
      gateway.executions.size > 0 || gateway.limits.unsettled.held > 0 || gateway.writes.settlingCopies > 0) ||
      (await this.#rows()).some(({ state, past }) => state === 'claimed' || (asks && state === 'indeterminate' && !past))
  }

  /** One of each request, one after another: all must get something final now. */
  async #askOnceMore (): Promise<void> {
    const { clients } = this.#schedule
    const distinct = new Map(clients.map((client) => [`${this.#identities.of(client).name} ${client.body}`, client]))
    for (const [name, client] of distinct) {
      let told: Told | null | undefined
      void this.#clients.ask(client, client.gateway, null).then((answer) => { told = answer })
      await this.#timeline.pass(() => told !== undefined, CLIENTS_END_MS)
      // What this one locked is unlocked behind it.
      await this.#timeline.pass(() => false, LOOK_MS)
      const { route } = this.#seats[client.gateway] as Seat
      const fine = told !== undefined &&
        (isFinal(told) || (told?.kind === 'unknown' && (staysUnknown(route) || this.#isLost() || this.#isOfAcceptance(client))))
      if (!fine) this.#trouble.push(`when all was over, ${name} was told ${told?.kind ?? 'nothing'}`)
    }
  }

  async #rows (): Promise<NonNullable<History['rows']>> {
    const details = await this.#arbiter.records.list({ limit: 100 })
    return details.map((row) => ({ record: nameOf(row.id), state: row.state, past: row.past, print: printOfSettled(row) }))
  }

  /** What was executed under a secret that is lost is of an unknown outcome to whoever asks the same. */
  #isLost (): boolean {
    return this.#schedule.faults.some(({ action }) => action.kind === 'switch' && action.isLost)
  }

  /**
   * Its gateway died before the message: nothing was sent, and there is nothing that the upstream could be asked
   * (docs/guides/accept-now-deliver-later.md).
   */
  #isOfAcceptance (client: SimulatedClient): boolean {
    if (!this.#schedule.variants.some(({ accepts }) => accepts === true)) return false
    const { records } = this.#identities.of(client)
    const { events } = this.#keeper
    const last = events.findLast((event) => event.kind === 'settled' && records.includes(event.record))
    return last?.kind === 'settled' &&
      last.by === 'lease' &&
      !events.some((event) => event.kind === 'sent' && event.record === last.record && event.attempt === last.attempt)
  }

  /** Whose call it was, and which record's, in the words of the scheme by which it was answered. */
  #identified (event: HistoryEvent): HistoryEvent {
    if (event.kind === 'sent') return { ...event, scope: this.#identities.scopeIn(event.record, event.scope) }
    if (event.kind !== 'asked') return event
    const client = this.#clients.clientOf(event.call)
    const record = this.#clients.recordOf(event.call) ?? this.#identities.of(client).records[0] ?? ''
    return { ...event, record, scope: this.#identities.scopeIn(record, this.#identities.callerOf(client)) }
  }

  #history (rows: History['rows']): History {
    const rules = rulesOf(this.#schedule, this.#route)
    return {
      events: this.#keeper.events.map((event) => this.#identified(event)),
      rows,
      endedAtMs: this.#timeline.nowMs,
      rulesOf: () => rules,
      unknownOf: (call) => (this.#taken.get(call) ?? this.#route).idempotency.unknown
    }
  }
}
