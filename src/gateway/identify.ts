/**
 * From a request's head to its identity: `scope`, `body`, `key` (if it is in the body), `fingerprint`. A refusal here costs nothing
 * and leaves nothing behind. Authorisation and the limits of executions come later.
 */
import type { Event } from '../core/protocol/way.ts'
import { keySourceText } from '../core/key/sources.ts'
import type { FoundKey } from '../core/key/sources.ts'
import { BodyReservation } from './body/body-reservation.ts'
import { BodyBudget, holderOf } from './body/body-budget.ts'
import { bodyRefusal } from './body/read-whole.ts'
import type { GuardedRequest } from './execution/guarded-request.ts'
import { ONE } from './execution/modes.ts'
import type { InboxMode, SplitMessage } from './execution/modes.ts'
import { keyedRequest } from './fingerprint/keyed-request.ts'
import type { KeyedRequest, Part } from './fingerprint/keyed-request.ts'
import { passOn } from './forward/pass-on.ts'
import { issuedKeyRefusal } from './issued-keys/judge.ts'
import { resolveKey } from './key/body-key.ts'
import type { UsableHeadKey } from './key/body-key.ts'
import { warnMistypedKey } from './key/mistyped-key.ts'
import type { Limits } from './limits/limits.ts'
import { callerScope, scopeOfHead } from './scope/scope.ts'
import type { CallerContext } from './scope/scope.ts'
import type { Deps } from './shared/deps.ts'
import type { Drain } from './shared/drain.ts'
import type { Identified, Ids } from './shared/ids.ts'
import type { Notices } from './shared/notices.ts'
import { rejected } from './shared/outcome.ts'
import type { Outcome } from './shared/outcome.ts'

export interface IdentifyContext extends CallerContext {
  readonly deps: Deps
  readonly ids: Ids
  readonly notices: Notices
  readonly drain: Drain
  readonly limits: Limits
  readonly inbox: InboxMode
  /** This process executes it, or has its answer in memory. */
  readonly isInMemory: (name: string) => boolean
}

/** Hands a request over to code that takes its time. */
export type Aside = (request: GuardedRequest, work: Promise<Outcome>) => Event

/** A promise: `scoped` follows when its token is verified. */
export function findScope (context: IdentifyContext, request: GuardedRequest): Event | Promise<void> {
  const { incoming } = request
  const { key, route } = incoming
  if (key.kind === 'refused') {
    if (key.isAbsent) warnMistypedKey(context.notices, route.name, route.idempotency.key, incoming.rawHeaders, 'refused')
    return refused(request, key.outcome)
  }
  if (context.drain.refusing) return refused(request, { kind: 'rejected', code: 'draining', close: true })
  request.scopeAskedAtMs = context.deps.clock.monotonicMs()
  request.scope = scopeOfHead(context, incoming, route.idempotency, route.name, route.upstream.host)
  if (request.scope !== null) return 'scoped'
  return callerScope(context, incoming, route.idempotency, route.name, route.upstream.host).then((scope) => { request.scope = scope })
}

/** Its caller is known. Takes the caller's slot, and reads the body into the caller's share of the buffers. */
export function readBody (context: IdentifyContext, request: GuardedRequest): Event | null {
  const { incoming, scope } = request
  const { route, key, steps } = incoming
  steps.scopeMs = context.deps.clock.monotonicMs() - request.scopeAskedAtMs
  if (scope === null) throw new TypeError('no scope is known')
  if (scope.kind === 'refused') return refused(request, scope.outcome)
  if (context.ids.blocked !== null) return refused(request, { kind: 'unavailable' })
  const foreign = key.kind === 'keyless' || key.kind === 'refused' ? null : issuedKeyRefusal(context, incoming, key, scope)
  if (foreign !== null) return refused(request, foreign)
  const slot = context.limits.takeCallerSlot(scope.caller)
  if (slot === null) return refused(request, rejected('too-many-in-flight'))
  const { requestBytesMax } = route.idempotency.keep
  const budget = new BodyBudget(context.limits, holderOf(scope.caller, incoming.peer), requestBytesMax)
  request.reservation = new BodyReservation(budget, context.limits.callerSlots, slot)
  steps.holder = budget.holder
  request.bodyAskedAtMs = context.deps.clock.monotonicMs()
  incoming.readBody(requestBytesMax, budget, request)
  return null
}

