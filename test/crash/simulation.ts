/**
 * One run of one case: gateways on wired ports, and the clients of a scenario, which retry until they have a final answer.
 * A process gets its fault at the planned call. If it dies, another starts in its place.
 * Returns the history, and judges nothing. The same case gives the same run, call by call.
 */
import { heartbeat } from '../../src/background/heartbeat.ts'
import { sweeper } from '../../src/background/sweeper.ts'
import { recordId } from '../../src/core/record/record-id.ts'
import type { Claim } from '../../src/core/record/record.ts'
import { scopeOf } from '../../src/core/scope/scope.ts'
import { callerWith, FIRST_RULES } from '../harness/caller.ts'
import type { GuardedRoute } from '../../src/core/policy/policy.ts'
import { Gateway } from '../../src/gateway/gateway.ts'
import { MODES } from '../../src/process/modes.ts'
import { handle } from '../harness/handled.ts'
import type { LockStore } from '../../src/ports/locks.ts'
import type { RecordStore } from '../../src/ports/records.ts'
import { NO_SUBSCRIPTIONS } from '../../src/store/shared/inbox-subscriptions.ts'
import { MemoryCounts } from '../../src/store/memory/counts.ts'
import { MemoryInbox } from '../../src/store/memory/inbox.ts'
import { MemoryLocks } from '../../src/store/memory/locks.ts'
import { NO_REGISTRY } from '../../src/store/shared/no-registry.ts'
import { RouteMarks } from '../../src/store/route-marks.ts'
import { NO_LOCKS } from '../../src/store/shared/no-locks.ts'
import { CrashingProcess, NO_FAULT } from '../harness/crashing.ts'
import type { Call, Fault, Plan } from '../harness/crashing.ts'
import { countingMeter, guardedRoute, recordingLog } from '../harness/gateway.ts'
import type { History, HistoryEvent, Told } from '../harness/history.ts'
import { Timeline } from '../harness/timeline.ts'
import { durableOf } from './durable.ts'
import type { Durable, StoreKind } from './durable.ts'
import { headersOf, requestOf, SimulatedUpstream, toldBy } from './outside.ts'
import type { Client } from './outside.ts'
import { LEASE_MS, UPSTREAM_TIMEOUT_MS } from './scenarios.ts'
import type { Scenario } from './scenarios.ts'
import { lapseOf, nameOf, printOfSettled, watched } from './watched.ts'

export interface Case {
  readonly scenario: Scenario
  readonly store: StoreKind
  /** `kept`: Redis survives the death. `flushed`: it loses everything then. `none`: there is no Redis. */
  readonly locks: 'kept' | 'flushed' | 'none'
  /** Which gateway gets the fault, at which of its calls. null: none. */
  readonly fault: { readonly gateway: 0 | 1, readonly at: number, readonly kind: Fault } | null
  /** A port that does not keep its word, for the tests of the checker. */
  readonly broken?: Broken
}

export interface Broken {
  readonly records?: (records: RecordStore) => RecordStore
  readonly locks?: (locks: LockStore) => LockStore
  /** Timers longer than this never end. */
  readonly longestTimerMs?: number
}

export interface Run {
  readonly history: History
  /** The calls that each gateway's first process made before its clients had their answers, and those that followed from them. */
  readonly calls: ReadonlyArray<readonly Call[]>
  /** What the upstream saw until every client had a final answer. */
  readonly executions: number
  /** Errors beside the invariants: clients without a final answer, and uncaught errors. */
  readonly trouble: readonly string[]
}

const ANSWER_WITHIN_MS = 8_000
const CLAIM_WITHIN_MS = 2_000
const RETENTION_MS = 120_000
const RESTART_MS = 200
const RETRY_MS = 1_000
/** By then leases and E2b's wait are over, and every client has a final answer. */
const CLIENT_PATIENCE_MS = 100_000
/** What follows the last answer: copies, unlocks, wake-ups. */
const AFTERWARDS_MS = 50
/** The longest time that an abandoned statement is in flight, with the last release. */
const AFTERMATH_MS = 12_000
/** Hard end (upstream.timeout + 20 s), a lease, E2b's lease, a sweep. */
const HARD_END_MS = UPSTREAM_TIMEOUT_MS + 20_000 + 2 * LEASE_MS + LEASE_MS / 2 + 1_000

export async function run (theCase: Case): Promise<Run> {
  const timeline = new Timeline()
  const durable = durableOf(theCase.store, timeline)
  const simulation = new Simulation(theCase, timeline, durable)
  try {
    return await simulation.run()
  } finally {
    await durable.close()
  }
}

class Simulation {
  readonly #case: Case
  readonly #timeline: Timeline
  readonly #durable: Durable
  readonly #route: GuardedRoute
  readonly #events: HistoryEvent[] = []
  readonly #note = (event: HistoryEvent): void => { this.#events.push(event) }
  readonly #upstream: SimulatedUpstream
  readonly #owners = new Map<string, Claim>()
  readonly #seats: Seat[] = []
  readonly #trouble: string[] = []
  #records: RecordStore | null = null
  #locks: LockStore
  #calls = 0
  #processes = 0

