/**
 * Accepts a request into the inbox: it becomes a durable message, and its sender gets 202. On a route of `mode: inbox` this needs no
 * record. With `async: allowed` it replaces the sending, under the record's claim (accept-claimed.ts). Acceptance is idempotent by
 * id: the same request finds its message again.
 */
import type { MessageDetail, NewMessage } from '../../core/inbox/message.ts'
import type { Fingerprint } from '../../core/record/record.ts'
import { errorText, StoreOverloaded } from '../../ports/errors.ts'
import type { AcceptResult } from '../../ports/inbox.ts'
import type { InboxMode, ModeContext } from '../execution/modes.ts'
import { accepted, asAccepted } from '../execution/outcomes.ts'
import { compareMessage } from '../fingerprint/comparison.ts'
import type { KeyedRequest, Part } from '../fingerprint/keyed-request.ts'
import { sizeOf } from '../limits/inbox-depths.ts'
import { IdentityMoved } from '../shared/ids.ts'
import { rejected } from '../shared/outcome.ts'
import type { Outcome, Rejected } from '../shared/outcome.ts'
import { TIMED_OUT, withTimeout } from '../shared/timeout.ts'
import { acceptClaimed, mayHaveCome, noteMessage } from './accept-claimed.ts'
import { inboxOf, messageOf, messageSchedule, orderValue } from './new-message.ts'
import { NONE_ACCEPTED, partOf, splitRequest } from './split.ts'

export function inboxMode (context: ModeContext): InboxMode {
  return {
    split: splitRequest,
    partOf,
    accept: (keyed, parts) => accept(context, keyed, parts),
    acceptClaimed: async (execution, maySend) => acceptClaimed(context, execution, maySend),
    valueRefusal: (keyed) => valueRefusal(keyed, context.deps.clock.wallMs()),
    fullRefusal: (keyed) => isFull(context, keyed) ? INBOX_FULL : null,
    answerOf: async (keyed, outcome) => answerOf(context, keyed, outcome)
  }
}

interface Made { readonly part: Part, readonly message: NewMessage }

// ---------------------------------------------------------------- mode inbox

/**
 * Accepts all of `parts`, or none. null: the key has a record, because the route or another gateway executes it in another mode. Its
 * record answers, and a released key is accepted under a claim.
 */
async function accept (context: ModeContext, keyed: KeyedRequest, parts: readonly Part[] = [keyed]): Promise<Outcome | null> {
  const nowMs = context.deps.clock.wallMs()
  const refusal = valueRefusal(keyed, nowMs, parts)
  if (refusal !== null) return refusal
  const made = parts.map((part) => ({ part, message: messageOf(keyed, part, nowMs) }))
  const startedAtMs = context.deps.clock.monotonicMs()
  try {
    const loading = context.recordCounts.load(keyed)
    if (loading !== null) await loading
    if (isFull(context, keyed, parts)) return await acceptedBefore(context, keyed, parts) ?? noRoom(keyed, parts)
    const beyond = context.recordCounts.exceeded(keyed, parts.length)
    if (beyond !== null) return await acceptedBefore(context, keyed, parts) ?? context.recordCounts.shed(beyond)
    return await acceptAll(context, keyed, made)
  } catch (error) {
    if (error instanceof IdentityMoved) throw error
    return failed(context, keyed, error)
  } finally {
    keyed.steps.claimMs = context.deps.clock.monotonicMs() - startedAtMs
  }
}

/** At a limit, messages that were accepted before still get their 202. null: some part is new. */
async function acceptedBefore (context: ModeContext, keyed: KeyedRequest, parts: readonly Part[]): Promise<Outcome | null> {
  const found = await Promise.all(parts.map(async (part) => context.deps.inbox.look(part.id)))
  for (const [index, message] of found.entries()) {
    if (message === null) return null
    const clash = clashOf(keyed, parts[index] as Part, message)
    if (clash !== null) return clash
  }
  return accepted(keyed, parts)
}

/** The detail differs from other limits': the cause is the consumer. */
const INBOX_FULL = rejected(
  'overloaded',
  'The inbox of this route is full: it holds as much as it may, with what was given up and not yet retried or discarded. Nothing was accepted; retry with the same key.'
)

