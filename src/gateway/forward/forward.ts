/**
 * `forward`: one request is sent to its upstream once, within the upstream's timeout. `maySend` decides at the last point before
 * the first byte (E0).
 */
import { rulesOf } from '../../core/forward/deciding.ts'
import { guardedRequestHeaders } from '../../core/forward/forwarding.ts'
import { verifierOf } from '../../core/headers/signature.ts'
import type { Sending, SentRequest, StreamedResult, UpstreamResult } from '../../ports/upstream.ts'
import type { Execution } from '../execution/execution.ts'
import type { KeyedRequest } from '../fingerprint/keyed-request.ts'
import type { Registration } from '../shared/registration.ts'
import { sendOnce } from './send-once.ts'
import type { SendContext } from './send-once.ts'

/** The share of the lease that must be left at the last point before sending. It covers the way from the check to the wire. */
const MARGIN_SHARE = 1 / 6
/**
 * If wall and monotonic clock part by more than this, the process was suspended: a second, or a quarter of the
 * margin.
 */
const SUSPENDED_MS = 1_000
const SUSPENDED_SHARE = MARGIN_SHARE / 4

/** The part of an execution that a sending touches. */
export interface Forwarded {
  readonly keyed: KeyedRequest
  /** null: attempts are not counted. */
  readonly attempt: number | null
  /** The event went through before. The upstream gets a header that says so. */
  readonly duplicate?: boolean
}

/** Executions of mode drop, and those without protection, wait for the result. */
export interface Forwarding extends Forwarded {
  sending: Sending | null
  /** Gives back the bytes of the buffered answer. */
  releaseAnswer: () => void
}

/** What goes to the upstream. Its span begins. */
export function sentRequest (execution: Forwarded): SentRequest {
  const { keyed } = execution
  const { route: { idempotency, upstream }, asked } = keyed
  return {
    upstream,
    method: asked.method,
    target: asked.target,
    headers: guardedRequestHeaders(keyed.rawHeaders, {
      record: { id: keyed.name, attempt: execution.attempt },
      duplicate: execution.duplicate ?? false,
      verified: verifierOf(idempotency),
      trace: keyed.steps.trace?.forward(upstream.name, execution.attempt) ?? null,
      requestId: keyed.requestId,
      keyHeader: idempotency.key.header,
      rules: rulesOf(idempotency),
      forwardKey: idempotency.forwardKey,
      host: upstream.host,
      forwarded: keyed.forwarded,
      extra: upstream.requestHeaders,
      bodyBytes: asked.body.length
    }),
    body: asked.body,
    responseBytesMax: idempotency.keep.responseBytesMax,
    holder: keyed.reservation.holder
  }
}

/** `maySend`: called at the last point before the first byte. */
export async function forward (context: SendContext, execution: Forwarding, maySend: () => boolean): Promise<UpstreamResult> {
  const { keyed } = execution
  const { sending, result: ended, endTimeout, release } = sendOnce(context, sentRequest(execution), {
    maySend,
    informed: (status, headers) => { keyed.informed(status, headers) }
  })
  execution.sending = sending
  execution.releaseAnswer = release
  try {
    const result = await ended
    keyed.steps.trace?.forwarded(result)
    noteShed(context, result)
    if (result.kind === 'stream') releaseWhenTaken(execution, result)
    return result
  } finally {
    endTimeout()
  }
}

/** Counts a request that got no connection. */
export function noteShed ({ deps: { meter } }: SendContext, result: UpstreamResult): void {
  if (result.kind === 'unsent' && result.refusal !== undefined) meter.shed('upstreamConnections', result.refusal)
}

/** The client may read the buffered bytes for longer than the execution lasts. */
function releaseWhenTaken (execution: Forwarding, { taken }: StreamedResult): void {
  const { releaseAnswer } = execution
  execution.releaseAnswer = () => {}
  void taken.then(releaseAnswer)
}

/** E0: the last point before the first byte. The owner believes in its lease on its own clock, or nothing is sent. */
export function maySend (context: SendContext & { readonly registration: Registration }, execution: Execution): boolean {
  const { clock } = context.deps
  const now = clock.monotonicMs()
  if (!execution.won) {
    if (!execution.cancelled) execution.sentAtMs = now
    return !execution.cancelled
  }
  const { leaseMs } = execution.keyed.claim
  // CLOCK_MONOTONIC stands still while a machine is suspended. The lease in the database does not.
  const suspended = Math.abs(clock.wallMs() - now - execution.clockOffsetMs) > Math.min(SUSPENDED_MS, leaseMs * SUSPENDED_SHARE)
  if (!execution.keyed.deferred && context.registration.current(execution.keyed.route.name) !== execution.registered) return false
  const may = !execution.cancelled && !execution.leaseLost && !suspended && now + leaseMs * MARGIN_SHARE < execution.leaseEndsAtMs
  if (may) execution.sentAtMs = now
  return may
}
