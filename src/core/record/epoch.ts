/**
 * After a restored backup: which records and messages are no longer true, and what happens to them. A record that was claimed or free in
 * the backup may have been sent since. A settled record is still settled. A message that was open in the backup may have been delivered
 * since. Pure. Each database has a driver of its own.
 */
import type { RecordState, UnknownReason } from './record.ts'

/** States whose outcome may have come after the backup. */
export type OutdatedState = Extract<RecordState, 'claimed' | 'released'>

export const RESTORED_REASON: UnknownReason = { stage: 'restore', code: 'BACKUP_RESTORED' }

/**
 * Added to every number of a delivery, so that no number is used twice. It is more than the deliveries of any message since the backup. Two
 * thousand restores fit.
 */
export const EPOCH_ATTEMPTS = 1_000_000

export interface EpochOrder {
  readonly who: string
  readonly why: string
  /** Continue although some leases seem to be held. */
  readonly force: boolean
  /** Count, and change nothing. */
  readonly dryRun: boolean
}

export type EpochResult =
  /** `epoch`: the one that has begun, or (dryRun) would begin. */
  | {
    readonly kind: 'bumped'
    readonly epoch: number
    readonly claimed: number
    readonly released: number
    readonly messages: RestoredMessages
  }
  /** Claims and workers whose leases are not over. A gateway is running, or was running shortly before, when the backup was taken. */
  | { readonly kind: 'live', readonly leases: number, readonly endInMs: number }

/** Messages that were open in the backup. held: of routes that hold. again: all others. */
export interface RestoredMessages { readonly held: number, readonly again: number }
