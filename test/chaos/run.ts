/**
 * One chaos run: a world, its customers, and the seed's faults for a given time. Then all faults end, all customers ask once more, and
 * the run is judged. Returns the text to print, and prints nothing.
 */
import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { installAudit, readAudit, readRows, withClient } from './audit.ts'
import { counted, sorted } from './counts.ts'
import type { Counts } from './counts.ts'
import { Customers, HABITS } from './customers.ts'
import type { Habits } from './customers.ts'
import { BEGINNINGS, Identities, NEWEST, PREVIOUS_SECRET, prepareScheme, recordsByScheme, SECRET, USUAL } from './identities.ts'
import { DIFFERING_CARDS, DIFFERING_ROUTES, LONGEST_LEASE_MS, routeTextOf, variantOf, VARIANTS } from './differ.ts'
import { FAULT_KINDS, FAULTS } from './faults.ts'
import type { FaultKind } from './faults.ts'
import { Injector } from './injector.ts'
import { judge } from './judge.ts'
import type { Evidence, Found } from './judge.ts'
import { Ledger } from './ledger.ts'
import type { Wish } from './ledger.ts'
import { deleteSome, upgradeIds } from './operator.ts'
import { outagesOf } from './outages.ts'
import type { Outage } from './outages.ts'
import { planOf } from './plan.ts'
import type { PlannedFault } from './plan.ts'
import { PromiseWatch } from './promise.ts'
import { becomeQuiet } from './quiet.ts'
import type { Quiet } from './quiet.ts'
import { Random } from './random.ts'
import { configOf, configWith, upstreamsOf } from './routes.ts'
import type { Stamp } from './stamps.ts'
import { faultLine, loggedAbout, toldFrom } from './story.ts'
import { TOPOLOGIES } from './topologies/topologies.ts'
import type { Topology } from './topologies/topology.ts'
import type { TopologyName } from './topologies/topologies.ts'
import { inWorld } from './world.ts'
import type { Mode, World } from './world.ts'
import { readLines } from './witness.ts'
import type { Pace, WitnessLine } from './witness.ts'

export interface ChaosOptions {
  readonly seed: number
  /** Under faults. */
  readonly seconds: number
  readonly gateways: number
  /** Absent: plain, one Postgres and one Redis. */
  readonly topology?: TopologyName
  readonly emphasis?: Emphasis
  /** Gateways with different configurations, which change (differ.ts). */
  readonly differ?: boolean
  readonly broken?: string
}

/** What a run emphasises. Absent: nothing. */
export interface Emphasis {
  readonly cards?: Readonly<Partial<Record<FaultKind, number>>>
  /** Exactly these, instead of what the seed deals. */
  readonly plan?: readonly PlannedFault[]
  readonly habits?: Partial<Habits>
  readonly lengths?: Readonly<Partial<Record<FaultKind, readonly [leastMs: number, mostMs: number]>>>
  readonly pauseMs?: number
  readonly connections?: number
  readonly pace?: Pace
}

export interface ChaosResult {
  readonly seed: number
  readonly topology: TopologyName
  readonly seconds: number
  readonly gateways: number
  readonly faults: Counts
  readonly keys: number
  readonly requests: number
  readonly answers: Counts
  readonly worstAnswerMs: number
  /** Of the faults that only this topology has: how long no request was executed and stored. */
  readonly outages: readonly Outage[]
  /** How often a gateway's promise was compared with the settings of its database. */
  readonly promisesJudged: Counts
  readonly violations: readonly ShownViolation[]
  /** By the kind of answer: stored, replayed, in-flight … */
  readonly told: Counts
  /** Results of the gateways' probes, by the state that they wrote. */
  readonly probed: Counts
  readonly executions: number
  /** Mode drop: events that were executed again after an answer said that they are done, by route. */
  readonly doubled: Counts
  /** Records at the end, by the scheme of their ids. */
  readonly schemes: Counts
  /** Sendings of a process that had just resumed. */
  readonly excused: number
  /** Kinds of faults that this machine cannot have, and why. */
  readonly without: Readonly<Record<string, string>>
}

