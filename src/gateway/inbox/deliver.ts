/**
 * One delivery of a message: send it to its route's upstream, judge the answer, write the result. Delivery is at least once. If the
 * result cannot be written, the next worker delivers the message again.
 */
import { withDeadLetter } from '../../core/inbox/dead-letter.ts'
import { fateBefore, fateOf, keptHeadersOf, replyOf } from '../../core/inbox/delivery.ts'
import type { SendOutcome } from '../../core/inbox/delivery.ts'
import { plainName } from '../../core/headers/fields.ts'
import { pairs, withoutFields } from '../../core/headers/lines.ts'
import { STANDARD_FIELDS, standardSignature } from '../../core/headers/signature.ts'
import { NO_REPLY, WORKER_LOST } from '../../core/inbox/message.ts'
import type { Delivery, DeliveryToken, Fate, MessageDetail } from '../../core/inbox/message.ts'
import { feedbackOf, pauseOf } from '../../core/inbox/pacing.ts'
import type { ConsumerFeedback } from '../../core/inbox/pacing.ts'
import type { InboxPolicy, UpstreamPolicy } from '../../core/policy/policy.ts'
import { ID_BYTES } from '../../core/record/record.ts'
import type { RawHeaders } from '../../core/record/record.ts'
import { TRACE_CONTEXT } from '../../core/forward/forwarding.ts'
import { explained } from '../../core/forward/upstream-fault.ts'
import { errorText, StoreRejected, StoreUnavailable } from '../../ports/errors.ts'
import type { DeliveryResult } from '../../ports/telemetry.ts'
import type { Recovered } from '../../ports/inbox.ts'
import type { SentTrace } from '../../ports/tracing.ts'
import type { UpstreamResult } from '../../ports/upstream.ts'
import type { Drain } from '../shared/drain.ts'
import type { Limits } from '../limits/limits.ts'
import { sendOnce } from '../forward/send-once.ts'
import type { OneSending } from '../forward/send-once.ts'
import type { WorkerLease } from './worker-lease.ts'
import type { InboxRoute } from '../../core/inbox/targets.ts'
import type { Deps } from '../shared/deps.ts'
import { AGAIN, retryUntil, STORE_BACKOFF } from '../shared/retry.ts'

interface DeliverContext {
  readonly deps: Deps
  readonly drain: Drain
  readonly limits: Limits
}

/** The gateway's fault, not the consumer's. The message was not sent, and is due again at once. */
const OURS: ReadonlySet<string> = new Set(['LEASE', 'DRAIN', 'CLOSED'])

export interface DeliveryListener {
  /**
   * Nothing of this delivery is at the consumer any more, or only the rest of a long answer. `feedback`: what it says about the
   * consumer. null: nothing was sent.
   */
  readonly ended: (feedback: ConsumerFeedback | null, isRead: boolean) => void
  /** It was sent, or could not be sent to this consumer. `taken`: the consumer took it. */
  readonly judged: (taken: boolean) => void
  /** The consumer asks for a pause for the message's tenant. Not called if it asks for none. */
  readonly tenantPaused: (forMs: number) => void
  /** A copy of it was accepted (core/inbox/dead-letter.ts). */
  readonly copied: () => void
  /** When it is due again. null: never, or another worker decides. */
  readonly settled: (againInMs: number | null) => void
}

