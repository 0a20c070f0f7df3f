/** The port of the arbiter: the database that decides about records. */
import type { RecordAction } from '../core/record/audit.ts'
import type { MessageDetail } from '../core/inbox/message.ts'
import type { ProbeProgress, ProbeNote } from '../core/probe/probe.ts'
import type { TimeReport } from '../core/protocol/arbiter-time.ts'
import type { Claim, Fingerprint, RecordDetail, RecordState, Row, Seen, SettledState, Settlement, Token } from '../core/record/record.ts'
import type { Schemes } from '../core/record/schemes.ts'
import type { Unresolved } from './telemetry.ts'

export type ClaimResult =
  /** The commit is acknowledged. The row is claimed by this owner, with this attempt. */
  | { readonly kind: 'won', readonly attempt: number }
  /** Another owner's row exists. */
  | { readonly kind: 'seen', readonly row: Row }
  | MessageExists
  | Moved

export type TakeResult = { readonly kind: 'won', readonly attempt: number } | { readonly kind: 'lost' } | MessageExists | Moved

/** Nothing was written. The request is already a message in the inbox. */
export interface MessageExists { readonly kind: 'message', readonly message: MessageDetail }

/**
 * Nothing was written. Another scheme claims now, or a live record or message exists under the earlier id. The request must be
 * identified anew.
 */
export interface Moved { readonly kind: 'moved' }

export interface LostQuestion {
  /** The number of the lost scheme. */
  readonly lost: number
  readonly route: string
  readonly key: string
  /** The fingerprint of the request, by each algorithm. */
  readonly fingerprints: readonly Fingerprint[]
}

export type SettleResult =
  /** Acknowledged. `keepLeftMs`: until the row may be swept. */
  | { readonly kind: 'settled', readonly keepLeftMs: number }
  /** Nothing changed. `row` was read afterwards on the same connection. null: there is none. */
  | { readonly kind: 'refused', readonly row: Row | null }

export type RenewResult = 'renewed' | 'skipped' | 'lost'

export interface LapseOrder {
  /** null: any record whose lease is over (for the sweeper). */
  readonly ids: readonly Buffer[] | null
  /** Owners of this process's running executions. They are never lapsed. */
  readonly running: readonly Buffer[]
  readonly limit: number
  /**
   * Called when the store has been reached, right before the write. false: lapse nothing. An order that waited for the end of
   * an outage may be outdated (E2b): living owners had no chance to renew yet.
   */
  readonly still: () => boolean
}

export interface Lapsed { readonly id: Buffer, readonly route: string, readonly requestId: string, readonly attempt: number }

export interface Swept { readonly state: SettledState, readonly count: number }

export interface Resolution {
  readonly token: Token
  readonly outcome: Exclude<SettledState, 'indeterminate'>
  readonly keepMs: number
  readonly status: number | null
  readonly headers: Buffer | null
  readonly body: Buffer | null
  readonly by: 'operator' | 'probe'
  /**
   * The number of the probe that found this. null: no probe. A release needs two things: no later probe, and an earlier "not
   * found".
   */
  readonly tries: number | null
  readonly audit: AuditEntry
}

export interface AuditEntry {
  readonly action: RecordAction
  readonly who: string
  /** How the operator was recognised. Absent: no operator, a probe. */
  readonly via?: string
  readonly why: string
}

export type OperatorResult =
  | { readonly kind: 'done', readonly row: Row }
  /** Nothing changed: the token did not match, the state does not allow it, or the quarantine is not over. */
  | { readonly kind: 'refused', readonly row: Row | null, readonly quarantineLeftMs: number | null }

export interface RecordFilter {
  readonly id?: Buffer
  /** Any of these key hashes: a key has one per scheme (core/record/schemes.ts). */
  readonly keyHashes?: readonly Buffer[]
  readonly route?: string
  readonly state?: RecordState
  /** At most this many, newest claims first. */
  readonly limit: number
}

