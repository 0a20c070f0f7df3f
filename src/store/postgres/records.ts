/**
 * The arbiter on Postgres: its batchers, and which connection each statement uses. It opens nothing (open.ts) and contains no
 * SQL (claims.ts, settles.ts, renewals.ts, background.ts, operator.ts).
 */
import type { ProbeNote } from '../../core/probe/probe.ts'
import type { Claim, RecordDetail, Row, Seen, Settlement, Token } from '../../core/record/record.ts'
import type { Schemes } from '../../core/record/schemes.ts'
import type { Durability } from '../../core/protocol/durability.ts'
import { StoreUnavailable } from '../../ports/errors.ts'
import type {
  AuditEntry,
  Beaten,
  ClaimReply,
  ClaimResult,
  DueProbe,
  Lapsed,
  LapseOrder,
  LostQuestion,
  MessageExists,
  OperatorResult,
  ProbeOrder,
  RecordFilter,
  RecordLanes,
  RecordStore,
  RenewResult,
  Resolution,
  SettleResult,
  SignOfLife,
  Swept,
  TakeResult
} from '../../ports/records.ts'
import type { OperatorStore } from '../../ports/operator.ts'
import type { RecordCounts } from '../../ports/record-counts.ts'
import type { StoreUse, Unresolved } from '../../ports/telemetry.ts'
import { Batcher } from '../shared/batcher.ts'
import type { TimeSeen } from '../shared/time-seen.ts'
import { BATCHING, idText, resultOf, type Outcome } from './batching.ts'
import { claimBatchers, claimLane, unseen, type ClaimBatchers, type ClaimLane } from './claim-batches.ts'
import { countUnresolved, lapseLeases, SWEEP_FROM_START, sweepPast } from './background.ts'
import { beatOnce, readTimeSeen, sweepGateways } from './sign-of-life.ts'
import type { Connections } from './connections.ts'
import type { Session } from './statements.ts'
import { addCounts, sweepCounts } from './counts.ts'
import { isDoubtful } from './durable.ts'
import { Line } from './in-line.ts'
import { PostgresInbox, type InboxPurposes } from './inbox.ts'
import { expireRecord, listRecords, resolveRecord } from './operator.ts'
import { PostgresMarks, sweepMarks } from './marks.ts'
import { lostAlgorithms, mayBeLost } from './lost-schemes.ts'
import { noteProbe, takeProbes } from './probes.ts'
import { operatorOf } from './operator-store.ts'
import { PostgresRegistry } from './registry.ts'
import { renewInLine, renewLeases, type Renewal } from './renewals.ts'
import { endEarlierScheme, readSchemes } from './schemes.ts'
import { lostSettles, settleLane, type SettleLane } from './settle-batches.ts'
import type { LostOrder } from './settles.ts'
import { DurabilityReader } from './durability.ts'
import type { PostgresSubscriptions } from './subscriptions.ts'

/** One pool per purpose, so that none ever waits for another (P8). */
export interface Purposes extends InboxPurposes {
  readonly claims: Connections
  readonly settles: Connections
  readonly renewals: Connections
  readonly beats: Connections
  readonly background: Connections
  readonly marks: Connections
  readonly search: Connections
}

/** A renewal is a few dozen bytes a row. One round trip must do for all leases of a process. */
const RENEWALS_MAX = 1_000

export class PostgresRecords implements RecordStore {
  readonly #durabilityReader = new DurabilityReader()
  readonly name = 'postgres'
  readonly installation: string
  readonly marks: PostgresMarks
  readonly inbox: PostgresInbox
  readonly registry: PostgresRegistry
  readonly counts: RecordCounts
  readonly subscriptions: PostgresSubscriptions
  readonly operator: OperatorStore
  readonly #purposes: Purposes
  readonly lanes: RecordLanes
  readonly #claims: ClaimBatchers
  readonly #inserts: ClaimLane
  readonly #settles: SettleLane
  readonly #lost: Batcher<LostOrder, SettleResult>
  readonly #renewals: Batcher<Token, Renewal>
  readonly #line: Line<Token>
  #sweepFromMs = SWEEP_FROM_START