/** Calls the others of the listener once each, in their order. Resolves when nothing is in flight. */
export async function deliver (
  context: DeliverContext,
  lease: WorkerLease,
  route: InboxRoute,
  delivery: Delivery,
  listener: DeliveryListener
): Promise<void> {
  const spent = fateBefore(delivery, route.idempotency.inbox)
  if (spent !== null) {
    const before = withDeadLetter(spent, delivery, route, () => context.deps.random.bytes(ID_BYTES))
    listener.ended(null, true)
    const settled = await settle(context, route, delivery, before)
    report(context, route, delivery, before, settled, null)
    if (settled === 'settled' && hasCopy(before)) listener.copied()
    listener.settled(null)
    return
  }
  const { clock } = context.deps
  const beganAtMs = clock.monotonicMs()
  const trace = traceOf(context, route, delivery)
  const { sending, result: ended, endTimeout, release } = send(context, lease, route, delivery, trace)
  const cut = (): void => { sending.cancel('DRAIN', false) }
  context.drain.deliveries.add(cut)
  try {
    const result = await ended
    const ms = clock.monotonicMs() - beganAtMs
    const sent = sentOf(result)
    const ours = sent.kind === 'unsent' && OURS.has(sent.code)
    const fate = ours
      ? { kind: 'again', inMs: 0, status: null, error: sent.code, counts: false } as const
      : judged(context, route, delivery, sent, ms)
    const holdsRoute = route.idempotency.inbox.retryAfter.kind === 'route'
    listener.ended(ours ? null : feedbackOf(sent, fate, clock.wallMs(), holdsRoute), result.kind !== 'stream')
    if (!ours) listener.judged(fate.kind === 'delivered')
    const pauseMs = tenantPauseMs(route.idempotency.inbox, delivery, sent, clock.wallMs())
    if (pauseMs !== null) listener.tenantPaused(pauseMs)
    const settled = await settle(context, route, delivery, fate)
    report(context, route, delivery, fate, settled, ours ? null : ms, trace)
    if (settled === 'settled' && hasCopy(fate)) listener.copied()
    listener.settled(settled === 'settled' && fate.kind === 'again' ? fate.inMs : null)
    if (result.kind === 'stream') await readOn(result.body)
  } finally {
    endTimeout()
    release()
    context.drain.deliveries.delete(cut)
  }
}

// ---------------------------------------------------------------- sending

function send (
  context: DeliverContext,
  lease: WorkerLease,
  { upstream, idempotency: { keep, inbox: { sign } } }: InboxRoute,
  { token, request, isReplay }: Delivery,
  trace: SentTrace | null
): OneSending {
  const name = token.id.toString('base64url')
  const kept = trace === null ? request.headers : withoutFields(request.headers, TRACE_CONTEXT)
  return sendOnce(context, {
    upstream,
    method: request.method,
    target: request.target,
    headers: [
      ...withStatic(sign === null ? kept : withoutSignature(kept), upstream.requestHeaders),
      ...trace?.context ?? [],
      ...sign === null ? [] : standardSignature(sign, name, request.body, context.deps.clock.wallMs()),
      'Onceway-Key',
      name,
      'Idempotency-Attempt',
      String(token.attempt),
      ...isReplay ? REPLAY : []
    ],
    body: request.body,
    responseBytesMax: keep.responseBytesMax,
    limitsStream: true
  }, { maySend: () => !context.drain.stopped && lease.believed(context.deps.clock) })
}

/** Without the sender's own fields of this kind, in any spelling that some server takes for them. */
function withoutSignature (headers: RawHeaders): string[] {
  return [...pairs(headers)].flatMap((line) => STANDARD_FIELDS.includes(plainName(line[0])) ? [] : line)
}

/** null: no traces are made. */
function traceOf ({ deps: { tracing } }: DeliverContext, { upstream }: InboxRoute, delivery: Delivery): SentTrace | null {
  if (tracing == null) return null
  const { token, route, request, requestId } = delivery
  const about = { route, upstream: upstream.name, record: token.id.toString('base64url'), requestId, attempt: token.attempt }
  return tracing.delivery(request.headers, about) ?? null
}

/** The consumer has taken this message before. One that remembers `Onceway-Key` may take it again on purpose. */
const REPLAY = ['Onceway-Replay', 'true'] as const

/** With the upstream's static fields as they are now: a credential may have changed since the message was accepted. */
function withStatic (headers: RawHeaders, fields: UpstreamPolicy['requestHeaders']): string[] {
  return [...withoutFields(headers, fields.map(([name]) => name)), ...fields.flat()]
}

