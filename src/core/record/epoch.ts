/**
 * After a backup was restored: which records and messages are not true any more, and what becomes of them. What was claimed or
 * free when the backup was taken may have been sent since; what was settled then was settled. A message that was open then may
 * have been delivered since. Pure; each database has a driver of its own.
 */
import type { RecordState, UnknownReason } from './record.ts'

/** Their outcome may have come after the backup. */
export type OutdatedState = Extract<RecordState, 'claimed' | 'released'>

export const RESTORED_REASON: UnknownReason = { stage: 'restore', code: 'BACKUP_RESTORED' }

/**
 * Added to every number of a delivery: more than any message was delivered since the backup, so that none comes twice.
 * Two thousand restores fit.
 */
export const EPOCH_ATTEMPTS = 1_000_000

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
  | {
    readonly kind: 'bumped'
    readonly epoch: number
    readonly claimed: number
    readonly released: number
    readonly messages: RestoredMessages
  }
  /** So many claims and workers have leases that are not over: a gateway is running, or was when the backup was taken, a moment ago. */
  | { readonly kind: 'live', readonly leases: number, readonly endInMs: number }

/** Messages that were open when the backup was taken. held: of routes that say so. again: the others. */
export interface RestoredMessages { readonly held: number, readonly again: number }