export interface ProbeOrder {
  /** Only records of these routes: those that the caller can probe. */
  readonly routes: readonly string[]
  /** For this long no other caller gets the same record. */
  readonly withinMs: number
  readonly limit: number
}

/** A record of unknown outcome that this caller is to probe. */
export interface DueProbe extends ProbeProgress {
  readonly token: Token
  readonly route: string
  readonly requestId: string
  readonly question: Buffer
  /** Trace context of the request that executed (Claim.trace). */
  readonly trace?: string | null
}

export interface SignOfLife {
  /** Random bytes, drawn at the start of the process (as many as an owner has). */
  readonly gateway: Buffer
  /** For people. */
  readonly instance: string
  /** Greater than the beat of every earlier sign of this gateway. */
  readonly beat: number
  /** By how much this gateway finds the store's clock ahead. */
  readonly aheadMs: number
  /** Absent: the gateway does not judge the store's time. */
  readonly time?: TimeReport
  /** Gateways whose beats are read with it. */
  readonly others?: readonly Buffer[]
}

/** What the store returns with every sign of life. */
export interface Beaten {
  /** The store's time, Unix milliseconds. It was read after the statement began and before the reply. */
  readonly nowMs: number
  /** The generation of copies in Redis that are valid. */
  readonly generation: number
  /** The number of the scheme that claims. Absent: unchanged. */
  readonly scheme?: number
  /** By how much the clock is ahead, as a gateway has found and the store still holds. 0: not ahead. */
  readonly aheadMs: number
  /** How often an operator has confirmed the time. */
  readonly confirmations: number
  /** The store's time at the last confirmation. null: there was none. */
  readonly confirmedMs?: number | null
  /** The last time that was right, if `aheadMs` is not 0. */
  readonly aheadAfterMs?: number | null
  /** By how much another living gateway finds the clock ahead, even if no other gateway agrees. */
  readonly suspectedMs?: number
  /** A gateway that trusted the time before the doubt began has found nothing wrong since. */
  readonly contradicted?: boolean
  /** The beats of `others`, in their order. null: there was none. Absent: one process has this store. */
  readonly others?: ReadonlyArray<number | null>
}

/** Gets the result of {@link RecordLanes.insert}. One method is called, once, after the call has returned. */
export interface ClaimReply {
  claimed: (result: ClaimResult) => void
  claimFailed: (error: unknown) => void
}

/** The same for {@link RecordLanes.settle}. */
export interface SettleReply {
  settled: (result: SettleResult) => void
  settleFailed: (error: unknown) => void
}

/**
 * `insert` and `settle` for the way of every first request. They mean the same and make no promise: the result is handed to the reply
 * (docs/internals/performance.md).
 */
export interface RecordLanes {
  insert: (claim: Claim, reply: ClaimReply) => void
  settle: (settlement: Settlement, reply: SettleReply) => void
}

/**
 * The arbiter: one durable row per record. Every write is one short transaction of its own. No transaction stays open around
 * calls.
 *
 * A driver guarantees:
 *
 * - A resolved write means that the commit is acknowledged. A resolved read means that the row is committed.
 * - A row that an answer may be replayed from, and a refusal, are as durable as an acknowledged write.
 * - A rejection is StoreUnavailable (`inDoubt`: it may have been applied), StoreRejected (content) or StoreOverloaded (never
 *   sent).
 * - Compare-and-set conditions are tested on the locked row, in the writing statement (P5).
 * - Calls of one kind may be combined into one statement. The order of two calls in flight is not defined.
 */
export interface RecordStore {
  readonly name: 'memory' | 'sqlite' | 'postgres'
  /** The random id that the first migration wrote into this database. */
  readonly installation: string
  /** Absent: `insert` and `settle` are called in their place (lanes.ts). */
  readonly lanes?: RecordLanes | undefined