/** Its body is whole: finds its key and makes its id and fingerprint, by the scheme of ids that this process knows of. */
export function identify (context: IdentifyContext, request: GuardedRequest, aside: Aside): Event {
  const { incoming, bodyResult, reservation } = request
  const { route, key, steps } = incoming
  if (bodyResult === null || reservation === null || key.kind === 'refused') throw new TypeError('a body that nobody reads')
  if (bodyResult.kind !== 'body') return refused(request, bodyRefusal(bodyResult.kind, reservation.budget))
  const { body } = bodyResult
  const arrivedAtMs = context.deps.clock.monotonicMs()
  steps.bodyMs = arrivedAtMs - request.bodyAskedAtMs
  steps.requestBytes = body.length
  const split = key.kind === 'body' ? context.inbox.split(incoming, body, context.deps.clock.wallMs, context.ids.rules) : ONE
  if (split.kind === 'refused') return refused(request, split.outcome)
  if (split.kind === 'several') return severalOf(context, request, split.messages, { body, arrivedAtMs })
  const found = resolveKey(context.deps, incoming, key satisfies UsableHeadKey, body)
  if (found.kind === 'refused') return refused(request, found.outcome)
  if (found.kind === 'passes') return passed(context, request, found, body, aside)
  if (found.source !== undefined && route.idempotency.key.sources.length > 1) steps.keyFrom = keySourceText(found.source)
  return identified(context, request, { found, body, arrivedAtMs })
}

interface Read { readonly body: Buffer, readonly arrivedAtMs: number }
interface Keyed extends Read { readonly found: Extract<FoundKey, { kind: 'key' }> }

function identified (
  context: IdentifyContext,
  request: GuardedRequest,
  read: Keyed,
  messages: readonly SplitMessage[] | null = null
): Event {
  const { incoming: { route }, scope } = request
  const first = scope === null ? null : context.ids.identify(route, scope, read.found.key, context.isInMemory)
  if (scope === null || first === null) return refused(request, { kind: 'unavailable' })
  const keyed = keyedAs(context, request, read, first)
  request.found = read.found
  request.messages = messages
  request.identifiedAs(keyed, messages?.map((message) =>
    context.inbox.partOf(keyed, message, context.ids.identify(route, scope, message.key, context.isInMemory) ?? first)) ?? null)
  return 'permitted'
}

/**
 * The same request, identified again, because the store may know a newer scheme of ids. false: not possible now.
 * @throws as the store does
 */
export async function identifyAgain (context: IdentifyContext, request: GuardedRequest): Promise<boolean> {
  const { incoming: { route }, scope, found, messages, keyed: { asked: { body }, arrivedAtMs } } = request
  await context.ids.refresh()
  const identity = scope === null || found === null ? null : await context.ids.identifyAnew(route, scope, found.key)
  if (scope === null || found === null || identity === null) return false
  const keyed = keyedAs(context, request, { found, body, arrivedAtMs }, identity)
  const parts: Part[] = []
  for (const message of messages ?? []) {
    parts.push(context.inbox.partOf(keyed, message, await context.ids.identifyAnew(route, scope, message.key) ?? identity))
  }
  request.identifiedAs(keyed, messages === null ? null : parts)
  return true
}

function keyedAs (
  context: IdentifyContext,
  request: GuardedRequest,
  { found, body, arrivedAtMs }: Keyed,
  identity: Identified
): KeyedRequest {
  const { incoming, reservation } = request
  if (reservation === null) throw new TypeError('no body is held')
  return keyedRequest(context.deps, incoming, { ...found, body, arrivedAtMs }, identity, reservation)
}

/** Named after its first event. The buffers hold its body twice: whole, and in parts. */
function severalOf (
  context: IdentifyContext,
  request: GuardedRequest,
  messages: readonly [SplitMessage, ...SplitMessage[]],
  read: Read
): Event {
  const [{ key, source }] = messages
  const budget = request.reservation?.budget
  if (budget?.reserve(read.body.length) === false) return refused(request, budget.refused())
  return identified(context, request, { ...read, found: { kind: 'key', key, ...(source !== null && { source }) } }, messages)
}

/** The route's preset lets it through without a record. */
function passed (
  context: IdentifyContext,
  request: GuardedRequest,
  { preset, why }: Extract<FoundKey, { kind: 'passes' }>,
  body: Buffer,
  aside: Aside
): Event {
  const { incoming, holder } = request
  context.deps.meter.passed(incoming.route.name, preset, why)
  incoming.steps.keyFrom = preset
  return aside(request, passOn(context, incoming, body, holder))
}

function refused (request: GuardedRequest, outcome: Outcome): Event {
  request.outcome = outcome
  return 'refused'
}