  constructor (theCase: Case, timeline: Timeline, durable: Durable) {
    this.#case = theCase
    this.#timeline = timeline
    this.#durable = durable
    this.#route = guardedRoute(
      'http://upstream.test',
      {
        leaseMs: LEASE_MS,
        answerWithinMs: ANSWER_WITHIN_MS,
        retentionMs: RETENTION_MS,
        unknownRetentionMs: 10 * RETENTION_MS,
        ...theCase.scenario.policy
      },
      { timeoutMs: UPSTREAM_TIMEOUT_MS }
    )
    this.#upstream = new SimulatedUpstream(timeline, this.#note, theCase.scenario.script)
    this.#locks = this.#newLocks()
  }

  async run (): Promise<Run> {
    const { clients, gateways } = this.#case.scenario
    await this.#open()
    for (let number = 0; number < gateways; number++) this.#seats.push(this.#start(number, this.#planOf(number)))
    const firsts = this.#seats.map(({ process }) => process)
    await this.#serve(clients, CLIENT_PATIENCE_MS)
    await this.#timeline.pass(() => false, AFTERWARDS_MS)
    const calls = firsts.map((process) => process.calls.slice())
    const executions = this.#events.filter(({ kind }) => kind === 'sent').length
    await this.#timeline.pass(() => false, AFTERMATH_MS)
    await this.#claimsEnd()
    await this.#serve(distinct(clients), 0)
    const rows = await this.#rows()
    for (const { process } of this.#seats) process.die()
    return { history: this.#history(rows), calls, executions, trouble: this.#trouble }
  }

  // -------------------------------------------------------------- processes

  async #open (): Promise<void> {
    const { records, lapsed } = await this.#durable.open()
    for (const each of lapsed) this.#note(lapseOf(each, this.#timeline.nowMs, this.#owners.get(nameOf(each.id))))
    this.#records = watched(records, this.#owners, this.#note, () => this.#timeline.nowMs)
  }

  #planOf (gateway: number): Plan {
    const { fault, scenario } = this.#case
    const troubled = scenario.trouble?.(gateway)
    return (call) => fault?.gateway === gateway && call.number === fault.at ? fault.kind : troubled?.(call) ?? null
  }

  #start (number: number, plan: Plan): Seat {
    const { broken } = this.#case
    const name = `gateway-${number}-${++this.#processes}`
    const process = new CrashingProcess({
      name,
      timeline: this.#timeline,
      records: broken?.records?.(this.#store()) ?? this.#store(),
      locks: broken?.locks?.(this.#locks) ?? this.#locks,
      upstream: this.#upstream,
      plan,
      originMs: this.#processes * 1_000_000
    })
    const log = recordingLog()
    const gateway = new Gateway({
      records: process.records,
      locks: process.locks,
      inbox: new MemoryInbox({ nowMs: () => 0 }),
      wakes: NO_SUBSCRIPTIONS,
      registry: NO_REGISTRY,
      counts: new MemoryCounts(() => 0),
      marks: new RouteMarks(() => 0, false),
      upstream: process.upstream,
      tokens: { verify: async () => ({ kind: 'invalid', fault: 'malformed' }) },
      clock: this.#clockOf(process),
      random: process.random,
      meter: countingMeter(),
      log: {
        ...log,
        error: (fields, message) => { if (message === 'background work failed') this.#trouble.push(`${name}: ${JSON.stringify(fields)}`) }
      },
      deliveryLog: { note: () => {} },
      instance: name,
      limits: {
        share: 1,
        executions: 100,
        waiters: 100,
        inFlightPerScope: 0,
        bufferedBytes: 1024 * 1024,
        unsettledBytes: 64 * 1024,
        recentBytes: 32 * 1024 * 1024
      },
      claimWithinMs: CLAIM_WITHIN_MS,
      longestLeaseMs: LEASE_MS,
      probed: new Map(),
      inboxes: new Map(),
      copyTtlMs: 60_000
    }, MODES)
    void gateway.ids.refresh().catch(() => {})
    heartbeat(gateway).start()
    sweeper(gateway).start()
    void process.death.then(async () => { await this.#replace(number) })
    return { process, gateway }
  }

  #clockOf (process: CrashingProcess): CrashingProcess['clock'] {
    const longestMs = this.#case.broken?.longestTimerMs ?? Infinity
    return { ...process.clock, after: (ms, call) => ms > longestMs ? () => {} : process.clock.after(ms, call) }
  }

  /** Like a supervisor: starts another process in its place, on the same store, without a fault. */
  async #replace (number: number): Promise<void> {
    if (this.#case.locks === 'flushed') this.#locks = this.#newLocks()
    await this.#timeline.sleep(RESTART_MS)
    if (this.#case.store !== 'memory') await this.#open()
    this.#seats[number] = this.#start(number, this.#case.scenario.trouble?.(number) ?? NO_FAULT)
  }

  #newLocks (): LockStore {
    return this.#case.locks === 'none' ? NO_LOCKS : new MemoryLocks({ nowMs: () => this.#timeline.nowMs })
  }

  #store (): RecordStore {
    if (this.#records === null) throw new Error('the store is not open')
    return this.#records
  }

  // -------------------------------------------------------------- clients

  /** `patienceMs`: how long a client asks again. 0: each asks once. */
  async #serve (clients: readonly Client[], patienceMs: number): Promise<void> {
    let waiting = clients.length
    for (const client of clients) {
      void this.#ask(client, patienceMs)
        .catch((error: unknown) => { this.#trouble.push(`a client has no final answer: ${String(error)}`) })
        .finally(() => { waiting-- })
    }
    const longestMs = patienceMs + 2 * ANSWER_WITHIN_MS + Math.max(...clients.map(({ startsAtMs }) => startsAtMs))
    if (!await this.#timeline.pass(() => waiting === 0, longestMs)) {
      this.#trouble.push(`${waiting} of ${clients.length} clients still wait after ${longestMs} ms`)
    }
  }

  async #ask (client: Client, patienceMs: number): Promise<void> {
    const { nowMs } = this.#timeline
    if (patienceMs > 0) await this.#timeline.sleep(client.startsAtMs)
    let unknowns = 0
    do {
      const told = await this.#askOnce(client)
      if (told?.kind === 'unknown') unknowns++
      if (patienceMs === 0 || isFinal(told) || (unknowns > 1 && this.#route.idempotency.unknown === 'hold')) return
      await this.#timeline.sleep(RETRY_MS)
    } while (this.#timeline.nowMs < nowMs + client.startsAtMs + patienceMs)
    throw new Error('out of patience')
  }

  /** null: the connection broke. */
  async #askOnce (client: Client): Promise<Told | null> {
    const call = `call-${++this.#calls}`
    while (!this.#seat(client).process.alive) await this.#timeline.sleep(RESTART_MS / 4)
    const { process, gateway } = this.#seat(client)
    this.#note({ kind: 'asked', atMs: this.#timeline.nowMs, call, record: this.#recordOf(client), scope: client.scope, asked: client.body })
    const answered = handle(gateway, requestOf(client, this.#route, call)).then(async (outcome) => toldBy(outcome, this.#route))
    const told = await Promise.race([answered, process.death.then(() => null)])
    if (told === null) this.#note({ kind: 'cut', atMs: this.#timeline.nowMs, call })
    else this.#note({ kind: 'told', atMs: this.#timeline.nowMs, call, told })
    return told
  }

  #seat ({ gateway }: Client): Seat {
    const seat = this.#seats[gateway]
    if (seat === undefined) throw new Error(`the scenario has no gateway ${gateway}`)
    return seat
  }

  #recordOf (client: Client): string {
    const scope = scopeOf(callerWith(headersOf(client)), this.#route.idempotency.scope, null, FIRST_RULES)
    return nameOf(recordId(this.#route.name, scope.kind === 'scope' ? scope.scope : '', client.key))
  }

  // -------------------------------------------------------------- the end

  /** Lets the time pass in which claims without a settle must end (I9). */
  async #claimsEnd (): Promise<void> {
    const endsAtMs = this.#timeline.nowMs + HARD_END_MS
    while (this.#timeline.nowMs < endsAtMs && (await this.#rows()).some(({ state }) => state === 'claimed')) {
      await this.#timeline.pass(() => false, LEASE_MS / 2)
    }
  }

  async #rows (): Promise<NonNullable<History['rows']>> {
    const details = await this.#store().list({ limit: 100 })
    return details.map((row) => ({ record: nameOf(row.id), state: row.state, past: row.past, print: printOfSettled(row) }))
  }

  #history (rows: History['rows']): History {
    const { unknown, retentionMs, unknownRetentionMs, answerWithinMs, inFlight, onMismatch } = this.#route.idempotency
    const answerMs = Math.max(answerWithinMs, inFlight.waitMs) + CLAIM_WITHIN_MS + SCHEDULING_MS
    const rules = { unknown, retentionMs, unknownRetentionMs, answerMs, replaysMismatch: onMismatch.action === 'replay' }
    return { events: this.#events.slice(), rows, endedAtMs: this.#timeline.nowMs, rulesOf: () => rules }
  }
}

/** Some round trips to the stores. */
const SCHEDULING_MS = 100

interface Seat { readonly process: CrashingProcess, readonly gateway: Gateway }

function isFinal (told: Told | null): boolean {
  return told !== null && ['stored', 'replayed', 'tombstone', 'mismatch'].includes(told.kind)
}

/** One of each request. */
function distinct (clients: readonly Client[]): Client[] {
  return Array.from(new Map(clients.map((client) => [`${client.scope} ${client.key} ${client.body}`, client])).values())
}
