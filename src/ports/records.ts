/** The arbiter: the database that decides about records. */
import type { MessageDetail } from '../core/inbox/message.ts'
import type { Asking, ProbeNote } from '../core/probe/probe.ts'
import type { TimeWord } from '../core/protocol/arbiter-time.ts'
import type { Claim, Fingerprint, RecordDetail, RecordState, Row, Seen, SettledState, Settlement, Token } from '../core/record/record.ts'
import type { Schemes } from '../core/record/schemes.ts'
import type { Unresolved } from './telemetry.ts'

export type ClaimResult =
  /** The commit is acknowledged: the row says claimed, this owner, this attempt. */
  | { readonly kind: 'won', readonly attempt: number }
  /** Somebody's row stands there. */
  | { readonly kind: 'seen', readonly row: Row }
  | MessageExists
  | Moved

export type TakeResult = { readonly kind: 'won', readonly attempt: number } | { readonly kind: 'lost' } | MessageExists | Moved

/** Nothing was written: what this request asks for is in the inbox, as it stands there. */
export interface MessageExists { readonly kind: 'message', readonly message: MessageDetail }

/** Nothing was written: another scheme claims by now, or something that lives stands under the earlier id. To be identified anew. */
export interface Moved { readonly kind: 'moved' }

export interface LostQuestion {
  /** The number of the lost scheme. */
  readonly lost: number
  readonly route: string
  readonly key: string
  /** What is asked, by each of its algorithms. */
  readonly fingerprints: readonly Fingerprint[]
}

export type SettleResult =
  /** Acknowledged. `keepLeftMs`: until the row may be swept. */
  | { readonly kind: 'settled', readonly keepLeftMs: number }
  /** Nothing changed; the row as it stands, read afterwards on the same connection, or null if there is none. */
  | { readonly kind: 'refused', readonly row: Row | null }

export type RenewResult = 'renewed' | 'skipped' | 'lost'

export interface LapseOrder {
  /** null: any record whose lease is over (the sweeper's order). */
  readonly ids: readonly Buffer[] | null
  /** Owners of this process's own running executions: never lapsed by itself. */
  readonly running: readonly Buffer[]
  readonly limit: number
  /**
   * Asked when the store has been reached, right before the write: false, and nothing is lapsed. An order that has waited for
   * an outage to end was given by somebody who could not know of it (E2b); the living had no chance to renew yet.
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
  /** Which asking said so; null: none. One that somebody has asked since frees nothing, nor one without a "not found" before it. */
  readonly tries: number | null
  readonly audit: AuditEntry
}

export interface AuditEntry {
  readonly action: 'resolve' | 'release' | 'delete'
  readonly who: string
  readonly why: string
}

export type OperatorResult =
  | { readonly kind: 'done', readonly row: Row }
  /** Nothing changed: the token did not match, the state does not allow it, or the quarantine is not over. */
  | { readonly kind: 'refused', readonly row: Row | null, readonly quarantineLeftMs: number | null }

export interface RecordFilter {
  readonly id?: Buffer
  /** Any of these: a key has one for each scheme (core/record/schemes.ts). */
  readonly keyHashes?: readonly Buffer[]
  readonly route?: string
  readonly state?: RecordState
  /** At most this many, newest claims first. */
  readonly limit: number
}

export interface ProbeOrder {
  /** Only records of these: who does not know a route cannot ask for it. */
  readonly routes: readonly string[]
  /** So long nobody else asks about what is handed out. */
  readonly withinMs: number
  readonly limit: number
}

/** A record of unknown outcome that the upstream is to be asked about, by whom it was handed to. */
export interface DueProbe extends Asking {
  readonly token: Token
  readonly route: string
  readonly requestId: string
  readonly question: Buffer
}

export interface SignOfLife {
  /** Drawn at the start of the process ({@link OWNER_BYTES} of them). */
  readonly gateway: Buffer
  /** For people. */
  readonly instance: string
  /** Greater than that of every sign of this gateway before. */
  readonly beat: number
  /** How far this gateway finds the store's clock ahead. */
  readonly aheadMs: number
  /** Absent: it does not judge the store's time. */
  readonly time?: TimeWord
  /** Gateways whose beats are asked for with it. */
  readonly others?: readonly Buffer[]
}

/** What the store says of itself with every sign of life. */
export interface Beaten {
  /** The store's time, Unix milliseconds, read after the statement had begun and before it was answered. */
  readonly nowMs: number
  /** Of the copies in Redis that may be believed. */
  readonly generation: number
  /** The number of the scheme that claims; absent: as it was. */
  readonly scheme?: number
  /** How far the clock is ahead by somebody's word that still holds; 0: it is not. */
  readonly aheadMs: number
  /** How often an operator has said that the time is right. */
  readonly confirmations: number
  /** The store's time at which one said so last. null: nobody has. */
  readonly confirmedMs?: number | null
  /** The last time that was right, where `aheadMs` is not 0. */
  readonly aheadAfterMs?: number | null
  /** How far another gateway that lives finds the clock ahead, whoever else believes it. */
  readonly suspectedMs?: number
  /** A gateway that trusted the time before the doubt began finds nothing wrong with it since. */
  readonly contradicted?: boolean
  /** The beats of `others`, in their order; null: there was none. Absent: one process has this store. */
  readonly others?: ReadonlyArray<number | null>
}