/** A batch that is larger than the empty inbox would never fit, so a retry is pointless. */
function noRoom (keyed: KeyedRequest, parts: readonly Part[]): Rejected {
  const { depthMax, bytesMax } = inboxOf(keyed)
  const { messages, bytes } = sizeOf(parts)
  if (messages <= depthMax && bytes <= bytesMax) return INBOX_FULL
  const [holds, most] = messages > depthMax
    ? [`${messages} events`, `${depthMax} messages`]
    : [`${bytes} bytes of events`, `${bytesMax} bytes`]
  return rejected('request-too-large', `The request holds ${holds}, and the inbox of this route has room for ${most} when it is empty. Send fewer at once. Nothing was accepted.`)
}

async function acceptAll (context: ModeContext, keyed: KeyedRequest, made: readonly Made[]): Promise<Outcome | null> {
  const news = new Set<string>()
  for (let open = made; open.length > 0;) {
    const results = await write(context, keyed, open)
    if (results === TIMED_OUT) return { kind: 'unavailable', inDoubt: true }
    if (results.some(({ kind }) => kind === 'moved')) throw new IdentityMoved()
    const recorded = open.find((_, index) => results[index]?.kind === 'recorded')
    if (recorded !== undefined) return recorded.part.items === undefined ? null : executedBefore(recorded.part.items)
    const contended = open.find((_, index) => results[index]?.kind === 'contended')
    if (contended !== undefined) return contended.part.items === undefined ? null : CHANGING
    const foreign = open.filter(({ message }, index) => isForeign(results[index], message.fingerprint))
    if (foreign.length === 0) {
      for (const [index, { part }] of open.entries()) if (results[index]?.kind === 'accepted') news.add(part.name)
      break
    }
    for (const [index, { part }] of open.entries()) {
      const result = results[index]
      const clash = result?.kind === 'seen' ? clashOf(keyed, part, result.message) : null
      if (clash !== null) return clash
    }
    // A message with an equivalent fingerprint of another algorithm made the batch write nothing. The others are written without it.
    open = open.filter((each) => !foreign.includes(each))
  }
  return accepted(keyed, made.map(({ part }) => part), news)
}

/** A batch has no single record that could answer. */
function executedBefore ([item]: NonNullable<Part['items']>): Rejected {
  return rejected(
    'key-reused',
    `Item ${item} of the batch: It was executed, or is being so, from before this route had an inbox. ${NONE_ACCEPTED}`
  )
}

/** A claim is for one key, so a batch cannot be accepted under one. */
const CHANGING = rejected(
  'overloaded',
  `The mode of this route is being changed, and a gateway that executes what comes for it is still there. ${NONE_ACCEPTED} Retry until it is gone.`
)

/** Compares to the byte, as the store does. */
function isForeign (result: AcceptResult | undefined, { alg, value }: Fingerprint): boolean {
  return result?.kind === 'seen' && (result.message.fingerprint.alg !== alg || !result.message.fingerprint.value.equals(value))
}

/** The statement goes on after its waiter's timeout. The body is held until it ends. */
function write (context: ModeContext, keyed: KeyedRequest, made: readonly Made[]): Promise<AcceptResult[] | typeof TIMED_OUT> {
  const { clock, claimWithinMs } = context.deps
  return withTimeout(clock, claimWithinMs, written(context, keyed, made))
}

async function written (context: ModeContext, keyed: KeyedRequest, made: readonly Made[]): Promise<AcceptResult[]> {
  const { depths, deps: { inbox } } = context
  const [first] = made
  const size = sizeOf(made.map(({ part }) => part))
  keyed.reservation.retain()
  depths.reserve(keyed.route.name, size)
  try {
    const results = made.length === 1 && first !== undefined
      ? [await inbox.accept(first.message)]
      : await inbox.acceptAll(made.map(({ message }) => message))
    noteAccepted(context, keyed, made, results)
    return results
  } finally {
    depths.release(keyed.route.name, size)
    keyed.reservation.release()
  }
}

const NOT_ACCEPTED: ReadonlySet<AcceptResult['kind'] | undefined> = new Set(['recorded', 'contended', 'moved'])

