/**
 * What is looked at before anything is claimed: the caller's scope and his place, the body (read in full and bounded,
 * E0), whether he may have what stands under the key, and the fingerprint. How much may be executed at once is asked in
 * pipeline.ts, where retries are told apart. Refusals cost nothing and leave nothing behind.
 */
import { fingerprintOf } from '../core/fingerprint/fingerprint.ts'
import type { Asked } from '../core/fingerprint/fingerprint.ts'
import { headerValue } from '../core/headers/lines.ts'
import { lookInto } from '../core/json/pointer.ts'
import { KEY_RANDOM_BYTES } from '../core/key/issued-keys.ts'
import type { KeySource } from '../core/policy/key-source.ts'
import { findKey, keySourceText, noKeyDetail } from '../core/key/sources.ts'
import type { FoundKey } from '../core/key/sources.ts'
import { prefersAsync } from '../core/headers/prefer.ts'
import { renderQuestion } from '../core/probe/probe.ts'
import { ABOUT_TEXT_MAX } from '../core/record/record.ts'
import { authorised } from './authorise/authorise.ts'
import { callerScope } from './scope/scope.ts'
import type { CallerContext } from './scope/scope.ts'
import type { Drain } from './shared/drain.ts'
import type { KeyedRequest, Part } from './fingerprint/keyed-request.ts'
import { keyRefusal, takesKeyless } from './key/head-key.ts'
import { BodyReservation } from './body/body-reservation.ts'
import { keyHashOf } from './shared/ids.ts'
import type { Identified, ScopeUnder } from './shared/ids.ts'
import type { Limits } from './limits/limits.ts'
import { ONE } from './execution/modes.ts'
import type { InboxMode, SplitMessage } from './execution/modes.ts'
import { notIssued } from './issued-keys/judge.ts'
import { passOn } from './forward/pass-on.ts'
import { BodyRoom, holderOf } from './body/body-room.ts'
import { rejected } from './shared/outcome.ts'
import type { Outcome } from './shared/outcome.ts'
import { bodyRefusal } from './key/guarded-request.ts'
import type { BodyResult, GuardedRequest } from './key/guarded-request.ts'

export interface AdmitContext extends CallerContext {
  readonly drain: Drain
  readonly limits: Limits
  readonly inbox: InboxMode
  /** It runs here, or has run here a moment ago. */
  readonly knows: (name: string) => boolean
}

/** `parts`: of a request that holds several events, which are one message each. */
export interface Admitted {
  readonly kind: 'keyed'
  readonly keyed: KeyedRequest
  readonly parts: readonly Part[] | null
  /** The same request, identified anew; null: that cannot be done now. @throws as the store does */
  readonly again: () => Promise<Omit<Admitted, 'kind' | 'again'> | null>
}

export type Admission = Admitted | { readonly kind: 'refused' | 'passed', readonly outcome: Outcome }

/** A key, or that there is none in the head. */
type Sought = Exclude<GuardedRequest['key'], { kind: 'refused' }>

export async function admit (context: AdmitContext, request: GuardedRequest, key: Sought): Promise<Admission> {
  const { route } = request
  if (context.drain.refusing) return refused({ kind: 'rejected', code: 'draining', close: true })
  const scope = await callerScope(context, request, route.idempotency, route.name, route.upstream.host)
  if (scope.kind === 'refused') return scope
  if (context.ids.blocked !== null) return refused({ kind: 'unavailable' })
  const foreign = key.kind === 'keyless' ? null : notIssued(context, request, key, scope)
  if (foreign !== null) return refused(foreign)
  const leave = context.limits.takeCallerSlot(scope.caller)
  if (leave === null) return refused(rejected('too-many-in-flight'))
  const holder = holderOf(scope.caller, request.peer)
  request.steps.holder = holder
  const room = new BodyRoom(context.limits, holder, request.route.idempotency.keep.requestBytesMax)
  let admission: Admission | null = null
  try {
    admission = await admitCaller(context, request, key, { scopeUnder: (rules) => scope.under(rules)?.scope ?? null, room, leave })
    return admission
  } finally {
    // Whoever goes on gives its place back with its body (body-reservation.ts).
    if (admission?.kind !== 'keyed') {
      room.release()
      leave()
    }
  }
}

