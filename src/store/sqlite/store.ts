/**
 * The embedded arbiter: SQLite in one file under the data directory, for one gateway process. Passes the same suite as
 * Postgres. This side combines calls into batches and waits. The worker (worker.ts) does the transactions. Claims and settles
 * have a way of their own (lanes.ts), everything else goes as messages.
 *
 * Why a worker: node:sqlite is synchronous, and a commit with synchronous = FULL lasts as long as the disk likes.
 * With every fsync 5 ms later, 32 callers delay the event loop by 7.2 ms (p50) and 19.9 ms (p99) if the main thread commits,
 * and by 1.1 and 6.5 ms if the worker does (monitorEventLoopDelay at 1 ms, so 1.0 means none; Node 24.21.0, 2026-11-21).
 *
 * What the worker costs: claim + settle of 500-byte answers through lanes, medians of seven turns in one process, two cores
 * with a load of eleven, Node 24.21.0, 2026-11-25. CPU is of all threads.
 *
 *   callers   CPU µs a pair worker | thread   pairs/s worker | thread   p99 ms worker | thread
 *   1         936 | 767                       184 | 165                 14 | 15
 *   9         162 | 150                       1,244 | 1,083             21 | 27
 *   32        84 | 76                         2,791 | 2,506             48 | 43
 *   256       59 | 60                         4,888 | 4,347             114 | 109
 *
 * So the main thread would save a tenth of the CPU, and be slower: it could not read requests while it commits.
 */
import { StoreOverloaded, StoreUnavailable, StoreRejected } from '../../ports/errors.ts'
import { lanesOver } from '../../ports/lanes.ts'
import { bytesOfFate } from '../shared/message-fate.ts'
import { NO_SUBSCRIPTIONS } from '../shared/inbox-subscriptions.ts'
import { Batcher } from '../shared/batcher.ts'
import { openDirectory, type Directory } from './directory.ts'
import { SqliteInbox } from './inbox.ts'
import { SqliteLanes } from './lanes.ts'
import { startWorker, type WorkerClient, type StartedWorker } from './worker-client.ts'
import { SqliteMarks } from './marks.ts'
import type { Call, MarkLook, MarkWrite, MessageCall } from './worker-protocol.ts'
import type { Schemes } from '../../core/record/schemes.ts'
import type { ProbeNote } from '../../core/probe/probe.ts'
import type { Claim, RecordDetail, Row, Seen, Settlement, Token } from '../../core/record/record.ts'
import type {
  AuditEntry,
  Beaten,
  ClaimResult,
  DueProbe,
  Lapsed,
  LapseOrder,
  LostQuestion,
  OperatorResult,
  ProbeOrder,
  RecordFilter,
  RecordStore,
  RenewResult,
  Resolution,
  SettleResult,
  SignOfLife,
  Swept,
  TakeResult
} from '../../ports/records.ts'
import type { MarkResult } from '../../ports/marks.ts'
import type { Meter, Unresolved } from '../../ports/telemetry.ts'
import type { RecordCounts } from '../../ports/record-counts.ts'
import type { Recovered } from '../../ports/inbox.ts'
import type { OperatorStore } from '../../ports/operator.ts'
import { operatorOf } from './operator-store.ts'

export interface SqliteOptions {
  /** Holds `onceway.db` and, while a gateway runs, the lock `onceway.lock`. */
  readonly dataDir: string
  /**
   * true: a gateway. The directory is made and held, and claims of a dead process become indeterminate. false: the command
   * line.
   */
  readonly exclusive: boolean
  /** Unix milliseconds. Leases and expiry count on it. Absent: the process's wall clock. */
  readonly nowMs?: () => number
  /** How far that clock is trusted. null, or absent: without a limit. */
  readonly believedMs?: () => number | null
  readonly meter?: Pick<Meter, 'store'>
  /** The scheme (core/record/schemes.ts) that a gateway chooses while nothing is claimed yet. Absent: the first scheme. */
  readonly scheme?: string
}

interface ClockOfStore { readonly nowMs: () => number, readonly believedMs: () => number | null }

type ClaimCall = Extract<Call, { op: 'insert' | 'take' | 'confirm' }>
type SettleCall = Extract<Call, { op: 'settle' | 'settleLost' }>
type LookCall = Extract<Call, { op: 'look' }>

/** Calls in one transaction. Beyond some dozens the commit's fsync no longer dominates, and a settle waits behind it. */
const BATCH_MAX = 128
/** The worker does one at a time. A second batch that waits there was not faster (same measurement) and combines less. */
const BATCHES_MAX = 1
/**
 * Twice the default of limits.executions: an execution has at most one claim and one settle under way. Claims that were given up wait
 * here too.
 */
const QUEUE_MAX = 20_000
/** Bytes of answers in one transaction. A larger answer travels alone. Keeps a batch of settles within a few milliseconds. */
const BATCH_BYTES_MAX = 8 * 1024 * 1024
/** Calls that are not combined: renewals, the sweeper's, operators'. There are a handful at a time, unless a caller loops. */
const SINGLE_MAX = 256

