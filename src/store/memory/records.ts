/**
 * The arbiter in memory, for tests and simulations: the protocol's state machine over a Map, on a given clock. Keeps nothing
 * beyond the process. Never fails by itself: tests wrap it to delay, drop or break calls.
 */
import { randomBytes } from 'node:crypto'
import { transition } from '../../core/protocol/transitions.ts'
import type { MessageDetail } from '../../core/inbox/message.ts'
import type { ProbeNote } from '../../core/probe/probe.ts'
import { isDue, isPast, leaseIsOver, violation, type RecordRow } from '../../core/protocol/row.ts'
import { StoreRejected, StoreUnavailable } from '../../ports/errors.ts'
import { generationAfter } from '../../core/record/generation.ts'
import { RecordTable, type Audited, type LapseRows, type Table } from '../shared/record-table.ts'
import { lostAlgorithms, mayBeLost, MemorySchemes, type StoredUnderScheme } from './schemes.ts'
import type { SwitchOrder, SwitchResult } from '../../core/record/scheme-switch.ts'
import { FIRST_NAME, type Schemes } from '../../core/record/schemes.ts'
import type { Claim, RecordDetail, Row, Seen, SettledState, Settlement, Token } from '../../core/record/record.ts'
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
import type { Unresolved } from '../../ports/telemetry.ts'

export interface MemoryOptions {
  /** Unix milliseconds. Leases and expiry count on it. */
  readonly nowMs: () => number
  /** The name of the store, as a database would have. Absent: drawn at random. */
  readonly installation?: string
  /** At this many records a claim of a new one is refused with StoreUnavailable, not in doubt. */
  readonly recordsMax?: number
  /** How far the clock is trusted, read with every call. null, or absent: without a limit. */
  readonly believedMs?: () => number | null
  /** The name of its first scheme. */
  readonly scheme?: string
}

/** The inbox in memory that belongs to the same gateway. */
export interface SiblingInbox {
  readonly messageOf: (id: Buffer) => MessageDetail | null
  /** Removes an expired message. */
  readonly forget: (id: Buffer) => void
  /** All messages, past or not. */
  readonly stored: () => readonly StoredUnderScheme[]
}

const NO_INBOX: SiblingInbox = { messageOf: () => null, forget: () => {}, stored: () => [] }

/** A simulation of a busy minute stays below it. A leak reaches it before the machine's memory is full. */
const RECORDS_MAX = 100_000
/** Audit entries kept. The oldest go first. Only tests read more of them. */
const AUDITS_MAX = 1_000

export class MemoryStore implements RecordStore {
  readonly name = 'memory'
  readonly installation: string
  /** The inbox sets this itself (inbox.ts). */
  siblingInbox: SiblingInbox = NO_INBOX
  readonly #nowMs: () => number
  readonly #believedMs: () => number | null
  readonly #table: MapTable
  readonly #records: RecordTable
  readonly #schemes: MemorySchemes
  #generation = 1
  #closed = false

  constructor (options: MemoryOptions) {
    this.installation = options.installation ?? randomBytes(16).toString('hex')
    this.#nowMs = options.nowMs
    this.#believedMs = options.believedMs ?? (() => null)
    this.#schemes = new MemorySchemes(options.scheme ?? FIRST_NAME, options.nowMs())
    this.#table = new MapTable(options.recordsMax ?? RECORDS_MAX, this.#schemes)
    this.#records = new RecordTable(this.#table, (id) => this.siblingInbox.messageOf(id), (id) => { this.siblingInbox.forget(id) })
  }

  /** The number of the scheme that claims. */
  get scheme (): number {
    return this.#schemes.number
  }

  /** Changes by operators, oldest first. */
  get audits (): readonly Audited[] {
    return this.#table.audits
  }

  insert (claim: Claim): Promise<ClaimResult> {
    return this.#run('insert', (nowMs) => this.#records.insert(claim, nowMs))
  }

  take (seen: Seen, claim: Claim, mayRetry: boolean): Promise<TakeResult> {
    return this.#run('take', (nowMs) => this.#records.take(seen, claim, mayRetry, nowMs))
  }

  /** A record exists that is not past. Synchronous, so that the inbox tests and writes in one step. */
  isRecorded (id: Buffer): boolean {
    this.#records.believedMs = this.#believedMs() ?? Infinity
    return this.#records.look(id, this.#nowMs())?.past === false
  }