function sentOf (result: UpstreamResult): SendOutcome {
  switch (result.kind) {
    case 'answer': return result
    case 'stream': return { kind: 'head', answer: { status: result.status, headers: result.headers, body: Buffer.alloc(0) } }
    case 'lost':
    case 'unsent': return { kind: result.kind, code: result.code }
  }
}

/** A consumer that answers at length may still be at work. Its answer is read until the upstream's timeout. */
async function readOn (body: AsyncIterable<Buffer>): Promise<void> {
  try {
    for await (const chunk of body) void chunk
  } catch {
    // It was judged by its head.
  }
}

// ---------------------------------------------------------------- what it came to

function judged (context: DeliverContext, route: InboxRoute, delivery: Delivery, sent: SendOutcome, ms: number): Fate {
  const { clock, random } = context.deps
  const { idempotency } = route
  const { tries, ageMs } = delivery
  const chance = (): number => random.bytes(CHANCE_BYTES).readUInt32BE() / CHANCES
  const fate = fateOf(sent, { tries, ageMs: ageMs + ms, chance, nowMs: clock.wallMs() }, idempotency, idempotency.inbox)
  const headers = keptHeadersOf(sent, idempotency)
  const kept = withRequestKept(withHeaders(fate, headers), idempotency.inbox)
  return { ...withDeadLetter(kept, delivery, route, () => random.bytes(ID_BYTES)), reply: replyOf(sent, headers, ms, idempotency) }
}

const CHANCE_BYTES = 4
const CHANCES = 2 ** (8 * CHANCE_BYTES)

function hasCopy (fate: Fate): boolean {
  return fate.kind === 'dead' && fate.letter !== undefined
}

/** With these header fields of its answer. */
function withHeaders (fate: Fate, headers: RawHeaders): Fate {
  if ((fate.kind !== 'delivered' && fate.kind !== 'dead') || fate.answer === null) return fate
  return { ...fate, answer: { ...fate.answer, headers } }
}

/** As today's configuration says: it may have changed since the message was accepted. */
function withRequestKept (fate: Fate, { keepDeliveredMs }: InboxPolicy): Fate {
  return fate.kind === 'delivered' && keepDeliveredMs > 0 ? { ...fate, requestMs: keepDeliveredMs } : fate
}

/** overtaken: another worker has it by now. abandoned: the process ends before the store has answered. */
type Settled = 'settled' | 'overtaken' | 'abandoned'

/**
 * Retries for as long as the process lives. The worker's lease is renewed meanwhile, and a late result avoids a second
 * delivery.
 */
function settle (context: DeliverContext, route: InboxRoute, { token }: Delivery, wanted: Fate): Promise<Settled> {
  const { inbox, meter, log } = context.deps
  let fate = wanted
  let inDoubt = false
  return retryUntil<Settled>(context.drain, STORE_BACKOFF, async () => {
    if (await inbox.settle(token, fate)) return 'settled'
    return inDoubt && isStored(token, fate, await inbox.look(token.id)) ? 'settled' : 'overtaken'
  }, (error) => {
    inDoubt ||= error instanceof StoreUnavailable && error.inDoubt
    meter.settleRetried(route.name)
    log.warn(
      {
        event: 'delivery-settle-retried',
        record: token.id.toString('base64url'),
        route: route.name,
        fate: fate.kind,
        error: errorText(error)
      },
      'what a delivery came to could not be stored; trying again'
    )
    // P7: content that the store can never take is not kept.
    if (error instanceof StoreRejected) fate = withoutContent(fate)
    return context.drain.stopped ? 'abandoned' : AGAIN
  })
}

function withoutContent (fate: Fate): Fate {
  const { reply, ...rest } = 'answer' in fate ? { ...fate, answer: null } : fate
  return reply === undefined ? rest : { ...rest, reply: { ...NO_REPLY, ms: reply.ms, status: reply.status } }
}