/** Rejects with StartError, one sentence that says what to do. */
export async function openSqlite (options: SqliteOptions): Promise<SqliteStore> {
  const { dataDir, exclusive, nowMs = Date.now, believedMs = () => null, scheme } = options
  const directory = openDirectory(dataDir, exclusive)
  try {
    return new SqliteStore(
      await startWorker({ file: directory.file, nowMs: nowMs(), exclusive, ...(scheme === undefined ? {} : { scheme }) }),
      directory,
      { nowMs, believedMs },
      options.meter
    )
  } catch (error) {
    directory.release()
    throw error
  }
}

export class SqliteStore implements RecordStore {
  readonly name = 'sqlite'
  readonly installation: string
  /** A sentence for the log: other users who may read the directory. null: none. */
  readonly remark: string | null
  /** Records that a dead process had claimed. They are indeterminate since this start. */
  readonly lapsedAtStart: readonly Lapsed[]
  /** Messages that a dead process was delivering. */
  readonly recoveredAtStart: Recovered
  readonly marks: SqliteMarks
  readonly inbox: SqliteInbox
  readonly counts: RecordCounts
  readonly operator: OperatorStore
  readonly subscriptions = NO_SUBSCRIPTIONS
  readonly lanes: SqliteLanes
  readonly #worker: WorkerClient
  readonly #directory: Directory
  readonly #clock: ClockOfStore
  readonly #meter: Pick<Meter, 'store'> | undefined
  readonly #claims: Batcher<ClaimCall, unknown>
  readonly #settles: Batcher<SettleCall, unknown>
  readonly #looks: Batcher<LookCall, unknown>
  readonly #running = new Set<Promise<unknown>>()
  #singles = 0
  #closing: Promise<void> | null = null