async function admitCaller (context: AdmitContext, request: GuardedRequest, key: Sought, whose: Whose): Promise<Admission> {
  const { route, steps } = request
  const startedAt = context.deps.clock.monotonicMs()
  const read = await request.readBody(route.idempotency.keep.requestBytesMax, whose.room)
  if (read.kind !== 'body') return refused(bodyRefusal(read.kind, whose.room))
  const arrivedAtMs = context.deps.clock.monotonicMs()
  steps.bodyMs = arrivedAtMs - startedAt
  steps.requestBytes = read.body.length
  const split = key.kind === 'body' ? context.inbox.split(request, read.body, context.deps.clock.wallMs, context.ids.rules) : ONE
  if (split.kind === 'refused') return refused(split.outcome)
  if (split.kind === 'several') {
    return (await unauthorised(context, request, read)) ?? severalOf(context, request, split.messages, { ...whose, read, arrivedAtMs })
  }
  const sought = key.kind === 'body'
    ? findKey(
      route.idempotency.key,
      { rawHeaders: request.rawHeaders, target: request.target, match: route.match, nowMs: context.deps.clock.wallMs },
      read.body
    )
    : key
  const keyless = sought.kind === 'keyless' || (sought.kind === 'absent' && takesKeyless(route.idempotency, request.rawHeaders))
  const found = keyless ? keyOfOnce(context, route.name) : sought
  if (found.kind === 'passes') return passed(context, request, found, { ...whose, body: read.body })
  if (found.kind !== 'key') return refused(refusalOfKey(route.idempotency.key.sources, found, read.body))
  const refusal = await unauthorised(context, request, read)
  if (refusal !== null) return refusal
  if (found.source !== undefined && route.idempotency.key.sources.length > 1) steps.keyFrom = keySourceText(found.source)
  return admitted(context, request, { ...whose, found, read, arrivedAtMs }, null)
}

/** Sure of its identity as far as this process has heard; the store knows better. */
function admitted (context: AdmitContext, request: GuardedRequest, read: Read, messages: readonly SplitMessage[] | null): Admission {
  const { route } = request
  const reservation = new BodyReservation(read.room, read.leave)
  const { scopeUnder } = read
  const { knows } = context
  const keyed = (identified: Identified): KeyedRequest => keyedRequestOf(context, request, read, identified, reservation)
  const first = context.ids.identify(route, scopeUnder, read.found.key, knows)
  if (first === null) return refused({ kind: 'unavailable' })
  const made = keyed(first)
  return {
    kind: 'keyed',
    keyed: made,
    parts: messages?.map((message) =>
      context.inbox.partOf(made, message, context.ids.identify(route, scopeUnder, message.key, knows) ?? first)) ?? null,
    again: async () => {
      await context.ids.look()
      const identified = await context.ids.identifyAnew(route, scopeUnder, read.found.key)
      if (identified === null) return null
      const anew = keyed(identified)
      const parts = messages === null
        ? null
        : await Promise.all(messages.map(async (message) =>
          context.inbox.partOf(anew, message, await context.ids.identifyAnew(route, scopeUnder, message.key) ?? identified)))
      return { keyed: anew, parts }
    }
  }
}

/** null: it goes on. */
async function unauthorised (
  context: AdmitContext,
  request: GuardedRequest,
  { body }: Extract<BodyResult, { kind: 'body' }>
): Promise<Admission | null> {
  const refusal = await authorised(context, request, body)
  return refusal === null ? null : refused(refusal)
}

/** Named after its first event; its body is held once as it came, and once more in parts. */
function severalOf (
  context: AdmitContext,
  request: GuardedRequest,
  messages: readonly [SplitMessage, ...SplitMessage[]],
  read: Omit<Read, 'found'>
): Admission {
  const [{ key, source }] = messages
  if (!read.room.take(read.read.body.length)) return refused(read.room.refused())
  const found = { kind: 'key', key, ...(source !== null && { source }) } as const
  return admitted(context, request, { ...read, found }, messages)
}

