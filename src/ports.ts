/**
 * The seams, types only. A driver knows the seam and not its neighbours; each says in prose what it guarantees, and every
 * driver of a port passes the one conformance suite of that port (test/conformance).
 */
import type { TimeWord } from './core/arbiter-time.ts'
import type { Identity } from './core/identity.ts'
import type { Holder, Refusal } from './core/limit.ts'
import type { MessageDetail } from './core/message.ts'
import type { DropPolicy, JwtPolicy, UpstreamPolicy } from './core/policy.ts'
import type { Asking, ProbeNote } from './core/probe.ts'
import type {
  Answer,
  Claim,
  Fingerprint,
  RawHeaders,
  RecordDetail,
  RecordState,
  Row,
  Seen,
  SettledState,
  Settlement,
  Token
} from './core/record.ts'
import type { Schemes } from './core/schemes.ts'
import type { TokenFault } from './core/token.ts'
import type { Unresolved } from './telling.ts'

export type { RecordCount, RecordCounts } from './counts-port.ts'
export type { DifferingRoute, RegisteredRoute, Registering, Registry } from './registry-port.ts'
export type { Passage, PassFault, PassListener, PassRequest, PassThrough } from './pass-port.ts'
export type {
  AcceptResult,
  HeldMessage,
  InboxStore,
  InboxWakes,
  MessageAudit,
  MessageFilter,
  Recovered,
  TakeMessages
} from './inbox-port.ts'

// ---------------------------------------------------------------- time and chance

export interface Clock {
  /** Never goes backwards; origin arbitrary. All deadlines of the gateway count on it. */
  monotonicMs: () => number
  /** Milliseconds since the Unix epoch. For people and for headers, never for leases. */
  wallMs: () => number
  /**
   * Milliseconds since the machine was started, also those in which it slept. The arbiter's time is held against it
   * (core/arbiter-time.ts).
   */
  bootMs: () => number
  /** Calls back once, after at least `ms`. Does not keep the process alive. */
  after: (ms: number, call: () => void) => Cancel
}

export type Cancel = () => void

export interface Random {
  bytes: (size: number) => Buffer
}

// ---------------------------------------------------------------- the arbiter

export type ClaimResult =
  /** The commit is acknowledged: the row says claimed, this owner, this attempt. */
  | { readonly kind: 'won', readonly attempt: number }
  /** Somebody's row stands there. */
  | { readonly kind: 'seen', readonly row: Row }
  | MessageStands
  | Moved

export type TakeResult = { readonly kind: 'won', readonly attempt: number } | { readonly kind: 'lost' } | MessageStands | Moved

/** Nothing was written: what this request asks for is in the inbox, as it stands there. */
export interface MessageStands { readonly kind: 'message', readonly message: MessageDetail }

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
  /** Any of these: a key has one for each scheme (core/schemes.ts). */
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
   * the gateways say. Tested in the writing statement, as acceptances test the records (inbox-port.ts). So is the claim's
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

// ---------------------------------------------------------------- the fast path

export interface Lock {
  readonly owner: Buffer
  readonly fingerprint: Fingerprint
  /** Wall clock of the locker. */
  readonly lockedAtMs: number
  /** The claim under this owner was acknowledged, as this attempt: if there is no row, it is lost. Absent: nobody says so. */
  readonly attempt?: number
}

/** A settled answer, or (consumed) the fact that there is none to give. */
export interface Copy {
  readonly state: 'completed' | 'consumed'
  readonly attempt: number
  readonly fingerprint: Fingerprint
  readonly answer: Answer
  /** Wall clock; one lease before the row's end, which is what clients are told (Idempotency-Expires). */
  readonly expiresAtMs: number
  /** The row's lease, whatever the route's is where it is read: a delete waits for two of these (P10). */
  readonly leaseMs: number
  /** Of the installation, as it was known before the statement that this was read from was sent. */
  readonly generation: number
}

/** What a settled row says to everybody else. */
export type SettledAnswer = Omit<Copy, 'expiresAtMs' | 'generation'>

/** An answer that the arbiter has not taken yet (E6): never replayed before it is settled by its owner and attempt. */
export interface UnsettledCopy {
  readonly owner: Buffer
  readonly attempt: number
  readonly fingerprint: Fingerprint
  readonly keepMs: number
  readonly answer: Answer
}

