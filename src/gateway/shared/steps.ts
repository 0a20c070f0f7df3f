import type { Holder } from '../../core/limits/limit.ts'

/** What the phases of a request record for its log line. Times are in milliseconds. */
export interface Steps {
  record?: string
  /** The source of the key, if the route has several. */
  keyFrom?: string
  attempt?: number
  /** Time to identify the caller, with the verification of a token. */
  scopeMs?: number
  bodyMs?: number
  fingerprintMs?: number
  claimMs?: number
  upstreamMs?: number
  settleMs?: number
  waitMs?: number
  requestBytes?: number
  reason?: string
  /** Whose share the request counts in. It is not logged. */
  holder?: Holder
}
