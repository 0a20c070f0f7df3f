/** The fast path: what Redis holds. It saves round trips, and decides nothing. */
import type { Answer, Fingerprint } from '../core/record/record.ts'
import type { Cancel } from './clock.ts'

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