  /**
   * Inserts the row. If a row exists, returns it. Never takes. The caller's own token, if found, counts as `seen`.
   *
   * If the inbox has a message under the id, nothing is inserted, taken or confirmed. So a key is executed or accepted, never
   * both, whatever modes the gateways' routes have. The writing statement tests this, as acceptances test the records
   * (inbox.ts). It also tests the claim's scheme, and the record and the message under its earlier id. A switch of the scheme
   * waits for the claims in flight.
   */
  insert: (claim: Claim) => Promise<ClaimResult>
  /**
   * Takes a row that was seen as released, past, or (with `mayRetry`) indeterminate. Compare-and-set on what was seen and on
   * the state.
   *
   * A past row starts a new life with attempt 1, and only under the scheme that claims. Any other row gets attempt + 1. The
   * fingerprint is compared with the one that was seen. The claim's own fingerprint, which the row has afterwards, may be of
   * another algorithm.
   */
  take: (seen: Seen, claim: Claim, mayRetry: boolean) => Promise<TakeResult>
  /**
   * After a claim (insert or take) in doubt: a write under the same token (P6). Returns 'won' only if the row is claimed by
   * this owner and that is acknowledged. If there is no row, it is inserted with attempt 1.
   */
  confirm: (claim: Claim) => Promise<ClaimResult>
  look: (id: Buffer) => Promise<Row | null>
  schemes: () => Promise<Schemes>
  /** The algorithms of the fingerprints that remain from a lost scheme, on a route. */
  lostAlgorithms: (lost: number, route: string) => Promise<number[]>
  /**
   * true: a live record or message of a lost scheme may be of this request. It has the same key as text. If the row has no key
   * text, it has the same fingerprint.
   */
  mayBeLost: (question: LostQuestion) => Promise<boolean>
  /** Ends the earlier scheme if nothing is left of it. Looks only when a look is due. */
  endEarlierScheme: () => Promise<void>
  /**
   * In the order of `tokens`.
   *
   * 'skipped': the row is locked, or there is none because a failover lost it. If it was lost, no other owner has claimed it.
   * Its owner keeps its lock in Redis until it puts the outcome back. The caller tries again. The driver goes on waiting for a
   * locked row while callers ask for it, and no lapse takes the row when the lock is released. Renewals have a connection of
   * their own (P8).
   */
  renew: (tokens: readonly Token[]) => Promise<RenewResult[]>
  /**
   * Settles or releases. Compare-and-set on owner, attempt and state, as the table in protocol.md says. Never waits behind
   * claims.
   */
  settle: (settlement: Settlement) => Promise<SettleResult>
  /**
   * The row vanished (a failover): inserts the outcome. `ageMs`: since the claim. Refused if another row exists. Also refused
   * if an operator or a probe has resolved, released or deleted this record since then, because that row was swept.
   */
  settleLost: (settlement: Settlement, claim: Claim, ageMs: number) => Promise<SettleResult>
  /** claimed with the lease over → indeterminate, kept as long as each row says. */
  lapse: (order: LapseOrder) => Promise<Lapsed[]>
  /** Deletes expired rows, at most `limit`. */
  sweep: (limit: number) => Promise<Swept[]>

  /** Indeterminate records that are due for a probe, longest due first. If the prober dies, the record is handed out again. */
  takeProbes: (order: ProbeOrder) => Promise<DueProbe[]>
  /** Notes a probe that settles nothing. false: the record has changed, or another probe has begun since. */
  noteProbe: (note: ProbeNote) => Promise<boolean>
  unresolved: () => Promise<Unresolved>
  list: (filter: RecordFilter) => Promise<RecordDetail[]>
  /**
   * By an operator or a probe, only from indeterminate. A release only after the row's quarantine. Writes the audit row in the
   * same transaction.
   */
  resolve: (resolution: Resolution) => Promise<OperatorResult>
  /**
   * Operator's delete of a settled record. It expires after two leases of the row. Refused while claimed or indeterminate.
   * Audited.
   */
  expire: (token: Token, audit: AuditEntry) => Promise<OperatorResult>

  /**
   * A sign of life: a small real write. Its acknowledgement proves that the store takes writes (E2b). Rejects if the store
   * cannot serve.
   */
  beat: (sign: SignOfLife) => Promise<Beaten>
  close: () => Promise<void>
}
