/**
 * Forwarding: one request is sent to its upstream once, within the upstream's timeout. Nothing is sent unless `maySend` says so
 * at the last point before the first byte (E0).
 */
import { rulesOf } from '../../core/forward/deciding.ts'
import { guardedRequestHeaders } from '../../core/forward/forwarding.ts'
import { verifierOf } from '../../core/headers/signature.ts'
import type { Sending, StreamedResult, UpstreamResult } from '../../ports/upstream.ts'
import type { Execution } from '../execution/execution.ts'
import type { KeyedRequest } from '../fingerprint/keyed-request.ts'
import type { Limits } from '../limits/limits.ts'
import type { Registration } from '../shared/registration.ts'
import { UpstreamTime } from './upstream-time.ts'
import type { Deps } from '../shared/deps.ts'

export interface ForwardContext {
  readonly deps: Deps
  readonly limits: Limits
}

/** Share of the lease that must be left at the last point before sending: covers the way from the check to the wire. */
const MARGIN_SHARE = 1 / 6
/**
 * How far wall and monotonic clock may part before the process is taken for one that was suspended: a second, or a
 * quarter of the margin.
 */
const SUSPENDED_MS = 1_000
const SUSPENDED_SHARE = MARGIN_SHARE / 4

/** What of an execution its sending touches; one of mode drop has no more. */
export interface Forwarding {
  readonly keyed: KeyedRequest
  /** null: nobody counts them. */
  readonly attempt: number | null
  /** Went through before: the upstream is told. */
  readonly duplicate?: boolean
  sending: Sending | null
  bufferedBytes: number
}

/** `maySend`: asked at the last point before the first byte. `placed`: called when that may come, for there is a connection's place. */
export async function send (
  context: ForwardContext,
  execution: Forwarding,
  maySend: () => boolean,
  placed: () => void = () => {}
): Promise<UpstreamResult> {
  const { keyed } = execution
  const { clock, upstream } = context.deps
  const { route, asked } = keyed
  const time = new UpstreamTime(clock, route.upstream)
  const sending = upstream.send({
    upstream: route.upstream,
    method: asked.method,
    target: asked.target,
    headers: guardedRequestHeaders(keyed.rawHeaders, {
      record: { id: keyed.name, attempt: execution.attempt },
      duplicate: execution.duplicate ?? false,
      verified: verifierOf(route.idempotency),
      requestId: keyed.requestId,
      keyHeader: route.idempotency.key.header,
      rules: rulesOf(route.idempotency),
      forwardKey: route.idempotency.forwardKey,
      host: route.upstream.host,
      forwarded: keyed.forwarded,
      extra: route.upstream.requestHeaders,
      bodyBytes: asked.body.length
    }),
    body: asked.body,
    responseBytesMax: route.idempotency.keep.responseBytesMax,
    holder: keyed.reservation.holder,
    placed: () => {
      time.begin()
      placed()
    },
    informed: keyed.informed,
    reserve: (bytes) => reserve(context, execution, bytes)
  }, maySend)
  execution.sending = sending
  time.limit(sending)
  try {
    const result = await sending.result
    if (result.kind === 'unsent' && result.refusal !== undefined) context.deps.meter.shed('upstreamConnections', result.refusal)
    if (result.kind === 'stream') releaseWhenTaken(context, execution, result)
    return result
  } finally {
    time.end()
  }
}

/** The client may take its time to read what was buffered, and longer than the execution. */
function releaseWhenTaken (context: ForwardContext, execution: Forwarding, { taken }: StreamedResult): void {
  const { bufferedBytes, keyed: { reservation: { holder } } } = execution
  execution.bufferedBytes = 0
  void taken.then(() => { context.limits.buffered.release('answers', bufferedBytes, holder) })
}

function reserve (context: ForwardContext, execution: Forwarding, bytes: number): boolean {
  if (context.limits.buffered.take('answers', bytes, execution.keyed.reservation.holder) !== null) return false
  execution.bufferedBytes += bytes
  return true
}

/** E0: the last point before the first byte. The owner believes in its lease on its own clock, or nothing is sent. */
export function maySend (context: ForwardContext & { readonly registration: Registration }, execution: Execution): boolean {
  const { clock } = context.deps
  const now = clock.monotonicMs()
  if (!execution.won) {
    if (!execution.cancelled) execution.sentAtMs = now
    return !execution.cancelled
  }
  const { leaseMs } = execution.keyed.claim
  // CLOCK_MONOTONIC stands still while a machine is suspended; the lease in the database does not.
  const suspended = Math.abs(clock.wallMs() - now - execution.clockOffsetMs) > Math.min(SUSPENDED_MS, leaseMs * SUSPENDED_SHARE)
  if (!execution.keyed.deferred && context.registration.current(execution.keyed.route.name) !== execution.registered) return false
  const may = !execution.cancelled && !execution.leaseLost && !suspended && now + leaseMs * MARGIN_SHARE < execution.leaseEndsAtMs
  if (may) execution.sentAtMs = now
  return may
}
