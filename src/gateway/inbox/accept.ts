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
import type { InboxSize } from '../limits/inbox-depths.ts'
import { IdentityMoved } from '../shared/ids.ts'
import { rejected } from '../shared/outcome.ts'
import type { Outcome, Rejected } from '../shared/outcome.ts'
import { TIMED_OUT, withTimeout } from '../shared/timeout.ts'
import { acceptClaimed, mayHaveCome, noteMessage } from './accept-claimed.ts'
import { inboxOf, messagesOf, placesOf } from './new-message.ts'
import type { Place } from './new-message.ts'
import { NONE_ACCEPTED, partOf, splitRequest } from './split.ts'

export function inboxMode (context: ModeContext): InboxMode {
  return {
    split: splitRequest,
    partOf,
    accept: (keyed, parts) => accept(context, keyed, parts),
    acceptClaimed: async (execution, maySend) => acceptClaimed(context, execution, maySend),
    valueRefusal: (keyed) => valueRefusal(keyed, context.deps.clock.wallMs()),
    fullRefusal: (keyed) => context.depths.isFull(keyed.route.name, inboxOf(keyed), sizeOf([keyed])) ? inboxFull() : null,
    answerOf: async (keyed, outcome) => answerOf(context, keyed, outcome)
  }
}

interface Made { readonly part: Part, readonly place: Place, readonly message: NewMessage }

// ---------------------------------------------------------------- mode inbox

/**
 * Accepts all of `parts`, or none. null: the key has a record, because the route or another gateway executes it in another mode. Its
 * record answers, and a released key is accepted under a claim.
 */
async function accept (context: ModeContext, keyed: KeyedRequest, parts: readonly Part[] = [keyed]): Promise<Outcome | null> {
  const made = makeAll(keyed, parts, context.deps.clock.wallMs())
  if ('kind' in made) return made
  const startedAtMs = context.deps.clock.monotonicMs()
  try {
    if (isUntaken(made)) {
      const clash = await untakenClash(context, keyed, parts, made)
      if (clash !== null || made.length === 0) return clash ?? acceptedAs(keyed, parts, made)
    }
    const loading = context.recordCounts.load(keyed)
    if (loading !== null) await loading
    const full = fullOf(context, made)
    if (full !== null) return await acceptedBefore(context, keyed, parts, made) ?? full
    const beyond = context.recordCounts.exceeded(keyed, made.length)
    if (beyond !== null) return await acceptedBefore(context, keyed, parts, made) ?? context.recordCounts.shed(beyond)
    return await acceptAll(context, keyed, parts, made)
  } catch (error) {
    if (error instanceof IdentityMoved) throw error
    return failed(context, keyed, error)
  } finally {
    keyed.steps.claimMs = context.deps.clock.monotonicMs() - startedAtMs
  }
}

function makeAll (keyed: KeyedRequest, parts: readonly Part[], nowMs: number): Made[] | Rejected {
  const made: Made[] = []
  for (const part of parts) {
    const found = placesOf(keyed, part, { nowMs })
    if (found.kind === 'unfit') return unfit(part, found.said)
    const messages = messagesOf(keyed, part, found.places)
    for (const [index, place] of found.places.entries()) made.push({ part, place, message: messages[index] as NewMessage })
  }
  return made
}

/** Of parts that no target takes nothing is stored. What was accepted under such a key is a message all the same, with its own answer. */
async function untakenClash (
  context: ModeContext,
  keyed: KeyedRequest,
  parts: readonly Part[],
  made: readonly Made[]
): Promise<Outcome | null> {
  const untaken = partsWithout(parts, made)
  const found = await Promise.all(untaken.map(async ({ id }) => context.deps.inbox.look(id)))
  for (const [index, message] of found.entries()) {
    if (message === null) continue
    const part = untaken[index] as Part
    const clash = clashOf(keyed, part, message)
    if (clash !== null) return clash
    if (part.items === undefined) return accepted(keyed, parts)
  }
  return null
}

/** At a limit, messages that were accepted before still get their 202. null: some part is new. */
async function acceptedBefore (
  context: ModeContext,
  keyed: KeyedRequest,
  parts: readonly Part[],
  made: readonly Made[]
): Promise<Outcome | null> {
  const taken = [...new Set(made.map(({ part }) => part))]
  const found = await Promise.all(taken.map(async (part) => context.deps.inbox.look(part.id)))
  for (const [index, message] of found.entries()) {
    if (message === null) return null
    const clash = clashOf(keyed, taken[index] as Part, message)
    if (clash !== null) return clash
  }
  return acceptedAs(keyed, parts, made)
}