  /** The claim is in place, whether its lease is over or not. */
  isClaimed ({ id, owner, attempt }: Token): boolean {
    const row = this.#records.look(id, this.#nowMs())
    return row?.state === 'claimed' && row.attempt === attempt && row.owner.equals(owner)
  }

  /** Removes the expired record under this id. An acceptance supersedes it. */
  forget (id: Buffer): void {
    this.#table.remove(id)
  }

  confirm (claim: Claim): Promise<ClaimResult> {
    return this.#run('confirm', (nowMs) => this.#records.confirm(claim, nowMs))
  }

  look (id: Buffer): Promise<Row | null> {
    return this.#run('look', (nowMs) => this.#records.look(id, nowMs))
  }

  schemes (): Promise<Schemes> {
    return this.#run('schemes', (nowMs) => this.#schemes.read(nowMs))
  }

  lostAlgorithms (lost: number, route: string): Promise<number[]> {
    return this.#run('lostAlgorithms', (nowMs) => lostAlgorithms(this.#stored(nowMs), lost, route))
  }

  mayBeLost (question: LostQuestion): Promise<boolean> {
    return this.#run('mayBeLost', (nowMs) => mayBeLost(this.#stored(nowMs), question))
  }

  endEarlierScheme (): Promise<void> {
    return this.#run('endEarlierScheme', (nowMs) => { this.#schemes.end(this.#stored(nowMs)) })
  }

  /** Another scheme claims from now on. Done when this returns. */
  switchScheme (name: string, { isLost = false, dryRun = false }: Partial<SwitchOrder> = {}): SwitchResult {
    this.#records.believedMs = this.#believedMs() ?? Infinity
    return this.#schemes.switch({ name, isLost, dryRun }, this.#stored(this.#nowMs()), this.#nowMs())
  }

  renew (tokens: readonly Token[]): Promise<RenewResult[]> {
    return this.#run('renew', (nowMs) => this.#records.renew(tokens, nowMs))
  }

  settle (settlement: Settlement): Promise<SettleResult> {
    return this.#run('settle', (nowMs) => this.#records.settle(settlement, nowMs))
  }

  settleLost (settlement: Settlement, claim: Claim, ageMs: number): Promise<SettleResult> {
    return this.#run('settleLost', (nowMs) => this.#records.settleLost(settlement, claim, ageMs, nowMs))
  }

  lapse (order: LapseOrder): Promise<Lapsed[]> {
    return this.#run('lapse', (nowMs) => order.still() ? this.#records.lapse(order, nowMs) : [])
  }

  sweep (limit: number): Promise<Swept[]> {
    return this.#run('sweep', (nowMs) => this.#records.sweep(limit, nowMs))
  }

  takeProbes (order: ProbeOrder): Promise<DueProbe[]> {
    return this.#run('takeProbes', (nowMs) => this.#records.takeProbes(order, nowMs))
  }

  noteProbe (note: ProbeNote): Promise<boolean> {
    return this.#run('noteProbe', (nowMs) => this.#records.noteProbe(note, nowMs))
  }

  unresolved (): Promise<Unresolved> {
    return this.#run('unresolved', (nowMs) => this.#records.unresolved(nowMs))
  }

  list (filter: RecordFilter): Promise<RecordDetail[]> {
    return this.#run('list', (nowMs) => this.#records.list(filter, nowMs))
  }

  resolve (resolution: Resolution): Promise<OperatorResult> {
    return this.#run('resolve', (nowMs) => this.#records.resolve(resolution, nowMs))
  }

  expire (token: Token, audit: AuditEntry): Promise<OperatorResult> {
    return this.#run('expire', (nowMs) => {
      const result = this.#records.expire(token, audit, nowMs)
      if (result.kind === 'done') this.#generation = generationAfter(this.#generation, nowMs)
      return result
    })
  }

  beat (_sign: SignOfLife): Promise<Beaten> {
    return this.#run('beat', (nowMs) => ({
      nowMs,
      generation: this.#generation,
      scheme: this.#schemes.number,
      aheadMs: 0,
      confirmations: 0
    }))
  }

  close (): Promise<void> {
    this.#closed = true
    return Promise.resolve()
  }

  #stored (nowMs: number): { readonly records: readonly StoredUnderScheme[], readonly messages: readonly StoredUnderScheme[] } {
    return { records: this.#table.stored(Math.min(nowMs, this.#records.believedMs)), messages: this.siblingInbox.stored() }
  }

  /** Applied at once, reported later: a caller learns nothing before the next microtasks. */
  async #run<Result> (operation: string, work: (nowMs: number) => Result): Promise<Result> {
    if (this.#closed) throw new StoreUnavailable('memory', operation, false, new Error('closed'))
    this.#records.believedMs = this.#believedMs() ?? Infinity
    return work(this.#nowMs())
  }
}