export interface ShownViolation extends Omit<Found, 'invariant'> {
  readonly invariant: Found['invariant'] | 'run'
  readonly seed: number
  readonly history: readonly string[]
}

const ENFORCE: Mode = { upstream: './witness-process.ts', configsOf: (config) => [configOf(config)], installAudit }
export const DIFFERING: Mode = {
  ...ENFORCE,
  configsOf: (config) => VARIANTS.map((_, number) => configWith(
    { ...config, secrets: { secret: SECRET, previousSecret: PREVIOUS_SECRET }, preserves: true },
    upstreamsOf(config),
    DIFFERING_ROUTES.map((route) => routeTextOf(route, number))
  ))
}
/** What every run is dealt, and more. */
const DIFFERING_DECK: NonNullable<Emphasis['cards']> = Object.fromEntries(FAULT_KINDS.map((kind) => [
  kind,
  DIFFERING_CARDS[kind] ?? FAULTS[kind].cards
]))
const PAUSE_MS = 650
const NARROW = 6

export async function runChaos (options: ChaosOptions): Promise<ChaosResult> {
  const { seed, gateways, topology = 'plain', emphasis = {}, differ = false, broken = null } = options
  const fillsDisk = emphasis.plan === undefined && (emphasis.cards === undefined || emphasis.cards['postgres-disk-full'] !== undefined)
  const beginning = new Random(seed).fork('beginning').pick(BEGINNINGS)
  const prepare: Mode['prepare'] = async (database) => withClient(database, async (client) => prepareScheme(client, beginning))
  const identities = differ ? new Identities([beginning, NEWEST], true) : new Identities([USUAL], false)
  return inWorld(
    {
      mode: differ ? { ...DIFFERING, prepare } : ENFORCE,
      seed,
      topology,
      gateways,
      broken,
      connections: emphasis.connections ?? NARROW,
      pace: emphasis.pace ?? 'usual',
      fillsDisk
    },
    async (world) => new Run(options, identities, world).run()
  )
}

class Run {
  readonly #options: ChaosOptions
  readonly #world: World
  readonly #identities: Identities
  readonly #ledger = new Ledger()
  readonly #customers: Customers
  readonly #injector: Injector
  readonly #promises: PromiseWatch
  readonly #random: Random

  constructor (options: ChaosOptions, identities: Identities, world: World) {
    this.#options = options
    this.#identities = identities
    this.#world = world
    this.#random = new Random(options.seed)
    const differs = options.differ === true
    const { habits: calmer = {} }: Topology = TOPOLOGIES[options.topology ?? 'plain']
    const habits = {
      ...HABITS,
      ...differs && { routes: Object.fromEntries(DIFFERING_ROUTES.map(({ name, weight }) => [name, weight])) },
      ...calmer,
      ...options.emphasis?.habits
    }
    this.#customers = new Customers(world.doors, this.#ledger, identities, this.#random.fork('customers'), habits)
    this.#promises = new PromiseWatch(world)
    this.#injector = new Injector({
      ...world,
      ...differs && { differ: { variantOf, deletes: async () => this.#deletes(), upgradesIds: async () => upgradeIds(world.operatorFile) } }
    })
  }

