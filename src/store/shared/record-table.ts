/**
 * The record port over a synchronous table that one caller at a time writes: the memory store's Map, or a SQLite transaction.
 * Every write reads the row, runs the state machine (core/protocol/transitions.ts) and saves the row. So these two stores
 * execute the table that the statements of Postgres restate. Never reads a clock, never awaits.
 */
import { quarantineLeftMs, transition, type Change } from '../../core/protocol/transitions.ts'
import type { Identity } from '../../core/record/record-id.ts'
import type { MessageDetail } from '../../core/inbox/message.ts'
import type { ProbeNote } from '../../core/probe/probe.ts'
import { askedNowRow, notedRow, probedRow, detailOf, rowOf, type RecordRow } from '../../core/protocol/row.ts'
import type { Claim, RecordDetail, Row, Seen, Settlement, Token } from '../../core/record/record.ts'
import type {
  AuditEntry,
  ClaimResult,
  DueProbe,
  Lapsed,
  LapseOrder,
  OperatorResult,
  ProbeOrder,
  RecordFilter,
  RenewResult,
  Resolution,
  SettleResult,
  Swept,
  TakeResult
} from '../../ports/records.ts'
import type { Unresolved } from '../../ports/telemetry.ts'

/** A change by hand, with the record before and after. */
export interface Audited extends AuditEntry {
  readonly atMs: number
  readonly before: RecordRow
  readonly after: RecordRow
}

/** The caller has already checked `still`. */
export type LapseRows = Omit<LapseOrder, 'still'>

export interface Table {
  /**
   * The usual insert as one statement: saves the claimed row with attempt 1 if there is no row under the id, no message, and the
   * claim's scheme claims. false: nothing was saved, and the state machine decides. Absent: it always decides. Called only if the
   * claim has no earlier id.
   */
  readonly claimNew?: (claim: Claim, nowMs: number) => boolean
  /**
   * The usual settle as one statement: saves the outcome if the row is claimed by the token. false: nothing was saved, and the state
   * machine decides. Called if the outcome is known: an unknown one may keep what the row has (the probe's question).
   */
  readonly settleClaimed?: (settlement: Settlement, nowMs: number) => boolean
  find: (id: Buffer) => RecordRow | null
  /** `before`: the row as {@link find} returned it. null: none. Throws StoreRejected if the row breaks a constraint. */
  save: (row: RecordRow, before: RecordRow | null) => void
  /** Claimed rows whose lease is over, longest over first. Only those in `ids`, unless null. None of an owner in `running`. */
  lapsing: (order: LapseRows, nowMs: number) => RecordRow[]
  /** Removes at most `limit` expired rows. */
  removePast: (limit: number, nowMs: number) => Swept[]
  /** Rows for which isDue (core/protocol/row.ts) is true, longest due first. */
  due: (order: Pick<ProbeOrder, 'routes' | 'limit'>, nowMs: number, overMs: number) => RecordRow[]
  unresolved: (nowMs: number) => Unresolved
  /** Newest claims first. */
  list: (filter: RecordFilter) => RecordRow[]
  /** Whether a change by hand (resolve, release, delete) is on record since then. */
  changedByHand: (id: Buffer, sinceMs: number) => boolean
  note: (audited: Audited) => void
  remove: (id: Buffer) => void
  /** The number of the scheme that claims. */
  scheme: () => number
  /** The scheme's secret is lost. */
  isLost: (scheme: number) => boolean
}

/** The live message under this id in the same database. null: none. */
export type MessageOf = (id: Buffer, nowMs: number) => MessageDetail | null

/** Removes any message under this id. {@link MessageOf} has returned null for it. */
export type ForgetMessage = (id: Buffer, nowMs: number) => void

/** Every method is one transaction of its table. `nowMs` is the store's clock, Unix milliseconds. */
export class RecordTable {
  /** How far the clock is trusted: nothing later than this is over. Unix milliseconds. */
  believedMs = Infinity
  readonly #table: Table
  readonly #messageOf: MessageOf
  readonly #forgetMessage: ForgetMessage

  constructor (table: Table, messageOf: MessageOf, forgetMessage: ForgetMessage) {
    this.#table = table
    this.#messageOf = messageOf
    this.#forgetMessage = forgetMessage
  }

