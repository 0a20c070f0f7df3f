/**
 * One delivery of a message: it is sent to its route's upstream, the answer is judged, the store is told. At least once:
 * whoever cannot tell the store leaves the message to the next worker.
 */
import { keptHeaders, answerHeaders } from '../../core/headers/headers.ts'
import { fateBefore, fateOf } from '../../core/inbox/delivery.ts'
import type { SendOutcome } from '../../core/inbox/delivery.ts'
import { withoutFields } from '../../core/headers/lines.ts'
import { WORKER_LOST } from '../../core/inbox/message.ts'
import type { Delivery, DeliveryToken, Fate, MessageDetail } from '../../core/inbox/message.ts'
import { feedbackOf } from '../../core/inbox/pacing.ts'
import type { ConsumerFeedback } from '../../core/inbox/pacing.ts'
import type { IdempotencyPolicy, UpstreamPolicy } from '../../core/policy/policy.ts'
import type { Answer, RawHeaders } from '../../core/record/record.ts'
import { explained } from '../../core/forward/upstream-fault.ts'
import { errorText, StoreRejected, StoreUnavailable } from '../../ports/errors.ts'
import type { DeliveryResult } from '../../ports/telemetry.ts'
import type { Recovered } from '../../ports/inbox.ts'
import type { Sending, UpstreamRequest, UpstreamResult } from '../../ports/upstream.ts'
import type { Drain } from '../shared/drain.ts'
import type { Limits } from '../limits/limits.ts'
import { UpstreamTime } from '../forward/upstream-time.ts'
import type { WorkerLease } from './worker-lease.ts'
import type { InboxRoute, Deps } from '../shared/deps.ts'

interface DeliverContext {
  readonly deps: Deps
  readonly drain: Drain
  readonly limits: Limits
}

/** First and longest pause between two tries to tell the store: short enough for a restart, long enough for an outage. */
const RETRY_FIRST_MS = 100
const RETRY_LONGEST_MS = 2_000
/** Our trouble, not the consumer's: the message was not sent, and its next turn is at once. */
const OURS: ReadonlySet<string> = new Set(['LEASE', 'DRAIN', 'CLOSED'])

export interface DeliveryEnd {
  /** What it says of the consumer; null: nothing, it was not asked. */
  readonly ended: ConsumerFeedback | null
  /** It is due again then; null: not, or not for us to say. */
  readonly againInMs: number | null
}

/**
 * `noteEnd` is called once the message is settled, with the rest of a long answer perhaps still to be read. Resolves
 * when nothing is under way.
 */
export async function deliver (
  context: DeliverContext,
  lease: WorkerLease,
  route: InboxRoute,
  delivery: Delivery,
  noteEnd: (end: DeliveryEnd) => void
): Promise<void> {
  const before = fateBefore(delivery, route.idempotency.inbox)
  if (before !== null) {
    tell(context, route, delivery, before, await settle(context, route, delivery, before), null)
    noteEnd({ ended: null, againInMs: null })
    return
  }
  const { clock } = context.deps
  const beganAtMs = clock.monotonicMs()
  let answerBytes = 0
  const time = new UpstreamTime(clock, route.upstream)
  const sending = send(context, lease, route, delivery, {
    placed: () => { time.begin() },
    reserve: (bytes) => {
      if (context.limits.buffered.take('answers', bytes) !== null) return false
      answerBytes += bytes
      return true
    }
  })
  const cut = (): void => { sending.cancel('DRAIN', false) }
  time.limit(sending)
  context.drain.deliveries.add(cut)
  try {
    const result = await sending.result
    const ms = clock.monotonicMs() - beganAtMs
    const sent = sentOf(result)
    const ours = sent.kind === 'unsent' && OURS.has(sent.code)
    const fate = ours
      ? { kind: 'again', inMs: 0, status: null, error: sent.code, counts: false } as const
      : judged(context, route, delivery, sent, ms)
    const settled = await settle(context, route, delivery, fate)
    tell(context, route, delivery, fate, settled, ours ? null : ms)
    noteEnd({
      ended: ours ? null : feedbackOf(sent, fate, clock.wallMs()),
      againInMs: settled === 'settled' && fate.kind === 'again' ? fate.inMs : null
    })
    if (result.kind === 'stream') await readOn(result.body)
  } finally {
    time.end()
    context.limits.buffered.release('answers', answerBytes)
    context.drain.deliveries.delete(cut)
  }
}

// ---------------------------------------------------------------- sending

function send (
  context: DeliverContext,
  lease: WorkerLease,
  { upstream, idempotency: { keep } }: InboxRoute,
  { token, request }: Delivery,
  more: Required<Pick<UpstreamRequest, 'placed' | 'reserve'>>
): Sending {
  return context.deps.upstream.send({
    upstream,
    method: request.method,
    target: request.target,
    headers: [
      ...withStatic(request.headers, upstream.requestHeaders),
      'Onceway-Key',
      token.id.toString('base64url'),
      'Idempotency-Attempt',
      String(token.attempt)
    ],
    body: request.body,
    responseBytesMax: keep.responseBytesMax,
    ...more
  }, () => !context.drain.stopped && lease.believed(context.deps.clock))
}

