/**
 * The inbox's door: a request becomes a message, durably, and its sender is told so (202). By itself where the route is an
 * inbox; in the place of a sending, under the record's claim, where a client of the route may ask for it. An acceptance is
 * idempotent by its id: whatever was lost on the way, the same request again finds its message.
 */
import { messageGroup, messageScope } from '../../core/inbox/acceptance.ts'
import { rulesOf } from '../../core/forward/deciding.ts'
import { guardedRequestHeaders } from '../../core/forward/forwarding.ts'
import { lookInto } from '../../core/json/pointer.ts'
import type { Value } from '../../core/policy/key-source.ts'
import { bodyValue, headerText } from '../../core/key/values.ts'
import { withoutFields } from '../../core/headers/lines.ts'
import type { MessageDetail, NewMessage } from '../../core/inbox/message.ts'
import type { InboxPolicy } from '../../core/policy/policy.ts'
import { withoutAsync } from '../../core/headers/prefer.ts'
import type { Fingerprint } from '../../core/record/record.ts'
import { verifierOf } from '../../core/headers/signature.ts'
import { errorText, StoreOverloaded, StoreUnavailable } from '../../ports/errors.ts'
import type { AcceptResult } from '../../ports/inbox.ts'
import type { UpstreamResult } from '../../ports/upstream.ts'
import { compareMessage } from '../fingerprint/comparison.ts'
import type { Execution } from '../execution/execution.ts'
import type { KeyedRequest, Part } from '../fingerprint/keyed-request.ts'
import { IdentityMoved } from '../shared/ids.ts'
import { sizeOf } from '../limits/inbox-depths.ts'
import { rejected } from '../shared/outcome.ts'
import type { Outcome, Rejected } from '../shared/outcome.ts'
import { INBOX_UNREACHED } from '../execution/modes.ts'
import type { InboxMode, ModeContext, ClaimedAcceptance } from '../execution/modes.ts'
import { accepted, asAccepted } from '../execution/outcomes.ts'
import { TIMED_OUT, withTimeout } from '../shared/timeout.ts'
import { NONE_ACCEPTED, partOf, splitRequest } from './split.ts'

export function inboxMode (context: ModeContext): InboxMode {
  return {
    split: splitRequest,
    partOf,
    accept: async (keyed, parts) => accept(context, keyed, parts),
    acceptClaimed: async (execution, maySend) => acceptClaimed(context, execution, maySend),
    orderRefusal: (keyed) => orderRefusal(keyed),
    fullRefusal: (keyed) => isFull(context, keyed) ? INBOX_FULL : null,
    answerOf: async (keyed, outcome) => answerOf(context, keyed, outcome)
  }
}

interface Made { readonly part: Part, readonly message: NewMessage }

// ---------------------------------------------------------------- mode inbox

/**
 * All of `parts`, or none of them. null: it was executed, or is being so, while the route had another mode (or at a gateway where
 * it has): its record says what there is, and what is free is accepted under a claim.
 */