  insert (claim: Claim, nowMs: number): ClaimResult {
    if (claim.earlierId === null && this.#table.claimNew?.(claim, nowMs) === true) return { kind: 'won', attempt: 1 }
    return this.#claimed(claim, 'insert', nowMs)
  }

  take (seen: Seen, claim: Claim, mayRetry: boolean, nowMs: number): TakeResult {
    const message = this.#messageOf(seen.id, nowMs)
    if (message !== null) return { kind: 'message', message }
    const before = this.#table.find(seen.id)
    const change = transition(before, { kind: 'take', seen, claim, mayRetry }, nowMs, this.#over(nowMs))
    const claims = claim.scheme === this.#table.scheme()
    if ((claims || (!this.#isPast(before, nowMs) && !this.#table.isLost(claim.scheme))) && this.#write(change, before)) {
      return { kind: 'won', attempt: change.row.attempt }
    }
    return { kind: claims ? 'lost' : 'moved' }
  }

  confirm (claim: Claim, nowMs: number): ClaimResult {
    return this.#claimed(claim, 'confirm', nowMs)
  }

  look (id: Buffer, nowMs: number): Row | null {
    const row = this.#table.find(id)
    return row === null ? null : rowOf(row, nowMs, this.#over(nowMs))
  }

  renew (tokens: readonly Token[], nowMs: number): RenewResult[] {
    return tokens.map((token) => {
      const before = this.#table.find(token.id)
      if (before === null) return 'skipped'
      return this.#write(transition(before, { kind: 'renew', token }, nowMs, this.#over(nowMs)), before) ? 'renewed' : 'lost'
    })
  }

  settle (settlement: Settlement, nowMs: number): SettleResult {
    if (settlement.outcome !== 'indeterminate' && this.#table.settleClaimed?.(settlement, nowMs) === true) {
      return { kind: 'settled', keepLeftMs: settlement.keepMs }
    }
    const before = this.#table.find(settlement.token.id)
    return this.#settled(before, transition(before, { kind: 'settle', settlement }, nowMs, this.#over(nowMs)), nowMs)
  }

  settleLost (settlement: Settlement, claim: Claim, ageMs: number, nowMs: number): SettleResult {
    const before = this.#table.find(settlement.token.id)
    if (this.#table.changedByHand(settlement.token.id, nowMs - ageMs)) {
      return { kind: 'refused', row: before === null ? null : rowOf(before, nowMs, this.#over(nowMs)) }
    }
    return this.#settled(before, transition(before, { kind: 'settleLost', settlement, claim }, nowMs, this.#over(nowMs)), nowMs)
  }

  lapse (order: LapseRows, nowMs: number): Lapsed[] {
    const { running } = order
    return this.#table.lapsing(order, this.#over(nowMs))
      .filter((row) => this.#write(transition(row, { kind: 'lapse', running }, nowMs, this.#over(nowMs)), row))
      .map(({ id, attempt, about: { route, requestId } }) => ({ id, route, requestId, attempt }))
  }

  sweep (limit: number, nowMs: number): Swept[] {
    return this.#table.removePast(limit, this.#over(nowMs))
  }

  takeProbes (order: ProbeOrder, nowMs: number): DueProbe[] {
    return this.#table.due(order, nowMs, this.#over(nowMs)).map((row) => {
      const probed = probedRow(row, order.withinMs, nowMs)
      this.#table.save(probed, row)
      return dueProbeOf(probed, nowMs, this.#over(nowMs))
    })
  }

  noteProbe (note: ProbeNote, nowMs: number): boolean {
    const before = this.#table.find(note.token.id)
    const after = before === null ? null : notedRow(before, note, nowMs)
    if (after === null) return false
    this.#table.save(after, before)
    return true
  }

  unresolved (nowMs: number): Unresolved {
    return this.#table.unresolved(nowMs)
  }

  list (filter: RecordFilter, nowMs: number): RecordDetail[] {
    return this.#table.list(filter).map((row) => detailOf(row, nowMs, this.#over(nowMs)))
  }

  resolve (resolution: Resolution, nowMs: number): OperatorResult {
    const before = this.#table.find(resolution.token.id)
    return this.#operated(before, transition(before, { kind: 'resolve', resolution }, nowMs, this.#over(nowMs)), resolution.audit, nowMs)
  }

  expire (token: Token, audit: AuditEntry, nowMs: number): OperatorResult {
    const before = this.#table.find(token.id)
    return this.#operated(before, transition(before, { kind: 'expire', token }, nowMs, this.#over(nowMs)), audit, nowMs)
  }

  /** The next probe is due now. */
  askNow (token: Token, audit: AuditEntry, nowMs: number): OperatorResult {
    const before = this.#table.find(token.id)
    const after = before === null || before.attempt !== token.attempt || !before.owner.equals(token.owner)
      ? null
      : askedNowRow(before, nowMs)
    return this.#operated(before, after === null ? { kind: 'refused', why: 'state' } : { kind: 'written', row: after }, audit, nowMs)
  }

  #over (nowMs: number): number {
    return Math.min(nowMs, this.believedMs)
  }

  #write (change: Change, before: RecordRow | null): change is Extract<Change, { kind: 'written' }> {
    if (change.kind !== 'written') return false
    this.#table.save(change.row, before)
    return true
  }

  #claimed (claim: Claim, kind: 'insert' | 'confirm', nowMs: number): ClaimResult {
    const before = this.#table.find(claim.id)
    const message = this.#messageOf(claim.id, nowMs)
    if (message !== null) return before === null ? { kind: 'message', message } : { kind: 'seen', row: rowOf(before, nowMs) }
    if (before === null && this.#isMoved(claim, nowMs)) return { kind: 'moved' }
    const change = transition(before, { kind, claim }, nowMs, this.#over(nowMs))
    if (before === null) this.#goPast(claim, nowMs)
    if (this.#write(change, before)) return { kind: 'won', attempt: change.row.attempt }
    if (before === null) throw new TypeError('a claim of a record that does not exist is never refused')
    return { kind: 'seen', row: rowOf(before, nowMs, this.#over(nowMs)) }
  }

  /** Another scheme claims, or a live record or message exists under the earlier id. */
  #isMoved ({ scheme, earlierId }: Identity, nowMs: number): boolean {
    if (scheme !== this.#table.scheme()) return true
    if (earlierId === null) return false
    const earlier = this.#table.find(earlierId)
    return (earlier !== null && !this.#isPast(earlier, nowMs)) || this.#messageOf(earlierId, nowMs) !== null
  }

  #isPast (row: RecordRow | null, nowMs: number): boolean {
    return row !== null && transition(row, { kind: 'sweep' }, nowMs, this.#over(nowMs)).kind === 'removed'
  }

  /** Removes what is past under the earlier id. A gateway that has seen it there can no longer take it. */
  #goPast ({ earlierId }: Identity, nowMs: number): void {
    if (earlierId === null) return
    this.#table.remove(earlierId)
    this.#forgetMessage(earlierId, nowMs)
  }

  #settled (before: RecordRow | null, change: Change, nowMs: number): SettleResult {
    if (this.#write(change, before)) return { kind: 'settled', keepLeftMs: (change.row.expiresAtMs ?? nowMs) - nowMs }
    return { kind: 'refused', row: before === null ? null : rowOf(before, nowMs, this.#over(nowMs)) }
  }

  #operated (before: RecordRow | null, change: Change, audit: AuditEntry, nowMs: number): OperatorResult {
    if (before !== null && this.#write(change, before)) {
      this.#table.note({ ...audit, atMs: nowMs, before, after: change.row })
      return { kind: 'done', row: rowOf(change.row, nowMs, this.#over(nowMs)) }
    }
    const waits = change.kind === 'refused' && change.why === 'quarantine' && before !== null
    return {
      kind: 'refused',
      row: before === null ? null : rowOf(before, nowMs, this.#over(nowMs)),
      quarantineLeftMs: waits ? quarantineLeftMs(before, this.#over(nowMs)) : null
    }
  }
}

function dueProbeOf (row: RecordRow, nowMs: number, overMs: number): DueProbe {
  return {
    token: { id: row.id, owner: row.owner, attempt: row.attempt },
    route: row.about.route,
    requestId: row.about.requestId,
    question: row.question ?? Buffer.alloc(0),
    trace: row.trace ?? null,
    tries: row.probeTries,
    unknownMs: nowMs - (row.settledAtMs ?? nowMs),
    quarantineLeftMs: quarantineLeftMs(row, overMs),
    absentMs: row.absentAtMs === null ? null : overMs - row.absentAtMs
  }
}