function noteAccepted (context: ModeContext, keyed: KeyedRequest, made: readonly Made[], results: readonly AcceptResult[]): void {
  const none = made.some(({ message }, index) => NOT_ACCEPTED.has(results[index]?.kind) || isForeign(results[index], message.fingerprint))
  if (none) return
  const accepted = made.filter((_, index) => results[index]?.kind === 'accepted')
  context.recordCounts.count(keyed, accepted.length)
  for (const { message } of accepted) noteMessage(context, keyed.route.name, message)
}

function failed (context: ModeContext, keyed: KeyedRequest, error: unknown): Outcome {
  const inDoubt = mayHaveCome(error)
  context.deps.log.warn(
    { event: 'message-refused', record: keyed.name, route: keyed.route.name, error: errorText(error), inDoubt },
    'a message was not accepted, or nobody knows'
  )
  return error instanceof StoreOverloaded ? rejected('overloaded') : { kind: 'unavailable', inDoubt }
}

/**
 * What the record says, as the inbox says it. If the record does not mention a message, the inbox is checked before the answer is
 * "in flight" or "unknown": the gateway may have died between the message and the record's settle.
 */
async function answerOf (context: ModeContext, keyed: KeyedRequest, outcome: Outcome): Promise<Outcome> {
  switch (outcome.kind) {
    case 'accepted': return { ...outcome, preferred: keyed.preferred }
    case 'executed':
    case 'replayed': return asAccepted(keyed, outcome)
    case 'in-flight':
    case 'mismatch':
    case 'not-kept':
    case 'unknown': return acceptedOr(context, keyed, outcome)
    // No room for a new message. A message that is in the inbox gets its 202, with or without a record.
    case 'rejected': return keyed.deferred && outcome.code === 'overloaded' ? acceptedOr(context, keyed, outcome) : outcome
    default: return outcome
  }
}

async function acceptedOr (context: ModeContext, keyed: KeyedRequest, outcome: Outcome): Promise<Outcome> {
  const message = await context.deps.inbox.look(keyed.id).catch(() => null)
  return message !== null && compareMessage(keyed, keyed, message) === 'same' ? accepted(keyed, [keyed]) : outcome
}

// ---------------------------------------------------------------- the message

/** Checks the message's order value and its schedule before anything is written. null: they can be read. */
export function valueRefusal (
  keyed: Pick<KeyedRequest, 'route' | 'rawHeaders' | 'asked'>,
  nowMs: number,
  parts: ReadonlyArray<Pick<Part, 'asked' | 'items'>> = [keyed]
): Rejected | null {
  for (const part of parts) {
    const said = unusableValue(keyed, part, nowMs)
    if (said === null) continue
    return rejected(
      'bad-request',
      part.items === undefined ? `${said} Nothing was accepted.` : `Item ${part.items[0]} of the batch: ${said} ${NONE_ACCEPTED}`
    )
  }
  return null
}

/** One sentence. null: all that is read of a message can be. */
function unusableValue (keyed: Pick<KeyedRequest, 'route' | 'rawHeaders'>, part: Pick<Part, 'asked'>, nowMs: number): string | null {
  const order = orderValue(keyed, part)
  if (order.kind === 'unfit') return `The value by which messages of this route are ordered ${order.why}.`
  const schedule = messageSchedule(keyed, part, nowMs)
  return schedule.kind === 'in' ? null : schedule.why
}

function isFull (context: ModeContext, keyed: KeyedRequest, parts: readonly Part[] = [keyed]): boolean {
  return context.depths.isFull(keyed.route.name, inboxOf(keyed), sizeOf(parts))
}

/** Another request's message has this part's key. For a batch, the answer names the item. */
function clashOf (keyed: KeyedRequest, part: Part, message: MessageDetail): Outcome | null {
  const judged = compareMessage(keyed, part, message)
  if (judged === 'same') return null
  if (judged === 'unknown') return { kind: 'unknown', timedOut: false }
  return part.items === undefined
    ? { kind: 'mismatch' }
    : {
        kind: 'mismatch',
        detail: `Item ${part.items[0]} of the batch: Its key has already been used with a different request. ${NONE_ACCEPTED}`
      }
}