export type LockResult =
  | { readonly kind: 'locked' }
  /** My own token stands there already: a lost reply. */
  | { readonly kind: 'mine' }
  | { readonly kind: 'lock', readonly lock: Lock }
  | { readonly kind: 'copy', readonly copy: Copy }
  | { readonly kind: 'unsettled', readonly copy: UnsettledCopy }
  /** No Redis: an error, a time-out, an open breaker, an ambiguous or undecodable reply. Never "locked". */
  | { readonly kind: 'unavailable' }

export type LockValue =
  | { readonly kind: 'lock', readonly lock: Lock }
  | { readonly kind: 'copy', readonly copy: Copy }
  | { readonly kind: 'unsettled', readonly copy: UnsettledCopy }

/** The last beat of a gateway that its database has acknowledged. */
export interface Beat { readonly gateway: Buffer, readonly beat: number }

/** What tells this database's gateways from those of a copy of it that uses the same Redis. Fed by the heartbeat; never rejects. */
export interface Mirror {
  /** Whose beats stand there besides `self`'s. Asked before the database is asked for them. */
  look: (self: Buffer) => Promise<readonly Buffer[]>
  /** `known`: what the database has of those whom the last look has found. true: look again at once. */
  show: (mine: Beat, known: ReadonlyArray<number | null>) => Promise<boolean>
}

/**
 * Redis, or nothing. Losing it costs speed and never safety: no method rejects, and none is needed for correctness.
 * A value is replaced or deleted only by the token that stands there; absent is not mine (P10).
 */
export interface LockStore {
  readonly name: 'none' | 'memory' | 'redis'
  /** Absent: nobody else can have come by this store. */
  readonly mirror?: Mirror | undefined
  lock: (id: Buffer, lock: Lock, ttlMs: number) => Promise<LockResult>
  renew: (held: ReadonlyArray<{ readonly id: Buffer, readonly owner: Buffer }>, ttlMs: number) => Promise<void>
  /** Replace my lock (or my unsettled copy). false: nothing of mine stood there. */
  swap: (id: Buffer, owner: Buffer, value: LockValue, ttlMs: number) => Promise<boolean>
  unlock: (id: Buffer, owner: Buffer) => Promise<void>
  /** Delete the copy that stands there, if it is of this generation. */
  clear: (id: Buffer, generation: number) => Promise<void>
  /** Delete whatever stands there (operator's delete). false: Redis could not be told. */
  forget: (id: Buffer) => Promise<boolean>
  /** Tell everybody who watches this record to look. */
  wake: (id: Buffer) => void
  /** Resolves when the subscription stands (or cannot be had: then only polling remains). Subscribe, then look, then wait. */
  watch: (id: Buffer, onWake: () => void) => Promise<Cancel>
  /** false while the breaker is open or there is no Redis. */
  available: () => boolean
  close: () => Promise<void>
}

// ---------------------------------------------------------------- marks of mode drop

export type MarkResult =
  /** Nothing stood there (or my own, whose reply was lost): it stands now under my token. */
  | 'marked'
  /** Somebody forwards it just now. */
  | 'running'
  /** It was forwarded within the window. */
  | 'done'
  /** Nothing was written: as {@link Moved}. */
  | 'moved'

export interface Marking extends Identity {
  readonly token: Buffer
  readonly as: 'running' | 'done'
  readonly keepMs: number
}

/** Of a mark whose event has gone through. */
export type MarkEnding = Omit<Marking, 'as'>

/**
 * Which events have gone through of late: at most one mark for each record id, with an end. Times count on the store's own
 * clock.
 *
 * A driver guarantees: of all that mark one id at the same moment exactly one is told 'marked', and nobody else until that mark
 * is removed or over. It is removed by nobody but its own token. Rejections are {@link StoreUnavailable} (`inDoubt`: it may have
 * been applied, or may yet be) and StoreOverloaded (no room: nothing was written). A filter is weaker: it knows no `running`, so
 * that all who come before the first is done are told 'marked', and at its error rate an id that never came is told 'done'.
 * A store that cannot ask the database which scheme claims knows a lesser one by what a greater has left here, at the latest under
 * the earlier id of the same event: that is told 'moved', or (a filter) 'done'.
 */
export interface MarkStore {
  readonly name: 'memory' | 'sqlite' | 'postgres' | 'redis' | 'bloom'
  mark: (marking: Marking) => Promise<MarkResult>
  /** A mark stands there that lives, or (a filter) may. */
  stands: (id: Buffer) => Promise<boolean>
  /** It has gone through. Whatever stands there, and whichever scheme claims, this is as true: it replaces another's mark too. */
  done: (ending: MarkEnding) => Promise<void>
  /** Nothing under this token stands there any more, if it was this one's. false: this store cannot take a mark back. */
  remove: (id: Buffer, token: Buffer) => Promise<boolean>
}

