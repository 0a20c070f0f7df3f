/** The fast path: locks, copies and wake-ups in Redis. It saves round trips, and decides nothing. */
import type { Answer, Fingerprint } from '../core/record/record.ts'
import type { Cancel } from './clock.ts'

export interface Lock {
  readonly owner: Buffer
  readonly fingerprint: Fingerprint
  /** Wall clock of the gateway that locked. */
  readonly lockedAtMs: number
  /** The attempt of this owner's acknowledged claim. If the row is missing, the database has lost it. Absent: unknown. */
  readonly attempt?: number
}

/** A settled answer. `consumed`: there is no answer to give. */
export interface Copy {
  readonly state: 'completed' | 'consumed'
  readonly attempt: number
  readonly fingerprint: Fingerprint
  readonly answer: Answer
  /** Wall clock, one lease before the row's end. Clients get this time (Idempotency-Expires). */
  readonly expiresAtMs: number
  /** The row's lease, whatever lease the reader's route has. A delete waits for two of these (P10). */
  readonly leaseMs: number
  /** The generation of the installation, as known before the statement that read the answer was sent. */
  readonly generation: number
  /** Trace context of the request that executed (Claim.trace). */
  readonly trace?: string | null
}

/** What a settled row tells other processes. */
export type SettledAnswer = Omit<Copy, 'expiresAtMs' | 'generation'>

/** An answer that the arbiter has not taken yet (E6). It is never replayed before it is settled under its owner and attempt. */
export interface UnsettledCopy {
  readonly owner: Buffer
  readonly attempt: number
  readonly fingerprint: Fingerprint
  readonly keepMs: number
  readonly answer: Answer
}

export type LockResult =
  | { readonly kind: 'locked' }
  /** The caller's own token is there: the reply to an earlier call was lost. */
  | { readonly kind: 'mine' }
  | { readonly kind: 'lock', readonly lock: Lock }
  | { readonly kind: 'copy', readonly copy: Copy }
  | { readonly kind: 'unsettled', readonly copy: UnsettledCopy }
  /** No Redis: an error, a timeout, an open breaker, an ambiguous or undecodable reply. Never means "locked". */
  | { readonly kind: 'unavailable' }

export type LockValue =
  | { readonly kind: 'lock', readonly lock: Lock }
  | { readonly kind: 'copy', readonly copy: Copy }
  | { readonly kind: 'unsettled', readonly copy: UnsettledCopy }

/** The last beat of a gateway that its database has acknowledged. */
export interface Beat { readonly gateway: Buffer, readonly beat: number }

/** Detects a copy of the database whose gateways use the same Redis. The heartbeat calls it. Never rejects. */
export interface Mirror {
  /** The gateways, besides `self`, whose beats are in Redis. Called before the database is asked for their beats. */
  look: (self: Buffer) => Promise<readonly Buffer[]>
  /** `known`: the database's beats of the gateways that the last look found. true: look again at once. */
  show: (mine: Beat, known: ReadonlyArray<number | null>) => Promise<boolean>
}

/** Gets the result of {@link LockLane.lock}. Called once, after the call has returned. */
export interface LockReply { locked: (result: LockResult) => void }

/** `lock` and `swap` for the way of every first request. They mean the same and make no promise. */
export interface LockLane {
  lock: (id: Buffer, lock: Lock, ttlMs: number, reply: LockReply) => void
  /** Nobody learns whether it was done. */
  swap: (id: Buffer, owner: Buffer, value: LockValue, ttlMs: number) => void
}

/**
 * Redis, or nothing. Losing it costs speed and never safety.
 *
 * A driver guarantees:
 *
 * - No method rejects, and none is needed for correctness.
 * - A value is replaced or deleted only with the token in it. An absent value belongs to no caller (P10).
 */
export interface LockStore {
  readonly name: 'none' | 'memory' | 'redis'
  /** Absent: no copy of the database can use this store. */
  readonly mirror?: Mirror | undefined
  /** Absent: `lock` and `swap` are called in its place (lanes.ts). */
  readonly lane?: LockLane | undefined
  lock: (id: Buffer, lock: Lock, ttlMs: number) => Promise<LockResult>
  renew: (held: ReadonlyArray<{ readonly id: Buffer, readonly owner: Buffer }>, ttlMs: number) => Promise<void>
  /** Replaces the caller's lock (or its unsettled copy). false: the caller had no value there. */
  swap: (id: Buffer, owner: Buffer, value: LockValue, ttlMs: number) => Promise<boolean>
  unlock: (id: Buffer, owner: Buffer) => Promise<void>
  /** Deletes the copy, if it is of this generation. */
  clear: (id: Buffer, generation: number) => Promise<void>
  /** Deletes any value (operator's delete). false: Redis could not be reached. */
  forget: (id: Buffer) => Promise<boolean>
  /** Wakes every watcher of this record. */
  wake: (id: Buffer) => void
  /**
   * Resolves when the subscription is active. If there is no subscription, it resolves too, and only polling remains.
   * Subscribe, then look, then wait.
   */
  watch: (id: Buffer, onWake: () => void) => Promise<Cancel>
  /** false while the breaker is open or there is no Redis. */
  available: () => boolean
  close: () => Promise<void>
}