function keyOfOnce (context: AdmitContext, route: string): Extract<FoundKey, { kind: 'key' }> {
  context.deps.meter.keyless(route)
  return { kind: 'key', key: `keyless:${context.deps.random.bytes(KEY_RANDOM_BYTES).toString('base64url')}` }
}

async function passed (
  context: AdmitContext,
  request: GuardedRequest,
  { preset, why }: Extract<FoundKey, { kind: 'passes' }>,
  { body, room }: { readonly body: Buffer, readonly room: BodyRoom }
): Promise<Admission> {
  context.deps.meter.passed(request.route.name, preset, why)
  request.steps.keyFrom = preset
  return { kind: 'passed', outcome: await passOn(context, request, body, room.holder) }
}

/** What was asked of the body, and is not there: the one who asked has to say what he means. */
function refusalOfKey (sources: readonly KeySource[], found: Exclude<FoundKey, { kind: 'key' | 'passes' }>, body: Buffer): Outcome {
  if (found.kind === 'missing') return rejected('key-missing', `${noKeyDetail(sources, found)}${unreadOf(body)}`)
  return found.kind === 'body' ? rejected('key-missing') : keyRefusal(sources, found)
}

/** A value that the sender sees in its body, and that is said not to be there. */
function unreadOf (body: Buffer): string {
  const found = lookInto(body, [])
  return 'kind' in found ? ` The body ${found.why}.` : ''
}

interface Whose {
  readonly scopeUnder: ScopeUnder
  /** Where its body is held. */
  readonly room: BodyRoom
  /** Gives the caller's place back. */
  readonly leave: () => void
}

interface Read extends Whose {
  readonly found: Extract<FoundKey, { kind: 'key' }>
  readonly read: Extract<BodyResult, { kind: 'body' }>
  readonly arrivedAtMs: number
}

function keyedRequestOf (
  context: AdmitContext,
  request: GuardedRequest,
  { found: { key, source }, read: { body }, arrivedAtMs }: Read,
  identified: Identified,
  reservation: BodyReservation
): KeyedRequest {
  const { route, rawHeaders, steps } = request
  const policy = route.idempotency
  const asked: Asked = { method: request.method, target: request.target, rawHeaders, body }
  const fingerprint = fingerprintOf(asked, policy.fingerprint, identified.keys.rules)
  const { id, name, scheme, earlierId } = identified
  steps.record = name
  const preferred = policy.inbox !== null && prefersAsync(rawHeaders)
  const deferred = preferred || policy.inboxFor === 'all'
  return {
    route,
    id,
    name,
    identified,
    asked,
    claim: {
      id,
      scheme,
      earlierId,
      fingerprint,
      leaseMs: policy.leaseMs,
      unknownKeepMs: policy.unknownRetentionMs,
      quarantineMs: route.upstream.timeoutMs + policy.leaseMs
    },
    preferred,
    deferred,
    retentionMs: source?.kind === 'hash' ? policy.key.windowMs : policy.retentionMs,
    // Made only where a record is claimed: a replay needs none of it.
    about: () => ({
      route: route.name,
      method: request.method,
      path: pathOf(request.target),
      requestId: request.requestId,
      instance: context.deps.instance,
      keyHash: keyHashOf(identified),
      keyText: policy.key.store === 'text' ? key : null
    }),
    question: () => policy.probe === null || deferred
      ? null
      : renderQuestion(policy.probe, route.upstream.name, {
        key,
        recordId: name,
        body,
        host: route.upstream.host === 'preserve' ? headerValue(rawHeaders, 'host') : null
      }),
    rawHeaders,
    forwarded: request.forwarded,
    requestId: request.requestId,
    arrivedAtMs,
    gone: request.gone,
    informed: request.informed,
    steps,
    reservation
  }
}

// ---------------------------------------------------------------- small things

function pathOf (target: string): string {
  const query = target.indexOf('?')
  return (query === -1 ? target : target.slice(0, query)).slice(0, ABOUT_TEXT_MAX)
}

function refused (outcome: Outcome): Admission {
  return { kind: 'refused', outcome }
}