/**
 * The arbiter: one durable row per record. Every write is one short transaction of its own; nothing is held around it.
 *
 * A driver guarantees: a resolved promise means that the commit is acknowledged (or, for a read, that the row is
 * committed; a row that an answer would be given from, and a refusal, are as durable as what is acknowledged). A
 * rejection is {@link StoreUnavailable} (`inDoubt` says whether it may have been applied), StoreRejected (content) or
 * StoreOverloaded (never sent). Compare-and-set conditions are tested on the locked row in the writing statement (P5).
 * Calls of one kind may be combined into one statement; the order of two calls that are both under way is not defined.
 */
export interface RecordStore {
  readonly name: 'memory' | 'sqlite' | 'postgres'
  /** The random id that the first migration wrote into this database. */
  readonly installation: string

  /**
   * Insert; if a row stands there, say which. Never takes. An own token that is found counts as `seen`. Where a message of the
   * inbox stands under the id, nothing is inserted, taken or confirmed: one key is executed or accepted, whatever the routes of
   * the gateways say. Tested in the writing statement, as acceptances test the records (inbox.ts). So is the claim's
   * scheme, and what stands under its earlier id: whoever switches the scheme waits for the claims under way.
   */
  insert: (claim: Claim) => Promise<ClaimResult>
  /**
   * Take a row that was seen as released, past, or (with `mayRetry`) indeterminate; compare-and-set on what was seen and
   * on the state. A past row starts a new life with attempt 1, by the scheme that claims alone, else attempt + 1. What
   * was asked is compared as it was seen: the claim's own fingerprint, which the row has from then on, may be of
   * another algorithm.
   */
  take: (seen: Seen, claim: Claim, mayRetry: boolean) => Promise<TakeResult>
  /**
   * After a claim (insert or take) in doubt: a write under the same token (P6). 'won' only if the row is claimed with
   * this owner and that is acknowledged. If there is no row it is inserted with attempt 1.
   */
  confirm: (claim: Claim) => Promise<ClaimResult>
  look: (id: Buffer) => Promise<Row | null>
  schemes: () => Promise<Schemes>
  /** By which algorithms what is left of a lost scheme was fingerprinted, on a route. */
  lostAlgorithms: (lost: number, route: string) => Promise<number[]>
  /**
   * A record or message of a lost scheme that lives may be of this very request: it has its key as text, or, where the
   * row has none, what was asked.
   */
  mayBeLost: (question: LostQuestion) => Promise<boolean>
  /** Looks whether anything of the earlier scheme is left, where it is time to; if not, that scheme has ended. */
  endEarlierScheme: () => Promise<void>
  /**
   * In the order of `tokens`. 'skipped': the row is locked by somebody, or there is none: a failover lost it, nobody else has
   * claimed it, and its owner goes on holding what it has (the lock in Redis) until it puts the outcome back. Try again: a locked
   * row is waited for behind the call for as long as it is asked for, and no lapse takes it in the moment in which it is let go of.
   * A connection of its own (P8).
   */
  renew: (tokens: readonly Token[]) => Promise<RenewResult[]>
  /** Settle or release, compare-and-set on owner, attempt and state as protocol.md's table says. Never waits behind claims. */
  settle: (settlement: Settlement) => Promise<SettleResult>
  /**
   * The row vanished (a failover): insert the outcome, unless somebody else's row stands there (then refused). `ageMs`: since
   * the claim. Refused too if somebody has resolved, released or deleted this record by hand since then: that row was swept.
   */
  settleLost: (settlement: Settlement, claim: Claim, ageMs: number) => Promise<SettleResult>
  /** claimed with the lease over -> indeterminate, kept as long as each row says. */
  lapse: (order: LapseOrder) => Promise<Lapsed[]>
  /** Delete what is past, at most `limit` rows. */
  sweep: (limit: number) => Promise<Swept[]>

  /** Indeterminate records whose question is due, longest due first, handed to the caller: an asking that dies is handed out again. */
  takeProbes: (order: ProbeOrder) => Promise<DueProbe[]>
  /** What an asking came to that settles nothing. false: the record has moved on, or somebody else has asked since. */
  noteProbe: (note: ProbeNote) => Promise<boolean>
  unresolved: () => Promise<Unresolved>
  list: (filter: RecordFilter) => Promise<RecordDetail[]>
  /**
   * Operator or probe, only from indeterminate; releasing only after the row's quarantine. Writes the audit row in the
   * same transaction.
   */
  resolve: (resolution: Resolution) => Promise<OperatorResult>
  /** Operator's delete of a settled record: expires in two leases of the row. Refused while claimed or indeterminate. Audited. */
  expire: (token: Token, audit: AuditEntry) => Promise<OperatorResult>

  /**
   * A sign of life: a small real write, so that its acknowledgement says that the store takes writes (E2b). Rejects when the
   * store cannot serve.
   */
  beat: (sign: SignOfLife) => Promise<Beaten>
  close: () => Promise<void>
}
