import type { Holder } from '../../core/limits/limit.ts'
import type { RequestTrace } from '../../ports/tracing.ts'

/** What the phases of a request record for its log line. Times are in milliseconds. All fields are there from the start. */
export class Steps {
  record: string | undefined = undefined
  /** The source of the key, if the route has several. */
  keyFrom: string | undefined = undefined
  attempt: number | undefined = undefined
  /** Time to identify the caller, with the verification of a token. */
  scopeMs: number | undefined = undefined
  bodyMs: number | undefined = undefined
  fingerprintMs: number | undefined = undefined
  claimMs: number | undefined = undefined
  upstreamMs: number | undefined = undefined
  settleMs: number | undefined = undefined
  waitMs: number | undefined = undefined
  requestBytes: number | undefined = undefined
  reason: string | undefined = undefined
  /** Whose share the request counts in. It is not logged. */
  holder: Holder | undefined = undefined
  /** null: there is no tracing. */
  trace: RequestTrace | null = null
}

/** The trace of a request leads to that of the request that executed, if that one was recorded. */
export function linkTo ({ trace }: Steps, executed: { readonly trace?: string | null }): void {
  if (trace !== null && executed.trace != null) trace.link(executed.trace)
}