class MapTable implements Table {
  readonly audits: Audited[] = []
  readonly #rows = new Map<string, RecordRow>()
  readonly #recordsMax: number
  readonly #schemes: MemorySchemes

  constructor (recordsMax: number, schemes: MemorySchemes) {
    this.#recordsMax = recordsMax
    this.#schemes = schemes
  }

  scheme (): number { return this.#schemes.number }

  isLost (scheme: number): boolean { return this.#schemes.isLost(scheme) }

  find (id: Buffer): RecordRow | null {
    return this.#rows.get(id.toString('hex')) ?? null
  }

  save (row: RecordRow): void {
    const broken = violation(row)
    if (broken !== null) throw new StoreRejected('memory', 'write', new Error(broken))
    const name = row.id.toString('hex')
    if (!this.#rows.has(name) && this.#rows.size >= this.#recordsMax) {
      throw new StoreUnavailable('memory', 'insert', false, new Error('full'))
    }
    this.#rows.set(name, row)
  }

  remove (id: Buffer): void {
    this.#rows.delete(id.toString('hex'))
  }

  stored (overMs: number): StoredUnderScheme[] {
    return Array.from(this.#rows.values(), (row) => ({ ...row, past: isPast(row, overMs) }))
  }

  lapsing ({ ids, running, limit }: LapseRows, nowMs: number): RecordRow[] {
    return [...this.#rows.values()]
      .filter((row) => row.state === 'claimed' && leaseIsOver(row, nowMs))
      .filter((row) => ids === null || ids.some((id) => id.equals(row.id)))
      .filter((row) => !running.some((owner) => owner.equals(row.owner)))
      .sort((a, b) => (a.leaseUntilMs ?? 0) - (b.leaseUntilMs ?? 0))
      .slice(0, limit)
  }

  removePast (limit: number, nowMs: number): Swept[] {
    const counts = new Map<SettledState, number>()
    const past = [...this.#rows].filter(([, row]) => transition(row, { kind: 'sweep' }, nowMs).kind === 'removed').slice(0, limit)
    for (const [name, { state }] of past) {
      const counted = state === 'undecodable' || state === 'claimed' ? 'indeterminate' : state
      this.#rows.delete(name)
      counts.set(counted, (counts.get(counted) ?? 0) + 1)
    }
    return [...counts].map(([state, count]) => ({ state, count }))
  }

  due ({ routes, limit }: Pick<ProbeOrder, 'routes' | 'limit'>, nowMs: number, overMs: number): RecordRow[] {
    return [...this.#rows.values()]
      .filter((row) => isDue(row, nowMs, overMs) && routes.includes(row.about.route))
      .sort((a, b) => (a.probeAtMs ?? a.settledAtMs ?? 0) - (b.probeAtMs ?? b.settledAtMs ?? 0))
      .slice(0, limit)
  }

  unresolved (nowMs: number): Unresolved {
    const since = [...this.#rows.values()].filter((row) => row.state === 'indeterminate').map((row) => row.settledAtMs ?? nowMs)
    return { count: since.length, oldestMs: since.length === 0 ? null : nowMs - since.reduce((a, b) => Math.min(a, b)) }
  }

  list ({ id, keyHashes, route, state, limit }: RecordFilter): RecordRow[] {
    return [...this.#rows.values()]
      .filter((row) => id === undefined || id.equals(row.id))
      .filter((row) => keyHashes === undefined || keyHashes.some((each) => each.equals(row.about.keyHash)))
      .filter((row) => route === undefined || route === row.about.route)
      .filter((row) => state === undefined || state === row.state)
      .sort((a, b) => b.claimedAtMs - a.claimedAtMs)
      .slice(0, limit)
  }

  changedByHand (id: Buffer, sinceMs: number): boolean {
    return this.audits.some(({ before, atMs }) => atMs >= sinceMs && before.id.equals(id))
  }

  note (audited: Audited): void {
    this.audits.push(audited)
    if (this.audits.length > AUDITS_MAX) this.audits.shift()
  }
}
