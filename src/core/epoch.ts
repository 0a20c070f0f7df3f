/**
 * After a backup was restored: which records are not true any more, and what becomes of them. What was claimed or free when
 * the backup was taken may have been sent since; what was settled then was settled. Pure; each database has a driver of its own.
 */
import type { RecordState, UnknownReason } from './record.ts'

/** Their outcome may have come after the backup. */
export type OutdatedState = Extract<RecordState, 'claimed' | 'released'>

export const RESTORED_REASON: UnknownReason = { stage: 'restore', code: 'BACKUP_RESTORED' }

export interface EpochOrder {
  readonly who: string
  readonly why: string
  /** Although somebody seems to hold leases. */
  readonly force: boolean
  /** Counts, and changes nothing. */
  readonly dryRun: boolean
}

export type EpochResult =
  /** `epoch`: the one that has begun, or (dryRun) would begin. */
  | { readonly kind: 'bumped', readonly epoch: number, readonly claimed: number, readonly released: number }
  /** So many claims have leases that are not over: a gateway is running, or was when the backup was taken, a moment ago. */
  | { readonly kind: 'live', readonly leases: number, readonly endInMs: number }