/** `news`: the names of those that this request accepted. */
function acceptedAs (keyed: KeyedRequest, parts: readonly Part[], made: readonly Made[], news: readonly string[] = []): Outcome {
  const untaken = partsWithout(parts, made).map(({ name }) => name)
  return accepted(keyed, parts, { news: new Set([...news, ...untaken]), unstored: new Set(untaken) })
}

/** Some part may have no target. The route's own inbox takes every part. */
function isUntaken ([first]: readonly Made[]): boolean {
  return first === undefined || first.place.target !== null
}

function partsWithout (parts: readonly Part[], made: readonly Made[]): Part[] {
  if (!isUntaken(made)) return []
  const taken = new Set(made.map(({ part }) => part))
  return parts.filter((part) => !taken.has(part))
}

/** The detail differs from other limits': the cause is the consumer. */
function inboxFull (whose = 'this route'): Rejected {
  return rejected('overloaded', `The inbox of ${whose} is full: it holds as much as it may, with what was given up and not yet retried or discarded. Nothing was accepted; retry with the same key.`)
}

/** The refusal, if an inbox has no room. A batch that is larger than the empty inbox would never fit, so a retry is pointless. */
function fullOf (context: ModeContext, made: readonly Made[]): Rejected | null {
  for (const { name, target, inbox, size } of sizesOf(made)) {
    if (!context.depths.isFull(name, inbox, size)) continue
    const { depthMax, bytesMax } = inbox
    const { messages, bytes } = size
    if (messages <= depthMax && bytes <= bytesMax) return inboxFull(target === null ? undefined : `the target ${target.name}`)
    const [holds, most] = messages > depthMax
      ? [`${messages} events`, `${depthMax} messages`]
      : [`${bytes} bytes of events`, `${bytesMax} bytes`]
    return rejected('request-too-large', `The request holds ${holds}, and the inbox of this route has room for ${most} when it is empty. Send fewer at once. Nothing was accepted.`)
  }
  return null
}

interface Adding extends Pick<Place, 'inbox' | 'target'> { readonly name: string, readonly size: InboxSize }

/** What is added to each inbox. */
function sizesOf (made: readonly Made[]): Adding[] {
  const [first] = made
  if (made.length === 1 && first !== undefined) {
    const { route: { name }, inbox, target } = first.place
    return [{ name, inbox, target, size: sizeOf([first.part]) }]
  }
  const byName = Map.groupBy(made, ({ place }) => place.route.name)
  return Array.from(byName, ([name, those]) => {
    const { inbox, target } = (those[0] as Made).place
    return { name, inbox, target, size: sizeOf(those.map(({ part }) => part)) }
  })
}

async function acceptAll (
  context: ModeContext,
  keyed: KeyedRequest,
  parts: readonly Part[],
  made: readonly Made[]
): Promise<Outcome | null> {
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
  return acceptedAs(keyed, parts, made, [...news])
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
  const sizes = sizesOf(made)
  keyed.reservation.retain()
  for (const { name, size } of sizes) depths.reserve(name, size)
  try {
    const results = made.length === 1 && first !== undefined
      ? [await inbox.accept(first.message)]
      : await inbox.acceptAll(made.map(({ message }) => message))
    noteAccepted(context, keyed, made, results)
    return results
  } finally {
    for (const { name, size } of sizes) depths.release(name, size)
    keyed.reservation.release()
  }
}

const NOT_ACCEPTED: ReadonlySet<AcceptResult['kind'] | undefined> = new Set(['recorded', 'contended', 'moved'])

function noteAccepted (context: ModeContext, keyed: KeyedRequest, made: readonly Made[], results: readonly AcceptResult[]): void {
  const none = made.some(({ message }, index) => NOT_ACCEPTED.has(results[index]?.kind) || isForeign(results[index], message.fingerprint))
  if (none) return
  const accepted = made.filter((_, index) => results[index]?.kind === 'accepted')
  context.recordCounts.count(keyed, accepted.length)
  for (const { message } of accepted) noteMessage(context, message)
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

/** Checks the values that decide where the message goes, and when, before anything is written. null: they can be used. */
export function valueRefusal (keyed: Pick<KeyedRequest, 'route' | 'rawHeaders' | 'asked'>, nowMs: number): Rejected | null {
  const found = placesOf(keyed, keyed, { nowMs })
  return found.kind === 'unfit' ? unfit({}, found.said) : null
}

function unfit ({ items }: Pick<Part, 'items'>, said: string): Rejected {
  return rejected(
    'bad-request',
    items === undefined ? `${said} Nothing was accepted.` : `Item ${items[0]} of the batch: ${said} ${NONE_ACCEPTED}`
  )
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