/** All stores of marks of a process. */
export interface Marks {
  /** This route's. The same one for as long as its policy stands; a reload that changes the policy may begin with an empty one. */
  of: (route: string, policy: DropPolicy) => MarkStore
  /** Deletes what is over in the database, at most `limit`. Returns how many. */
  sweep: (limit: number) => Promise<number>
}

// ---------------------------------------------------------------- the upstream

export interface UpstreamRequest {
  /** As the route names it. A reload may have changed the configuration's since: this request keeps the one that it came under. */
  readonly upstream: UpstreamPolicy
  readonly method: string
  /** The raw request target. */
  readonly target: string
  readonly headers: RawHeaders
  readonly body: Buffer
  readonly responseBytesMax: number
  /** Absent: the upstream's own limit of an execution. */
  readonly timeoutMs?: number
  /** In whose share of the upstream's connections it counts. Absent: in nobody's. */
  readonly holder?: Holder
  /**
   * Called once, when it has a connection's place: before the first byte, and at once where there is one. Its time at
   * the upstream begins here. Absent: nobody waits for it.
   */
  readonly placed?: () => void
  /** Told of informational answers, but never of 100 or 101. */
  readonly informed?: (status: number, headers: RawHeaders) => void
  /** Asked before bytes of the answer are buffered; false (the gateway's own bound is reached): as if over `responseBytesMax`. */
  readonly reserve: (bytes: number) => boolean
}

/** What became of one sending. */
export type UpstreamResult =
  /**
   * No byte left, and none ever will (E4 "before"). `code` for people and logs. `refusal`: it has waited for a place in
   * vain, and for this.
   */
  | { readonly kind: 'unsent', readonly code: string, readonly refusal?: Refusal }
  /** Some byte may have left, and no whole answer came (E4 "during"). `status`: if a head was seen. */
  | { readonly kind: 'lost', readonly code: string, readonly timedOut: boolean, readonly status: number | null }
  | { readonly kind: 'answer', readonly answer: Answer }
  | StreamedResult

/** Larger than `responseBytesMax`, or a stream: the head, and the body still to be read. */
export interface StreamedResult {
  readonly kind: 'stream'
  readonly status: number
  readonly headers: RawHeaders
  readonly body: AsyncIterable<Buffer> & { destroy: (error?: Error) => void }
  /** Until then what was reserved for it is held: its beginning was buffered before it was seen to be a stream. Never rejects. */
  readonly taken: Promise<void>
  /** How the upstream ended it: null, whole, else the code of its break. A reader that leaves changes nothing; never rejects. */
  readonly over: Promise<string | null>
}

export interface Sending {
  readonly result: Promise<UpstreamResult>
  /**
   * Ends it: unsent if the last point before sending was not passed (and then never will be), else lost. `timedOut`: what has
   * come from the upstream by then is read first, and an answer that is whole is the result.
   */
  cancel: (code: string, timedOut: boolean) => void
}

export interface Upstream {
  /**
   * Never rejects; `result` neither. An answer with a status outside 200–599, or one that breaks off, is lost.
   *
   * Sends once and never again. `maySend` is asked synchronously at the last point before the first byte (undici's
   * onRequestStart); if it says no, the result is unsent with code `LEASE`.
   */
  send: (request: UpstreamRequest, maySend: () => boolean) => Sending
  close: () => Promise<void>
}

// ---------------------------------------------------------------- who asks

export type ClaimsResult =
  | { readonly kind: 'claims', readonly claims: Readonly<Record<string, unknown>> }
  | { readonly kind: 'invalid', readonly fault: TokenFault }
  /** The key set cannot be had just now. Told at once for some seconds after it could not: nobody waits for what has just failed. */
  | { readonly kind: 'unavailable' }

export interface TokenVerifier {
  verify: (policy: JwtPolicy, token: string) => Promise<ClaimsResult>
}

// ---------------------------------------------------------------- what is told

export type {
  CountedRoute,
  DeliveryLine,
  DeliveryLog,
  DeliveryResult,
  Log,
  HeldKind,
  Meter,
  ProbeResult,
  RequestLine,
  RequestLog,
  ShedLimit,
  Unresolved
} from './telling.ts'
