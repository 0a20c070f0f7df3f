/** What the phases of one request say of themselves, for its line in the log. */
import type { Holder } from '../../core/limits/limit.ts'

/** Timings and facts of one request's way, for its log line. Milliseconds. */
export interface Steps {
  record?: string
  /** Which source the key came from, where there are several. */
  keyFrom?: string
  attempt?: number
  /** Until its caller was known: a token may have to be verified first. */
  scopeMs?: number
  bodyMs?: number
  fingerprintMs?: number
  claimMs?: number
  upstreamMs?: number
  settleMs?: number
  waitMs?: number
  requestBytes?: number
  reason?: string
  /** In whose share it counts; not for the line. */
  holder?: Holder
}
