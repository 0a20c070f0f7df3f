/**
 * One SQLite file, opened and served on the calling thread. A batch of calls is one transaction. WAL with synchronous = FULL: a
 * commit that returned survives a power cut, which is what "acknowledged" means (P1). Runs in the worker (worker.ts), never on
 * a gateway's main thread, where a commit would delay every other request.
 */
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { FIRST_NAME } from '../../core/record/schemes.ts'
import { RecordTable } from '../shared/record-table.ts'
import { refuseEarlier } from '../shared/time-seen.ts'
import { beatIn, beginGeneration, timeSeenIn } from './sign-of-life.ts'
import { Faulted, faultOf, startFaultOf, type Fault } from './faults.ts'
import { InboxTable } from './inbox-table.ts'
import { migrate } from './migrate.ts'
import { CountTable } from './counts.ts'
import { preparedOnce } from './columns.ts'
import { MarkTable } from './marks.ts'
import { auditStep, messageGroups, messageStep, openRoutes, recordStep, unknownByRoute } from './search.ts'
import { chooseScheme, endEarlierSchemeIn, lostAlgorithmsIn, mayBeLostIn, schemesIn } from './scheme-rows.ts'
import { makeProtected } from './protection.ts'
import { Snapshots } from './snapshots.ts'
import { SqliteTable } from './table.ts'
import type { Call, InboxCall, Unusual, WorkerStart } from './worker-protocol.ts'
import type { Claim, Settlement, Token } from '../../core/record/record.ts'
import type { AuditEntry, ClaimResult, Lapsed, OperatorResult, SettleResult } from '../../ports/records.ts'
import type { Recovered } from '../../ports/inbox.ts'

/** The command line writes a row or two at a time. If the file is held for longer than this, another program holds it. */
const BUSY_TIMEOUT_MS = 2_000
/** A checkpoint leaves the log at most this large, so that one burst does not keep the disk for ever. */
const WAL_BYTES_MAX = 64 * 1024 * 1024

const READS: ReadonlySet<Call['op']> = new Set([
  'look', 'schemes', 'lostAlgorithms', 'mayBeLost', 'unresolved', 'list', 'markStands', 'messageLook', 'messageDue',
  'messageDepths', 'messageList', 'recordStep', 'messageStep', 'openRoutes', 'auditStep', 'searchEnd', 'unknownByRoute', 'messageGroups',
  'paused', 'messageHealth'
])

export class Database {
  readonly installation: string
  /** Records that a dead process had claimed. They are indeterminate since this start. */
  readonly lapsedAtStart: Lapsed[]
  /** Messages that it was delivering. They wait again, or are held. */
  readonly recoveredAtStart: Recovered
  readonly connection: DatabaseSync
  readonly #prepare: (text: string) => StatementSync
  readonly #snapshots: Snapshots
  readonly #table: SqliteTable
  readonly #records: RecordTable
  readonly #marks: MarkTable
  readonly #counts: CountTable
  readonly #inbox: InboxTable

  /** Throws Faulted with a start fault: one sentence. */
  constructor ({ file, nowMs, exclusive, scheme = FIRST_NAME }: WorkerStart) {
    try {
      this.connection = connect(file, nowMs)
      if (exclusive) refuseEarlier({ nowMs, seenMs: timeSeenIn(this.connection) }, file)
      this.#prepare = preparedOnce(this.connection)
      this.#snapshots = new Snapshots(file)
      this.#table = new SqliteTable(this.connection)
      this.#inbox = new InboxTable(this.connection)
      this.#records = new RecordTable(this.#table, (id, now) => this.#inbox.look(id, now), (id, now) => { this.#inbox.forget(id, now) })
      this.#marks = new MarkTable(this.connection)
      this.#counts = new CountTable(this.connection)
      this.installation = installationOf(this.connection)
      if (exclusive) chooseScheme(this.connection, scheme, nowMs)
      const { lapsed, recovered } = exclusive ? this.#endTheDead(nowMs) : NOBODY
      this.lapsedAtStart = lapsed
      this.recoveredAtStart = recovered
    } catch (error) {
      throw new Faulted(startFaultOf(error, file), error)
    }
  }