/** The upstream's static fields as they are now: a credential may have changed since the message was accepted. */
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

/** A consumer that answers at length may be at work meanwhile: it is heard out, for as long as the upstream's time-out says. */
async function readOn (body: AsyncIterable<Buffer>): Promise<void> {
  try {
    for await (const chunk of body) void chunk
  } catch {
    // It was judged by its head.
  }
}

// ---------------------------------------------------------------- what it came to

function judged (context: DeliverContext, { idempotency }: InboxRoute, { tries, ageMs }: Delivery, sent: SendOutcome, ms: number): Fate {
  const { clock, random } = context.deps
  const chance = random.bytes(CHANCE_BYTES).readUInt32BE() / CHANCES
  return asKept(fateOf(sent, { tries, ageMs: ageMs + ms, chance, nowMs: clock.wallMs() }, idempotency, idempotency.inbox), idempotency)
}

const CHANCE_BYTES = 4
const CHANCES = 2 ** (8 * CHANCE_BYTES)

/** With the fields of its answer that are kept anywhere. */
function asKept (fate: Fate, { keep }: IdempotencyPolicy): Fate {
  if ((fate.kind !== 'delivered' && fate.kind !== 'dead') || fate.answer === null) return fate
  const answer: Answer = { ...fate.answer, headers: keptHeaders(answerHeaders(fate.answer.headers), keep) }
  return { ...fate, answer }
}

/** overtaken: it is somebody else's by now. abandoned: the process ends before the store has answered. */
type Settled = 'settled' | 'overtaken' | 'abandoned'

/**
 * Goes on for as long as the process lives: the name is kept alive meanwhile, and a message that is told late is one
 * that is not sent twice.
 */
async function settle (context: DeliverContext, route: InboxRoute, { token }: Delivery, wanted: Fate): Promise<Settled> {
  const { inbox, meter, log } = context.deps
  let fate = wanted
  let inDoubt = false
  for (let pauseMs = RETRY_FIRST_MS; ; pauseMs = Math.min(pauseMs * 2, RETRY_LONGEST_MS)) {
    try {
      if (await inbox.settle(token, fate)) return 'settled'
      return inDoubt && stands(token, fate, await inbox.look(token.id)) ? 'settled' : 'overtaken'
    } catch (error) {
      inDoubt ||= error instanceof StoreUnavailable && error.inDoubt
      meter.settleRetried(route.name)
      log.warn(
        { record: token.id.toString('base64url'), route: route.name, fate: fate.kind, error: errorText(error) },
        'what a delivery came to could not be stored; trying again'
      )
      // P7: content that the store can never take is not kept.
      if (error instanceof StoreRejected && 'answer' in fate) fate = { ...fate, answer: null }
      if (context.drain.stopped) return 'abandoned'
      await context.drain.pause(pauseMs)
    }
  }
}

/** What this delivery came to is written there: its reply was lost. Nobody else ends this attempt in the same words. */
function stands ({ attempt }: DeliveryToken, fate: Fate, message: MessageDetail | null): boolean {
  const state = fate.kind === 'again' ? 'waiting' : fate.kind
  return message?.attempt === attempt && message.state === state && message.error === (fate.kind === 'delivered' ? null : fate.error)
}

// ---------------------------------------------------------------- what is told

const HELD = 'it is not known whether the consumer has this message: it is held until somebody says so'

/** What dead workers had. The deliveries that are held for it ended as any other that is: its worker is only not there to say so. */
export function tellRecovered ({ meter, log }: Pick<Deps, 'meter' | 'log'>, { count, held }: Recovered): void {
  if (count === 0) return
  log.warn({ count, held: held.length }, 'messages that a worker had taken and did not end are delivered again, or held')
  for (const { id, route, requestId, attempt, tries } of held) {
    meter.delivery(route, 'held', null)
    meter.deliveryTries(route, tries)
    log.error(
      { record: id.toString('base64url'), route, requestId, attempt, tries, result: 'held', status: null, error: WORKER_LOST },
      HELD
    )
  }
}

/** `ms` null: it was not sent. */
function tell (
  context: DeliverContext,
  { upstream }: InboxRoute,
  { token, route, requestId, tries }: Delivery,
  fate: Fate,
  settled: Settled,
  ms: number | null
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
    result,
    status: fate.kind === 'held' ? null : fate.status,
    // The store keeps the code alone: a sender is shown it too.
    error: fate.kind === 'delivered' ? undefined : explained(fate.error, upstream.name),
    inMs: fate.kind === 'again' ? fate.inMs : undefined,
    ms: ms === null ? undefined : Math.round(ms)
  }
  switch (result) {
    case 'delivered':
    case 'again': return deliveryLog.note({ ...line, result })
    case 'abandoned':
      return log.warn(line, 'what a delivery came to could not be stored before the end of this process: the message is delivered again')
    case 'overtaken': return log.warn(line, 'a delivery ended after its message had been taken over')
    case 'held': return log.error(line, HELD)
    case 'dead': return log.error(line, 'message given up: it is dead until somebody says so')
  }
}