async function accept (context: ModeContext, keyed: KeyedRequest, parts: readonly Part[] = [keyed]): Promise<Outcome | null> {
  const refusal = orderRefusal(keyed, parts)
  if (refusal !== null) return refusal
  const made = parts.map((part) => ({ part, message: messageOf(keyed, part) }))
  const startedAtMs = context.deps.clock.monotonicMs()
  try {
    await context.recordCounts.load(keyed)
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

/** Who is full takes nothing new; what it has taken it has. null: something of it is new. */
async function acceptedBefore (context: ModeContext, keyed: KeyedRequest, parts: readonly Part[]): Promise<Outcome | null> {
  const found = await Promise.all(parts.map(async (part) => context.deps.inbox.look(part.id)))
  for (const [index, message] of found.entries()) {
    if (message === null) return null
    const clash = clashOf(keyed, parts[index] as Part, message)
    if (clash !== null) return clash
  }
  return accepted(keyed, parts, false)
}

/** Not any other of the gateway's limits: who looks for the cause looks at the consumer. */
const INBOX_FULL = rejected(
  'overloaded',
  'The inbox of this route is full: more waits for its consumer than it may hold. Nothing was accepted; retry with the same key.'
)

/** What is more than the inbox ever holds does not come in by being sent again. */
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
  let isNew = false
  for (let open = made; open.length > 0;) {
    const results = await write(context, keyed, open)
    if (results === TIMED_OUT) return { kind: 'unavailable', inDoubt: true }
    if (results.some(({ kind }) => kind === 'moved')) throw new IdentityMoved()
    const recorded = open.find((_, index) => results[index]?.kind === 'recorded')
    if (recorded !== undefined) return recorded.part.item === undefined ? null : executedBefore(recorded.part.item)
    const contended = open.find((_, index) => results[index]?.kind === 'contended')
    if (contended !== undefined) return contended.part.item === undefined ? null : CHANGING
    const foreign = open.filter(({ message }, index) => isForeign(results[index], message.fingerprint))
    if (foreign.length === 0) {
      isNew ||= results.some(({ kind }) => kind === 'accepted')
      break
    }
    for (const [index, { part }] of open.entries()) {
      const result = results[index]
      const clash = result?.kind === 'seen' ? clashOf(keyed, part, result.message) : null
      if (clash !== null) return clash
    }
    // With one of them under another fingerprint that is as good, none was written: the others once more, without it.
    open = open.filter((each) => !foreign.includes(each))
  }
  return accepted(keyed, made.map(({ part }) => part), isNew)
}

/** Of several there is no one record that could answer. */
function executedBefore (item: number): Rejected {
  return rejected(
    'key-reused',
    `Item ${item} of the batch: It was executed, or is being so, from before this route had an inbox. ${NONE_ACCEPTED}`
  )
}

/** A claim is of one key. */
const CHANGING = rejected(
  'overloaded',
  `The mode of this route is being changed, and a gateway that executes what comes for it is still there. ${NONE_ACCEPTED} Retry until it is gone.`
)

/** As the store compares: to the byte. */
function isForeign (result: AcceptResult | undefined, { alg, value }: Fingerprint): boolean {
  return result?.kind === 'seen' && (result.message.fingerprint.alg !== alg || !result.message.fingerprint.value.equals(value))
}

/** The statement goes on behind whoever has stopped waiting for it, and the body is held until it ends. */
async function write (context: ModeContext, keyed: KeyedRequest, made: readonly Made[]): Promise<AcceptResult[] | typeof TIMED_OUT> {
  const { clock, claimWithinMs } = context.deps
  keyed.reservation.retain()
  const writing = written(context, keyed, made).finally(() => { keyed.reservation.release() })
  return withTimeout(clock, claimWithinMs, writing)
}

async function written (context: ModeContext, keyed: KeyedRequest, made: readonly Made[]): Promise<AcceptResult[]> {
  const { depths, deps: { inbox } } = context
  const [first] = made
  const size = sizeOf(made.map(({ part }) => part))
  depths.reserve(keyed.route.name, size)
  try {
    const results = made.length === 1 && first !== undefined
      ? [await inbox.accept(first.message)]
      : await inbox.acceptAll(made.map(({ message }) => message))
    noteAccepted(context, keyed, made, results)
    return results
  } finally {
    depths.release(keyed.route.name, size)
  }
}

const NOT_ACCEPTED: ReadonlySet<AcceptResult['kind'] | undefined> = new Set(['recorded', 'contended', 'moved'])

function noteAccepted (context: ModeContext, keyed: KeyedRequest, made: readonly Made[], results: readonly AcceptResult[]): void {
  const none = made.some(({ message }, index) => NOT_ACCEPTED.has(results[index]?.kind) || isForeign(results[index], message.fingerprint))
  if (none) return
  const accepted = made.filter((_, index) => results[index]?.kind === 'accepted')
  context.recordCounts.count(keyed, accepted.length)
  for (const { message } of accepted) note(context, keyed, message)
}

function note (context: ModeContext, keyed: KeyedRequest, { request }: NewMessage): void {
  context.depths.accepted(keyed.route.name, request.body.length)
  context.onMessage()
}

function failed (context: ModeContext, keyed: KeyedRequest, error: unknown): Outcome {
  const inDoubt = mayHaveCome(error)
  context.deps.log.warn(
    { record: keyed.name, route: keyed.route.name, error: errorText(error), inDoubt },
    'a message was not accepted, or nobody knows'
  )
  return error instanceof StoreOverloaded ? rejected('overloaded') : { kind: 'unavailable', inDoubt }
}

function mayHaveCome (error: unknown): boolean {
  return error instanceof StoreUnavailable && error.inDoubt
}

// ---------------------------------------------------------------- async: allowed

/** Between two tries of an acceptance that may have been made. */
const RETRY_FIRST_MS = 100
const RETRY_LONGEST_MS = 2_000

/**
 * With the claim won, the inbox is looked at, whichever way this request goes: a message may stand there though its record
 * has ended, lapsed or been released. null: it is sent. `maySend`: the lease is believed.
 */
async function acceptClaimed (
  context: ModeContext,
  execution: Execution,
  maySend: () => boolean
): Promise<UpstreamResult | ClaimedAcceptance | null> {
  const { keyed } = execution
  if (keyed.deferred) return acceptInPlace(context, execution, maySend)
  try {
    const message = await context.deps.inbox.look(keyed.id)
    return message === null ? null : taken(keyed, { kind: 'seen', message })
  } catch (error) {
    return unreached(context, keyed, error)
  }
}

/**
 * An acceptance in doubt is made again until the store says what there is: it is the same message. Who waits is told after
 * the time for a claim; the lease is held meanwhile, so that nobody sends what may be in the inbox. When it has ended, the
 * store is asked once more: it takes nothing under a claim that is over, and the record is to say what the inbox says.
 */
async function acceptInPlace (
  context: ModeContext,
  execution: Execution,
  maySend: () => boolean
): Promise<UpstreamResult | ClaimedAcceptance> {
  const { keyed } = execution
  const { clock, claimWithinMs, inbox } = context.deps
  const message = { ...messageOf(keyed, keyed), underClaim: { owner: execution.owner, attempt: execution.attempt } }
  const cancelTimer = clock.after(claimWithinMs, () => { execution.result.resolve({ kind: 'unavailable', inDoubt: true }) })
  let inDoubt = false
  try {
    for (let pauseMs = RETRY_FIRST_MS; ; pauseMs = Math.min(pauseMs * 2, RETRY_LONGEST_MS)) {
      const isLast = !maySend()
      if (isLast && !inDoubt) return { kind: 'unsent', code: 'LEASE' }
      try {
        const result = await inbox.accept(message)
        // It came too late, whichever try of it: the claim has ended, and nothing that is under way can come in any more.
        if (result.kind === 'recorded') return { kind: 'unsent', code: 'LEASE' }
        if (result.kind === 'accepted') note(context, keyed, message)
        return taken(keyed, result)
      } catch (error) {
        inDoubt ||= mayHaveCome(error)
        if (!inDoubt) return unreached(context, keyed, error)
      }
      execution.result.resolve({ kind: 'unavailable', inDoubt: true })
      if (!isLast) await context.drain.pause(pauseMs)
      if (isLast || context.drain.stopped) return { kind: 'lost', code: INBOX_UNREACHED, timedOut: true, status: null }
    }
  } finally {
    cancelTimer()
  }
}

function taken (keyed: KeyedRequest, result: AcceptResult): ClaimedAcceptance {
  if (result.kind === 'accepted') return { kind: 'accepted', isNew: true }
  if (result.kind !== 'seen') throw new Error(`an acceptance under a claim that was told: ${result.kind}`)
  return compareMessage(keyed, keyed, result.message) === 'same' ? { kind: 'accepted', isNew: false } : { kind: 'taken-by-another' }
}

function unreached (context: ModeContext, keyed: KeyedRequest, error: unknown): UpstreamResult {
  context.deps.log.warn(
    { record: keyed.name, route: keyed.route.name, error: errorText(error) },
    'the inbox does not answer; nothing was sent'
  )
  return { kind: 'unsent', code: INBOX_UNREACHED }
}

/**
 * What the record says, in the inbox's words. Where the record does not say that there is a message (its gateway died
 * between the message and the record's settle), the inbox is asked before anybody is told "in flight" or "not known".
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
    // No room for a new one: what is in the inbox has its 202, whether its record is there still or not.
    case 'rejected': return keyed.deferred && outcome.code === 'overloaded' ? acceptedOr(context, keyed, outcome) : outcome
    default: return outcome
  }
}

async function acceptedOr (context: ModeContext, keyed: KeyedRequest, outcome: Outcome): Promise<Outcome> {
  const message = await context.deps.inbox.look(keyed.id).catch(() => null)
  return message !== null && compareMessage(keyed, keyed, message) === 'same' ? accepted(keyed, [keyed], false) : outcome
}

// ---------------------------------------------------------------- the message

/** Before anything is written: in which order it stands. null: it may come in. */
function orderRefusal (keyed: KeyedRequest, parts: readonly Part[] = [keyed]): Rejected | null {
  for (const part of parts) {
    const order = orderValue(keyed, part)
    if (order.kind !== 'unfit') continue
    const said = `The value by which messages of this route are ordered ${order.why}.`
    return rejected(
      'bad-request',
      part.item === undefined ? `${said} Nothing was accepted.` : `Item ${part.item} of the batch: ${said} ${NONE_ACCEPTED}`
    )
  }
  return null
}

function isFull (context: ModeContext, keyed: KeyedRequest, parts: readonly Part[] = [keyed]): boolean {
  return context.depths.isFull(keyed.route.name, inboxOf(keyed), sizeOf(parts))
}

/** Another request's message stands under this part's key. Of several, the one who sent them is told which. */
function clashOf (keyed: KeyedRequest, part: Part, message: MessageDetail): Outcome | null {
  const judged = compareMessage(keyed, part, message)
  if (judged === 'same') return null
  if (judged === 'unknown') return { kind: 'unknown', timedOut: false }
  return part.item === undefined
    ? { kind: 'mismatch' }
    : {
        kind: 'mismatch',
        detail: `Item ${part.item} of the batch: Its key has already been used with a different request. ${NONE_ACCEPTED}`
      }
}

/** The request as its consumer gets it, made once: a later delivery is the same to the byte. */
function messageOf (keyed: KeyedRequest, part: Part): NewMessage {
  const { route } = keyed
  const { unknown } = route.idempotency
  const { onDead, deadRetentionMs } = inboxOf(keyed)
  const order = orderValue(keyed, part)
  const { method, target, body } = part.asked
  return {
    id: part.id,
    ...part.claim,
    scopeHash: messageScope(part.identified.scope, part.identified.keys.secret),
    group: order.kind === 'value' ? messageGroup(route.name, order.text) : null,
    holds: unknown !== 'retry',
    stops: onDead === 'stop-group',
    keepMs: part.retentionMs,
    deadKeepMs: deadRetentionMs,
    request: {
      method,
      target,
      headers: fieldsOf(keyed, part),
      body
    },
    about: part.about()
  }
}

/**
 * The upstream's own are added to each delivery, as they are by then: no credential of ours is stored, and none of a
 * sender's in its place.
 */
function fieldsOf (
  { route: { upstream, idempotency }, requestId, forwarded, preferred }: KeyedRequest,
  { rawHeaders, asked: { body } }: Part
): string[] {
  const fields = guardedRequestHeaders(preferred ? withoutAsync(rawHeaders) : rawHeaders, {
    record: null,
    verified: verifierOf(idempotency),
    requestId,
    keyHeader: idempotency.key.header,
    forwardKey: idempotency.forwardKey,
    rules: rulesOf(idempotency),
    host: upstream.host,
    forwarded,
    extra: upstream.requestHeaders,
    bodyBytes: body.length
  })
  return withoutFields(fields, upstream.requestHeaders.map(([name]) => name))
}

/**
 * Of a message without it there is none before and none behind. One that nobody can read may have it, and must not go
 * ahead of others for that.
 */
function orderValue (keyed: KeyedRequest, { asked: { body } }: Part): Value {
  const { order } = inboxOf(keyed)
  if (order === null) return { kind: 'none' }
  if (order.kind === 'header') return headerText(order.name, keyed.rawHeaders)
  const found = lookInto(body, [order.pointer])
  if ('kind' in found) return { kind: 'unfit', why: `cannot be looked for: the body ${found.why}` }
  return bodyValue(new Map(found.map((each) => [order.pointer, each])), order.pointer)
}

function inboxOf ({ route }: KeyedRequest): InboxPolicy {
  const { inbox } = route.idempotency
  if (inbox === null) throw new Error(`route ${route.name} has no inbox`)
  return inbox
}