/** The result of this delivery is stored: its reply was lost. No other result of this attempt has the same values. */
function isStored ({ attempt }: DeliveryToken, fate: Fate, message: MessageDetail | null): boolean {
  const state = fate.kind === 'again' ? 'waiting' : fate.kind
  return message?.attempt === attempt && message.state === state && message.error === (fate.kind === 'delivered' ? null : fate.error)
}

/** The pause that the consumer asks for on behalf of the message's tenant. null: none. */
function tenantPauseMs (policy: InboxPolicy, { tenant }: Delivery, sent: SendOutcome, nowMs: number): number | null {
  if (tenant === null || policy.retryAfter.kind !== 'value' || (sent.kind !== 'answer' && sent.kind !== 'head')) return null
  const askedMs = pauseOf(sent.answer, nowMs)
  return askedMs === null || askedMs === 0 ? null : Math.min(askedMs, policy.backoff.longestMs)
}

// ---------------------------------------------------------------- what is reported

const HELD = 'it is not known whether the consumer has this message: it is held until somebody says so'

/** Messages that dead workers had. A delivery that is held for it counts like any other. */
export function reportRecovered ({ meter, log }: Pick<Deps, 'meter' | 'log'>, { count, held }: Recovered): void {
  if (count === 0) return
  log.warn(
    { event: 'deliveries-recovered', count, held: held.length },
    'messages that a worker had taken and did not end are delivered again, or held'
  )
  for (const { id, route, requestId, attempt, tries } of held) {
    meter.delivery(route, 'held', null)
    meter.deliveryTries(route, tries)
    log.error(
      {
        event: 'message-held',
        record: id.toString('base64url'),
        route,
        requestId,
        attempt,
        tries,
        result: 'held',
        status: null,
        error: WORKER_LOST
      },
      HELD
    )
  }
}

/** `ms` null: it was not sent. */
function report (
  context: DeliverContext,
  { upstream }: InboxRoute,
  { token, route, requestId, tries, isReplay }: Delivery,
  fate: Fate,
  settled: Settled,
  ms: number | null,
  trace: SentTrace | null = null
): void {
  const { meter, log, deliveryLog } = context.deps
  const result: DeliveryResult | 'abandoned' = settled === 'settled' ? fate.kind : settled
  if (result !== 'abandoned') meter.delivery(route, result, ms)
  const tried = 'counts' in fate && fate.counts === false ? tries - 1 : tries
  if (settled === 'settled' && fate.kind !== 'again') meter.deliveryTries(route, tried)
  const line = {
    record: token.id.toString('base64url'),
    route,
    requestId,
    attempt: token.attempt,
    tries: tried,
    replay: isReplay ? true : undefined,
    result,
    status: fate.kind === 'held' ? null : fate.status,
    // The store keeps the code alone, because senders see it.
    error: fate.kind === 'delivered' ? undefined : explained(fate.error, upstream.name),
    deadLetter: result === 'dead' && fate.kind === 'dead' ? fate.letter?.id.toString('base64url') : undefined,
    inMs: fate.kind === 'again' ? fate.inMs : undefined,
    ms: ms === null ? undefined : Math.round(ms)
  }
  trace?.ended(result, line.status)
  switch (result) {
    case 'delivered':
    case 'again': return deliveryLog.note({ ...line, result, trace: trace ?? undefined })
    case 'abandoned':
      return log.warn(
        { event: 'delivery-abandoned', ...line },
        'what a delivery came to could not be stored before the end of this process: the message is delivered again'
      )
    case 'overtaken': return log.warn({ event: 'delivery-overtaken', ...line }, 'a delivery ended after its message had been taken over')
    case 'held': return log.error({ event: 'message-held', ...line }, HELD)
    case 'dead': return log.error({ event: 'message-dead', ...line }, 'message given up: it is dead until somebody says so')
  }
}