  async run (): Promise<ChaosResult> {
    const { seconds, gateways, emphasis = {}, differ = false } = this.#options
    const { cards = differ ? DIFFERING_DECK : undefined, lengths, pauseMs = PAUSE_MS } = emphasis
    const plan = emphasis.plan ??
      planOf(this.#random.fork('plan'), {
        seconds,
        gateways,
        pauseMs,
        without: this.#world.absent,
        ...cards === undefined ? {} : { cards },
        ...lengths === undefined ? {} : { lengths }
      })
    this.#promises.start()
    const coming = this.#customers.come()
    const startedAt = performance.now()
    await this.#injector.run(plan)
    // The last fault may end before the time does.
    await new Promise<void>((resolve) => { setTimeout(resolve, Math.max(0, seconds * 1000 - (performance.now() - startedAt))) })
    await this.#promises.stop()
    await this.#world.witness.hurry()
    await Promise.all([coming, this.#customers.closeUp()])
    const quiet = await this.#quiet(true)
    await this.#customers.askFinally(finalWishes(this.#ledger.wishes))
    const settled = await this.#quiet(false)
    const evidence = await this.#evidence({ claimed: [...quiet.claimed, ...settled.claimed], abandoned: quiet.abandoned })
    return this.#result(evidence)
  }

  /** Their customers ask again when the run says so. */
  async #deletes (): Promise<() => Promise<void>> {
    const deleted = new Set(
      (await deleteSome(this.#world.stores.database, this.#world.operatorFile)).map((id) => this.#identities.nameOf(id))
    )
    const wishes = finalWishes(this.#ledger.wishes.filter(({ record }) => deleted.has(record)))
    return async () => this.#customers.askFinally(wishes)
  }

  // -------------------------------------------------------------- what is left behind

  async #quiet (waits: boolean): Promise<Quiet> {
    const { stores, seats } = this.#world
    const alive = new Set(
      seats.map((seat) => seat.incarnations.at(-1)).filter((each) => each?.untilMs === null).map((each) => `${hostname()}-${each?.pid}`)
    )
    return becomeQuiet({
      database: stores.database,
      ...this.#options.differ === true && { leaseMs: LONGEST_LEASE_MS },
      stamps: async () => this.#stamps(),
      isAlive: (instance) => alive.has(instance),
      callsOf: (records) => this.#callsOf(records)
    }, waits)
  }

  async #stamps (): Promise<Stamp[]> {
    await this.#world.network.ask.flush()
    return readLines<Stamp>(this.#world.stampsFile)
  }

  /** By the ids that they have. */
  #callsOf (ids: readonly string[]): Map<string, Set<string>> {
    const names = new Set(ids.map((id) => this.#identities.nameOf(id)))
    const calls = new Map<string, Set<string>>()
    for (const event of this.#ledger.events) {
      if (event.kind !== 'asked' || !names.has(event.record)) continue
      const known = calls.get(event.record) ?? new Set()
      calls.set(event.record, known.add(event.call))
    }
    return new Map(ids.map((id) => [id, calls.get(this.#identities.nameOf(id)) ?? new Set()]))
  }

  async #evidence ({ claimed, abandoned }: Quiet): Promise<Evidence> {
    const { witness, witnessFile, stores, seats } = this.#world
    await this.#world.stopGateways()
    await witness.flush()
    const identities = this.#identities
    const audit = identities.named(await readAudit(stores.database))
    return {
      events: this.#ledger.events,
      witnessed: readLines<WitnessLine>(witnessFile).map((line) =>
        'record' in line ? { ...line, record: identities.nameOf(line.record) } : line),
      stamps: await this.#stamps(),
      audit,
      rows: identities.named(await readRows(stores.database)),
      claimed: identities.named(claimed),
      abandoned: identities.named(abandoned).filter((row) => !this.#mayHaveBeenLost(row, audit)),
      incarnations: new Map(seats.map(({ name, incarnations }) => [name, incarnations])),
      configured: new Map(seats.map(({ name, configured }) => [name, configured])),
      accepted: await this.#accepted(),
      gatewayOf: (call) => `gateway-${this.#ledger.doors.get(call) ?? 0}`,
      endedAtMs: Date.now()
    }
  }

  async #accepted (): Promise<Map<string, string[]>> {
    const { rows } = await withClient(
      this.#world.stores.database,
      async (client) => client.query<{ id: Buffer }>('select id from onceway.messages')
    )
    return Map.groupBy(rows.map(({ id }) => id.toString('base64url')), (id) => this.#identities.nameOf(id))
  }

  /** No process sees bytes that are sent into a connection at the moment of its cut. */
  #mayHaveBeenLost ({ record, attempt, instance }: Quiet['abandoned'][number], audit: Evidence['audit']): boolean {
    const claimedAtMs = audit.find((each) => each.record === record && each.attempt === attempt && each.state === 'claimed')?.atMs ?? 0
    const gateway = this.#world.seats.findIndex(({ incarnations }) => incarnations.some(({ pid }) => instance.endsWith(`-${pid}`)))
    return this.#injector.injected.some(({ kind, gateway: hit, fromMs, untilMs }) =>
      hit === gateway && UNSEEN.has(kind) && fromMs < claimedAtMs + UNSEEN_MS && (untilMs ?? Infinity) > claimedAtMs)
  }

  // -------------------------------------------------------------- what is said of it

  async #result (evidence: Evidence): Promise<ChaosResult> {
    const { seed, seconds, gateways, topology = 'plain' } = this.#options
    const { found, excused, executions, doubled, historyOf } = judge(evidence)
    const { own }: Topology = TOPOLOGIES[topology]
    const { judged, untrue } = this.#promises.judged(this.#injector.injected)
    const shown = found.map((each): ShownViolation => ({ ...each, seed, history: this.#story(each.record, historyOf(each.record)) }))
    return {
      seed,
      topology,
      seconds,
      gateways,
      faults: sorted(this.#injector.counts),
      keys: this.#customers.keys,
      requests: this.#ledger.requests,
      answers: sorted(this.#ledger.answers),
      worstAnswerMs: this.#ledger.worstAnswerMs,
      outages: outagesOf(this.#injector.injected.filter(({ kind }) => own.includes(kind)), evidence.events),
      promisesJudged: judged,
      violations: [...shown, ...this.#troubles(untrue)],
      told: sorted(this.#ledger.kinds),
      probed: counted(evidence.audit.filter(({ by }) => by === 'probe').map(({ state }) => state)),
      executions,
      doubled: sorted(doubled),
      schemes: sorted(await withClient(this.#world.stores.database, recordsByScheme)),
      excused,
      without: this.#world.without
    }
  }

  /** Errors beside the invariants: a process that ended by itself, an answer that no rule allows. */
  #troubles (untrue: readonly string[]): ShownViolation[] {
    const refused = this.#world.seats.flatMap(({ name, log }) => readFileSync(log, 'utf8')
      .split('\n')
      .filter((line) => line.includes('configuration not reloaded'))
      .slice(0, 1)
      .map((line) => `${name} did not take a configuration: ${line}`))
    const troubles = [...untrue, ...refused, ...this.#world.trouble, ...this.#injector.trouble, ...this.#ledger.strange]
    return troubles.map((detail) => ({ invariant: 'run', record: '', detail, seed: this.#options.seed, history: [] }))
  }

  /** All that is known of a record, with the gateways' log lines and the faults of that time. */
  #story (record: string, events: Evidence['events']): string[] {
    const fromMs = events[0]?.atMs ?? 0
    const lines = events.map((event) => ({
      atMs: event.atMs,
      text: `${event.kind.padEnd(8)} ${JSON.stringify({ ...event, kind: undefined, atMs: undefined })}${event.kind === 'asked' ? ` at gateway-${this.#ledger.doors.get(event.call)}` : ''}`
    }))
    const faults = this.#injector.injected.filter(({ fromMs: begun, untilMs: ended }) => events.some(({ atMs }) =>
      begun <= atMs && (ended ?? Infinity) >= atMs - FAULTS_BEFORE_MS))
    return toldFrom(fromMs, [
      ...lines,
      ...faults.map(faultLine),
      ...this.#identities.idsOf(record).flatMap((id) => loggedAbout(id, this.#world.seats))
    ])
  }
}

/** A fault that ended a moment ago may still have effects. */
const FAULTS_BEFORE_MS = 500
const UNSEEN: ReadonlySet<FaultKind> = new Set([
  'upstream-link-cut',
  'upstream-link-half-close',
  'upstream-link-black-hole',
  'upstream-refuse'
])
const UNSEEN_MS = 10_000

/** One of each. The first body counts. */
function finalWishes (wishes: readonly Wish[]): Wish[] {
  return Array.from(new Map(wishes.map((wish) => [wish.record, wish])).values())
}