  constructor (installation: string, purposes: Purposes, subscriptions: PostgresSubscriptions) {
    const { claims, settles, renewals, marks, lines } = purposes
    this.installation = installation
    this.#purposes = purposes
    this.subscriptions = subscriptions
    this.marks = new PostgresMarks(marks, (limit) => this.#background('mark_sweep', (session) => sweepMarks(session, limit)))
    this.inbox = new PostgresInbox(purposes)
    this.registry = new PostgresRegistry(purposes.background)
    this.counts = {
      add: (counts) => this.#background('counts_add', (session) => addCounts(session, counts)),
      sweep: (limit) => this.#background('counts_sweep', (session) => sweepCounts(session, limit))
    }
    this.operator = operatorOf(purposes)
    this.#claims = claimBatchers(claims)
    this.#inserts = claimLane(claims, (reply, outcome) => { this.#reply(reply, outcome) })
    this.#settles = settleLane(settles)
    this.#lost = lostSettles(settles)
    this.lanes = {
      insert: (claim, reply) => { this.#inserts.enter(claim, reply) },
      settle: (settlement, reply) => { this.#settles.enter(settlement, reply) }
    }
    this.#renewals = new Batcher<Token, Renewal>({
      ...BATCHING,
      name: 'renewals',
      batchMax: RENEWALS_MAX,
      idOf: idText,
      provenRolledBack: () => false,
      run: (batch) => renewals.use('renew', (session) => renewLeases(session, batch))
    })
    this.#line = new Line<Token>({
      againMs: lines.lockTimeoutMs / 2,
      idOf: idText,
      wait: (tokens) => lines.use('renew_in_line', (session) => renewInLine(session, tokens))
    })
  }

  connectionUse (): StoreUse[] { return Object.values(this.#purposes).map(({ inUse }: Connections) => inUse) }

  insert (claim: Claim): Promise<ClaimResult> {
    return new Promise((resolve, reject) => { this.lanes.insert(claim, { claimed: resolve, claimFailed: reject }) })
  }

  async confirm (claim: Claim): Promise<ClaimResult> { return this.#certain(resultOf(await this.#claims.confirms.push(claim))) }

  async take (seen: Seen, claim: Claim, mayRetry: boolean): Promise<TakeResult> {
    const taken = await this.#claims.takes.push({ seen, claim, mayRetry })
    return taken.kind === 'message' ? this.#certainMessage(taken) : taken
  }

  async look (id: Buffer): Promise<Row | null> {
    const row = await this.#claims.looks.push(id)
    return row !== null && mustBeProven(row) ? this.#prove(id) : row
  }

  /** Locked rows also wait in line, for as long as callers ask for them. */
  async renew (tokens: readonly Token[]): Promise<RenewResult[]> {
    const renewals = await Promise.all(tokens.map((token) => this.#renewals.push(token)))
    this.#line.join(tokens.filter((_, index) => renewals[index] === 'skipped'))
    return renewals.map((renewal) => renewal === 'none' ? 'skipped' : renewal)
  }

  settle (settlement: Settlement): Promise<SettleResult> {
    return new Promise((resolve, reject) => { this.lanes.settle(settlement, { settled: resolve, settleFailed: reject }) })
  }

  settleLost (settlement: Settlement, claim: Claim, ageMs: number): Promise<SettleResult> {
    return this.#lost.push({ settlement, claim, ageMs })
  }

  lapse (order: LapseOrder): Promise<Lapsed[]> { return this.#background('lapse', (session) => lapseLeases(session, order)) }

  /**
   * A full batch leaves a backlog, and the next batch goes on from there. After the backlog the sweep begins with everything
   * again, for rows that were locked.
   */
  async sweep (limit: number): Promise<Swept[]> {
    const { swept, latestMs } = await this.#background('sweep', async (session) => {
      await sweepGateways(session, limit)
      return sweepPast(session, limit, this.#sweepFromMs)
    })
    const count = swept.reduce((sum, each) => sum + each.count, 0)
    this.#sweepFromMs = count < limit ? SWEEP_FROM_START : latestMs
    return swept
  }

  takeProbes (order: ProbeOrder): Promise<DueProbe[]> { return this.#background('probe_take', (session) => takeProbes(session, order)) }

  noteProbe (note: ProbeNote): Promise<boolean> { return this.#background('probe_note', (session) => noteProbe(session, note)) }

  unresolved (): Promise<Unresolved> { return this.#background('unresolved', countUnresolved) }

  list (filter: RecordFilter): Promise<RecordDetail[]> { return this.#background('list', (session) => listRecords(session, filter)) }

  resolve (resolution: Resolution): Promise<OperatorResult> {
    return this.#background('resolve', (session) => resolveRecord(session, resolution))
  }

  expire (token: Token, audit: AuditEntry): Promise<OperatorResult> {
    return this.#background('expire', (session) => expireRecord(session, token, audit))
  }

  beat (sign: SignOfLife): Promise<Beaten> { return this.#purposes.beats.use('beat', (session) => beatOnce(session, sign)) }

  /** On the claims' connections, because requests wait for it. */
  schemes (): Promise<Schemes> { return this.#purposes.claims.use('schemes', readSchemes) }

  lostAlgorithms (lost: number, route: string): Promise<number[]> {
    return this.#purposes.claims.use('lost_algorithms', (session) => lostAlgorithms(session, lost, route))
  }

  mayBeLost (question: LostQuestion): Promise<boolean> {
    return this.#purposes.claims.use('lost_question', (session) => mayBeLost(session, question))
  }

  endEarlierScheme (): Promise<void> { return this.#background('scheme_end', endEarlierScheme) }

  /** The database's time, and the last sign of life of a gateway that found the time right. */
  timeSeen (): Promise<TimeSeen> { return this.#background('time_seen', readTimeSeen) }

  /** What the server's settings leave of durability, for sessions like the store's own. */
  durability (): Promise<Durability> { return this.#background('standing', async (session) => this.#durabilityReader.read(session)) }

  async close (): Promise<void> {
    this.#line.close()
    this.inbox.close()
    this.#inserts.close()
    this.#settles.close()
    await Promise.all([this.subscriptions, ...Object.values<Connections>({ ...this.#purposes })].map((each) => each.close()))
  }

  /** A row or message that may be lost is looked at again. Nothing else waits for that. */
  #reply (reply: ClaimReply, outcome: Outcome<ClaimResult>): void {
    if ('error' in outcome) reply.claimFailed(outcome.error)
    else if (isCertain(outcome.result)) reply.claimed(outcome.result)
    else {
      this.#certain(outcome.result).then((result) => { reply.claimed(result) }, (error: unknown) => { reply.claimFailed(error) })
    }
  }

  async #certain (result: ClaimResult): Promise<ClaimResult> {
    if (isCertain(result)) return result
    if (result.kind === 'message') return this.#certainMessage(result)
    return result.kind === 'seen' ? { kind: 'seen', row: await found(this.#prove(result.row.id)) } : result
  }

  async #certainMessage (result: MessageExists): Promise<MessageExists> {
    return isDoubtful(result.message) ? { kind: 'message', message: await found(this.inbox.look(result.message.id)) } : result
  }

  async #prove (id: Buffer): Promise<Row | null> {
    try {
      return await this.#claims.proofs.push(id)
    } catch (error) {
      throw unseen(error)
    }
  }

  #background<Result> (operation: string, work: (session: Session) => Promise<Result>): Promise<Result> {
    return this.#purposes.background.use(operation, work)
  }
}

async function found<Found> (looking: Promise<Found | null>): Promise<Found> {
  const seen = await looking
  if (seen === null) throw new StoreUnavailable('postgres', 'claim_look', true, new Error('a row came and went'))
  return seen
}

function isCertain (result: ClaimResult): boolean {
  return result.kind === 'seen' ? !mustBeProven(result.row) : result.kind !== 'message' || !isDoubtful(result.message)
}

/** An answer would be replayed from this row. Any other state ends in a write, or in another look. */
function mustBeProven (row: Row): boolean {
  return (row.state === 'completed' || row.state === 'consumed') && !row.past && isDoubtful(row)
}