  /**
   * One result per call, in their order. Throws Faulted: rejected (rolled back, because of one call's content) or unavailable.
   * Unavailable is in doubt only if the commit itself failed, because its frames may be in the log. `believedMs`: nothing later
   * than this is over.
   */
  run (calls: readonly Call[], nowMs: number, believedMs = Infinity): unknown[] {
    this.#believe(believedMs)
    const operation = calls[0]?.op ?? 'nothing'
    const perform = () => calls.map((call) => this.#perform(call, nowMs))
    return calls.every(({ op }) => READS.has(op)) ? this.#attempt(operation, false, perform) : this.#transaction(operation, perform)
  }

  /**
   * Settles and then claims in one transaction. Returns those that did not simply settle or win. If the content of one is refused, each
   * runs in a transaction of its own, so that it fails alone. Throws as {@link run} does.
   */
  runLanes (settles: readonly Settlement[], claims: readonly Claim[], nowMs: number, believedMs: number): Unusual[] {
    this.#believe(believedMs)
    try {
      return this.#transaction('settle', () => this.#performLanes(settles, claims, nowMs))
    } catch (error) {
      if (!isRejected(error)) throw error
    }
    return this.#oneByOne([
      ...settles.map((settlement): Call => ({ op: 'settle', settlement })),
      ...claims.map((claim): Call => ({ op: 'insert', claim }))
    ], nowMs)
  }

  close (): void {
    this.#snapshots.close()
    this.connection.close()
  }

  #believe (believedMs: number): void {
    this.#records.believedMs = believedMs
    this.#marks.believedMs = believedMs
    this.#inbox.believedMs = believedMs
  }

  #performLanes (settles: readonly Settlement[], claims: readonly Claim[], nowMs: number): Unusual[] {
    const unusual: Unusual[] = []
    for (const [index, settlement] of settles.entries()) {
      const result = this.#records.settle(settlement, nowMs)
      if (result.kind !== 'settled' || result.keepLeftMs !== settlement.keepMs) unusual.push({ index, result })
    }
    for (const [index, claim] of claims.entries()) {
      const result = this.#records.insert(claim, nowMs)
      if (result.kind !== 'won' || result.attempt !== 1) unusual.push({ index: settles.length + index, result })
    }
    return unusual
  }

  /** A failure that is no refusal of content ends it: a disk that is full is not asked once for each call. */
  #oneByOne (calls: readonly Call[], nowMs: number): Unusual[] {
    let gone: Fault | null = null
    return calls.map((call, index): Unusual => {
      if (gone !== null) return { index, fault: gone }
      try {
        const [result] = this.#transaction(call.op, () => [this.#perform(call, nowMs)])
        return { index, result: result as ClaimResult | SettleResult }
      } catch (error) {
        if (!(error instanceof Faulted)) throw error
        if (!isRejected(error)) gone = error.fault
        return { index, fault: error.fault }
      }
    })
  }

  #transaction<Result> (operation: string, work: () => Result): Result {
    const result = this.#attempt(operation, false, () => {
      this.connection.exec('begin immediate')
      return work()
    })
    this.#attempt(operation, true, () => { this.connection.exec('commit') })
    return result
  }

  #attempt<Result> (operation: string, inDoubt: boolean, work: () => Result): Result {
    try {
      return work()
    } catch (error) {
      this.#rollBack()
      throw new Faulted(faultOf(error, operation, inDoubt), error)
    }
  }

  /** SQLite has rolled back by itself after some errors. A rollback that fails leaves a connection that begins nothing more. */
  #rollBack (): void {
    try {
      if (this.connection.isTransaction) this.connection.exec('rollback')
    } catch {}
  }

  #perform (call: Call, nowMs: number): unknown {
    switch (call.op) {
      case 'insert': return this.#records.insert(call.claim, nowMs)
      case 'take': return this.#records.take(call.seen, call.claim, call.mayRetry, nowMs)
      case 'confirm': return this.#records.confirm(call.claim, nowMs)
      case 'look': return this.#records.look(call.id, nowMs)
      case 'schemes': return schemesIn(this.connection, nowMs)
      case 'endEarlierScheme': return endEarlierSchemeIn(this.connection, nowMs)
      case 'lostAlgorithms': return lostAlgorithmsIn(this.connection, call.lost, call.route)
      case 'mayBeLost': return mayBeLostIn(this.connection, call.question)
      case 'renew': return this.#records.renew(call.tokens, nowMs)
      case 'settle': return this.#records.settle(call.settlement, nowMs)
      case 'settleLost': return this.#records.settleLost(call.settlement, call.claim, call.ageMs, nowMs)
      case 'lapse': return this.#records.lapse(call.order, nowMs)
      case 'sweep': return this.#records.sweep(call.limit, nowMs)
      case 'takeProbes': return this.#records.takeProbes(call.order, nowMs)
      case 'noteProbe': return this.#records.noteProbe(call.note, nowMs)
      case 'unresolved': return this.#records.unresolved(nowMs)
      case 'list': return this.#records.list(call.filter, nowMs)
      case 'resolve': return this.#records.resolve(call.resolution, nowMs)
      case 'expire': return this.#expire(call.token, call.audit, nowMs)
      case 'beat': return beatIn(this.connection, call.sign, nowMs)
      case 'countsAdd': return this.#counts.add(call.counts, nowMs)
      case 'countsSweep': return this.#counts.sweep(call.limit, nowMs)
      case 'mark': return this.#marks.mark(call, nowMs)
      case 'markStands': return this.#marks.stands(call, nowMs)
      case 'markDone': return this.#marks.end(call, nowMs)
      case 'markRemove': return this.#marks.remove(call)
      case 'markSweep': return this.#marks.sweep(call.limit, nowMs)
      case 'recordStep': return recordStep(this.#snapshots.of(call.snapshot), call.search, call.from, call.order, this.#times(nowMs))
      case 'messageStep': return messageStep(this.#snapshots.of(call.snapshot), call.search, call.stream, call.order, this.#times(nowMs))
      case 'auditStep': return auditStep(this.#snapshots.of(call.snapshot), call.search, call.kind, call.order)
      case 'openRoutes': return openRoutes(this.#snapshots.of(call.snapshot))
      case 'searchEnd': return this.#snapshots.end(call.snapshot)
      case 'unknownByRoute': return unknownByRoute(this.#prepare, nowMs)
      case 'messageGroups': return messageGroups(this.#prepare, call.route, call.limit, nowMs)
      case 'askNow': return this.#records.askNow(call.token, call.audit, nowMs)
      case 'paused': return this.#inbox.byHand.paused()
      case 'pause': return this.#inbox.byHand.pause(call.route, call.audit, nowMs)
      case 'resume': return this.#inbox.byHand.resume(call.route, call.audit, nowMs)
      default: return this.#performInbox(call, nowMs)
    }
  }

  #times (nowMs: number): { readonly nowMs: number, readonly overMs: number } {
    return { nowMs, overMs: Math.min(nowMs, this.#records.believedMs) }
  }

  #expire (token: Token, audit: AuditEntry, nowMs: number): OperatorResult {
    const result = this.#records.expire(token, audit, nowMs)
    if (result.kind === 'done') beginGeneration(this.connection, nowMs)
    return result
  }

  #performInbox (call: InboxCall, nowMs: number): unknown {
    switch (call.op) {
      case 'messageAccept': return this.#inbox.accept(call.message, nowMs)
      case 'messageAcceptAll': return this.#inbox.acceptAll(call.messages, nowMs)
      case 'messageLook': return this.#inbox.look(call.id, nowMs)
      case 'messageDeliveries': return this.#inbox.deliveries(call.id)
      case 'messageSettle': return this.#inbox.settle(call.token, call.fate, nowMs)
      case 'messageTake': return this.#inbox.take(call.order, nowMs)
      case 'messagePostpone': return this.#inbox.postpone(call.tenant, call.forMs, call.limit, nowMs)
      case 'messageAllow': return this.#inbox.allow(call.question, nowMs)
      case 'messageHealth': return this.#inbox.health(nowMs)
      case 'messageChangeHealth': return this.#inbox.changeHealth(call.change, nowMs)
      case 'messageRecover': return this.#inbox.recover(call.limit, nowMs)
      case 'messageDue': return this.#inbox.dueInMs(call.routes, nowMs)
      case 'messageDepths': return this.#inbox.depths(nowMs)
      case 'messageList': return this.#inbox.byHand.list(call.filter, nowMs)
      case 'messageRetry': return this.#inbox.byHand.retry(call.filter, call.audit, nowMs)
      case 'messageDiscard': return this.#inbox.byHand.discard(call.filter, call.audit, nowMs)
      case 'messageReplay': return this.#inbox.byHand.replay(call.filter, call.audit, nowMs)
      case 'messageKept': return this.#inbox.kept(call.bounds)
      case 'messageDropRequests': return this.#inbox.dropRequests(call.beyond, call.limit, nowMs)
      case 'messageSweep': return this.#inbox.sweep(call.limit, nowMs)
      case 'workerAlive': return this.#inbox.alive(call.owner, call.leaseMs, nowMs)
      case 'workerGone': return this.#inbox.gone(call.owner)
    }
  }

  /** The lock file proves that no other gateway lives here, so no owner of a claimed row does. Their leases end at once. */
  #endTheDead (nowMs: number): WhatTheDeadHad {
    this.connection.exec('begin immediate')
    this.#table.endLeases(nowMs)
    const lapsed = this.#records.lapse({ ids: null, running: [], limit: Infinity }, nowMs)
    this.#marks.freeTheDead()
    const recovered = this.#inbox.endWorkers(nowMs)
    this.connection.exec('commit')
    return { lapsed, recovered }
  }
}

function isRejected (error: unknown): boolean {
  return error instanceof Faulted && error.fault.kind === 'rejected'
}

interface WhatTheDeadHad { readonly lapsed: Lapsed[], readonly recovered: Recovered }

const NOBODY: WhatTheDeadHad = { lapsed: [], recovered: { count: 0, held: [] } }

function connect (file: string, nowMs: number): DatabaseSync {
  makeProtected(file)
  const connection = new DatabaseSync(file, { timeout: BUSY_TIMEOUT_MS })
  try {
    connection.exec(`pragma journal_mode = wal; pragma synchronous = full; pragma journal_size_limit = ${WAL_BYTES_MAX}`)
    migrate(connection, file, nowMs)
    return connection
  } catch (error) {
    connection.close()
    throw error
  }
}

function installationOf (connection: DatabaseSync): string {
  return String(connection.prepare('select id from installation').get()?.id)
}