  constructor (
    { client, installation, lapsed, recovered }: StartedWorker,
    directory: Directory,
    clock: ClockOfStore,
    meter: Pick<Meter, 'store'> | undefined
  ) {
    this.#worker = client
    this.#directory = directory
    this.installation = installation
    this.remark = directory.remark
    this.lapsedAtStart = lapsed
    this.recoveredAtStart = recovered
    this.#clock = clock
    this.#meter = meter
    this.#claims = this.#batcher('claims', (call) => call.claim.id)
    this.#settles = this.#batcher('settles', (call) => call.settlement.token.id, (call) => call.settlement.body?.length ?? 0)
    this.#looks = this.#batcher('looks', (call) => call.id)
    this.lanes = new SqliteLanes({
      client,
      clock,
      meter,
      alone: lanesOver({
        insert: (claim) => this.#combined(this.#claims, { op: 'insert', claim }),
        settle: (settlement) => this.#combined(this.#settles, { op: 'settle', settlement })
      })
    })
    const marks = this.#batcher<MarkWrite>('marks', (call) => call.id)
    const endings = this.#batcher<MarkWrite>('ends of marks', (call) => call.id)
    const marksLooks = this.#batcher<MarkLook>('looks at marks', (call) => call.id)
    this.marks = new SqliteMarks({
      mark: (call) => this.#combined<MarkWrite, MarkResult>(marks, call),
      stands: (call) => this.#combined<MarkLook, boolean>(marksLooks, call),
      end: (call) => this.#combined<MarkWrite, null>(endings, call),
      sweep: (limit) => this.#single({ op: 'markSweep', limit })
    })
    this.operator = operatorOf((call) => this.#single(call), clock.nowMs)
    this.counts = {
      add: (counts) => this.#single({ op: 'countsAdd', counts }),
      sweep: (limit) => this.#single({ op: 'countsSweep', limit })
    }
    const accepts = this.#batcher<MessageCall<'messageAccept'>>(
      'acceptances',
      ({ message }) => message.id,
      ({ message }) => message.body.length
    )
    const looks = this.#batcher<MessageCall<'messageLook'>>('looks at messages', (call) => call.id)
    const settles = this.#batcher<MessageCall<'messageSettle'>>(
      'settles of messages',
      ({ token }) => token.id,
      ({ fate }) => bytesOfFate(fate)
    )
    this.inbox = new SqliteInbox({
      accept: (call) => this.#combined(accepts, call),
      look: (call) => this.#combined(looks, call),
      settle: (call) => this.#combined(settles, call),
      single: (call) => this.#single(call)
    })
  }

  /** The worker is gone, and nothing can be stored until the process is restarted. null: it is there. */
  get failure (): Error | null { return this.#closing === null ? this.#worker.ended : null }

  insert (claim: Claim): Promise<ClaimResult> {
    return new Promise((resolve, reject) => { this.lanes.insert(claim, { claimed: resolve, claimFailed: reject }) })
  }

  take (seen: Seen, claim: Claim, mayRetry: boolean): Promise<TakeResult> {
    return this.#combined(this.#claims, { op: 'take', seen, claim, mayRetry })
  }

  confirm (claim: Claim): Promise<ClaimResult> {
    return this.#combined(this.#claims, { op: 'confirm', claim })
  }

  look (id: Buffer): Promise<Row | null> {
    return this.#combined(this.#looks, { op: 'look', id })
  }

  schemes (): Promise<Schemes> {
    return this.#single({ op: 'schemes' })
  }

  lostAlgorithms (lost: number, route: string): Promise<number[]> {
    return this.#single({ op: 'lostAlgorithms', lost, route })
  }

  mayBeLost (question: LostQuestion): Promise<boolean> {
    return this.#single({ op: 'mayBeLost', question })
  }

  async endEarlierScheme (): Promise<void> {
    await this.#single({ op: 'endEarlierScheme' })
  }

  settle (settlement: Settlement): Promise<SettleResult> {
    return new Promise((resolve, reject) => { this.lanes.settle(settlement, { settled: resolve, settleFailed: reject }) })
  }

  settleLost (settlement: Settlement, claim: Claim, ageMs: number): Promise<SettleResult> {
    return this.#combined(this.#settles, { op: 'settleLost', settlement, claim, ageMs })
  }

  renew (tokens: readonly Token[]): Promise<RenewResult[]> {
    return this.#single({ op: 'renew', tokens })
  }

  /** One process, one writing thread: an order waits only behind its own writes. */
  async lapse ({ ids, running, limit, still }: LapseOrder): Promise<Lapsed[]> {
    return still() ? this.#single({ op: 'lapse', order: { ids, running, limit } }) : []
  }

  sweep (limit: number): Promise<Swept[]> {
    return this.#single({ op: 'sweep', limit })
  }

  takeProbes (order: ProbeOrder): Promise<DueProbe[]> {
    return this.#single({ op: 'takeProbes', order })
  }

  noteProbe (note: ProbeNote): Promise<boolean> {
    return this.#single({ op: 'noteProbe', note })
  }

  unresolved (): Promise<Unresolved> {
    return this.#single({ op: 'unresolved' })
  }

  list (filter: RecordFilter): Promise<RecordDetail[]> {
    return this.#single({ op: 'list', filter })
  }

  resolve (resolution: Resolution): Promise<OperatorResult> {
    return this.#single({ op: 'resolve', resolution })
  }

  expire (token: Token, audit: AuditEntry): Promise<OperatorResult> {
    return this.#single({ op: 'expire', token, audit })
  }

  beat (sign: SignOfLife): Promise<Beaten> {
    return this.#single({ op: 'beat', sign })
  }

  /** New calls fail at once. Calls in flight are finished first. */
  close (): Promise<void> {
    this.#closing ??= this.#finish()
    return this.#closing
  }

  async #finish (): Promise<void> {
    await this.lanes.close()
    await Promise.allSettled(this.#running)
    await this.#worker.close()
    this.#directory.release()
  }

  #batcher<Item extends Call> (kind: string, idOf: (call: Item) => Buffer, bytesOf?: (call: Item) => number): Batcher<Item, unknown> {
    return new Batcher<Item, unknown>({
      name: `sqlite ${kind}`,
      run: (calls) => this.#send(calls),
      idOf: (call) => idOf(call).toString('hex'),
      batchMax: BATCH_MAX,
      batchesMax: BATCHES_MAX,
      queueMax: QUEUE_MAX,
      batchBytesMax: BATCH_BYTES_MAX,
      ...(bytesOf === undefined ? {} : { bytesOf }),
      // Only content is the fault of one item. A full disk would refuse the next one too.
      provenRolledBack: (error) => error instanceof StoreRejected
    })
  }

  #combined<Item extends Call, Result> (batcher: Batcher<Item, unknown>, call: Item): Promise<Result> {
    return this.#tracked(call, () => batcher.push(call)) as Promise<Result>
  }

  #single<Result> (call: Call): Promise<Result> {
    return this.#tracked(call, async () => {
      if (this.#singles >= SINGLE_MAX) throw new StoreOverloaded('sqlite')
      this.#singles++
      try {
        const [result] = await this.#send([call])
        return result
      } finally {
        this.#singles--
      }
    }) as Promise<Result>
  }

  async #tracked (call: Call, start: () => Promise<unknown>): Promise<unknown> {
    if (this.#closing !== null) throw new StoreUnavailable('sqlite', call.op, false, new Error('closed'))
    const work = start()
    this.#running.add(work)
    try {
      return await work
    } finally {
      this.#running.delete(work)
    }
  }

  async #send (calls: readonly Call[]): Promise<unknown[]> {
    const operation = calls[0]?.op ?? 'nothing'
    const began = performance.now()
    let ok = false
    try {
      const results = await this.#worker.send(calls, this.#clock.nowMs(), this.#clock.believedMs())
      ok = true
      return results
    } finally {
      this.#meter?.store('sqlite', operation, ok, performance.now() - began)
    }
  }
}
