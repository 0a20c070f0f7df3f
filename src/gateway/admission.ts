/**
 * What is looked at before anything is claimed: the caller's scope and his place, the body (read in full and bounded,
 * E0) and the fingerprint. How much may be executed at once is asked in handle.ts, where retries are told apart.
 * Refusals cost nothing and leave nothing behind.
 */
import { fingerprintOf } from '../core/fingerprint.ts'
import type { Asked } from '../core/fingerprint.ts'
import { headerValue } from '../core/headers.ts'
import type { Forwarded } from '../core/headers.ts'
import { keyHash, recordId } from '../core/identity.ts'
import { lookInto } from '../core/json-pointer.ts'
import { KEY_RANDOM_BYTES } from '../core/issued-keys.ts'
import { findKey, keySourceText } from '../core/key-sources.ts'
import type { FoundKey, Keyed, SourcedKey } from '../core/key-sources.ts'
import { prefersAsync } from '../core/prefer.ts'
import { renderQuestion } from '../core/probe.ts'
import { ABOUT_TEXT_MAX } from '../core/record.ts'
import type { RawHeaders } from '../core/record.ts'
import type { GuardedRoute, IdempotencyPolicy } from '../core/policy.ts'
import type { Part } from './accepting.ts'
import { Holding } from './budget.ts'
import { callerScope } from './caller.ts'
import type { Steps, Visit } from './execution.ts'
import type { Gateway } from './gateway.ts'
import { notIssued } from './only-issued.ts'
import { passOn } from './passing.ts'
import { rejected } from './outcome.ts'
import type { Outcome, Rejected } from './outcome.ts'
import { ONE, partOf, splitRequest } from './splitting.ts'
import type { SplitMessage } from './splitting.ts'

export type BodyResult =
  /** `heldBytes`: what was reserved for it and is now the gateway's to give back. */
  | { readonly kind: 'body', readonly body: Buffer, readonly heldBytes: number }
  | { readonly kind: 'too-large' | 'too-slow' | 'no-room' | 'gone' }

/** A request on a guarded route, as the HTTP side hands it over: head read, body not yet. */
export interface GuardedRequest {
  readonly route: GuardedRoute
  readonly method: string
  readonly target: string
  readonly rawHeaders: RawHeaders
  readonly clientCertificate: boolean
  /** What it came on, the same object for as long as that stands. Absent: nothing is remembered of it. */
  readonly connection?: object
  readonly forwarded: Forwarded
  readonly requestId: string
  readonly steps: Steps
  /** Reads it whole. Every byte is reserved before it is held; what was reserved for a body that fails is given back. */
  readonly readBody: (bytesMax: number, reserve: (bytes: number) => boolean, release: (bytes: number) => void) => Promise<BodyResult>
  /** Resolves when nobody waits for this request's answer any more. Asked by waiters only; an execution does not care (E1). */
  readonly gone: () => Promise<void>
}

/**
 * Of the gateway's buffers, for request bodies. The rest is for answers: uploads that fill everything would otherwise turn
 * other callers' small answers into tombstones.
 */
const REQUESTS_SHARE = 3 / 4

/** `parts`: of a request that holds several events, which are one message each. */
export type Admission = { readonly kind: 'visit', readonly visit: Visit, readonly parts: readonly Part[] | null } | { readonly kind: 'refused' | 'passed', readonly outcome: Outcome }

/** What a key is looked for in. */
export function keyedBy (gateway: Gateway, { rawHeaders, target, route }: GuardedRequest): Keyed {
  return { rawHeaders, target, match: route.match, nowMs: gateway.world.clock.wallMs }
}

/** What the head says: the key, that the body must be asked, or that there is none and none is wanted. */
type Sought = Extract<FoundKey, { kind: 'key' | 'body' }> | typeof KEYLESS

export const KEYLESS = { kind: 'keyless' } as const

/** An inbox takes what has no identity too: every delivery of its sender, and every wish of a client, is a message of its own. */
export function takesKeyless ({ key, inbox, inboxFor }: IdempotencyPolicy, rawHeaders: RawHeaders): boolean {
  return inbox !== null && !key.required && (inboxFor === 'all' || prefersAsync(rawHeaders))
}

export async function admit (gateway: Gateway, request: GuardedRequest, key: Sought): Promise<Admission> {
  const { route } = request
  if (gateway.refusing) return refused({ kind: 'rejected', code: 'draining', close: true })
  const scope = await callerScope(gateway, request, route.idempotency, route.name)
  if (scope.kind === 'refused') return scope
  const foreign = key.kind === 'keyless' ? null : notIssued(gateway, request, key, scope.scope)
  if (foreign !== null) return refused(foreign)
  const leave = gateway.callerPlaces.take(scope.scope, gateway.world.limits.inFlightPerScope)
  if (leave === null) return refused(rejected('too-many-in-flight'))
  let admission: Admission | null = null
  try {
    admission = await admitCaller(gateway, request, key, scope.scope, leave)
    return admission
  } finally {
    // Whoever goes on gives its place back with its body (budget.ts).
    if (admission?.kind !== 'visit') leave()
  }
}

async function admitCaller (gateway: Gateway, request: GuardedRequest, key: Sought, scope: string, leave: () => void): Promise<Admission> {
  const { route, steps } = request
  const startedAt = gateway.world.clock.monotonicMs()
  const read = await request.readBody(route.idempotency.keep.requestBytesMax, bytes => gateway.buffered.reserve(bytes, REQUESTS_SHARE), bytes => gateway.buffered.release(bytes))
  if (read.kind !== 'body') return refused(bodyRefusal(read.kind))
  const arrivedAtMs = gateway.world.clock.monotonicMs()
  steps.bodyMs = arrivedAtMs - startedAt
  steps.requestBytes = read.body.length
  const split = key.kind === 'body' ? splitRequest(request, read.body, gateway.world.clock.wallMs) : ONE
  if (split.kind === 'refused') return refusedBody(gateway, split.outcome, read.heldBytes)
  if (split.kind === 'several') return severalOf(gateway, request, split.messages, { scope, read, arrivedAtMs, leave })
  const sought = key.kind === 'body' ? findKey(route.idempotency.key, keyedBy(gateway, request), read.body) : key
  const keyless = sought.kind === 'keyless' || (sought.kind === 'absent' && takesKeyless(route.idempotency, request.rawHeaders))
  const found = keyless ? keyOfOnce(gateway, route.name) : sought
  if (found.kind === 'passes') return passed(gateway, request, found, read)
  if (found.kind !== 'key') return refusedKey(gateway, found, read)
  if (found.source !== undefined && route.idempotency.key.sources.length > 1) steps.keyFrom = keySourceText(found.source)
  return { kind: 'visit', visit: visitOf(gateway, request, { found, scope, read, arrivedAtMs, leave }), parts: null }
}

/** Named after its first event; its body is held once as it came, and once more in parts. */
function severalOf (gateway: Gateway, request: GuardedRequest, messages: readonly [SplitMessage, ...SplitMessage[]], { read, ...rest }: Omit<Read, 'found'>): Admission {
  const [{ key, source }] = messages
  if (!gateway.buffered.reserve(read.body.length, REQUESTS_SHARE)) return refusedBody(gateway, rejected('overloaded'), read.heldBytes)
  const found = { kind: 'key', key, ...(source !== null && { source }) } as const
  const visit = visitOf(gateway, request, { ...rest, found, read: { ...read, heldBytes: read.heldBytes + read.body.length } })
  return { kind: 'visit', visit, parts: messages.map(message => partOf(visit, message)) }
}

function keyOfOnce (gateway: Gateway, route: string): Extract<FoundKey, { kind: 'key' }> {
  gateway.world.meter.keyless(route)
  return { kind: 'key', key: `keyless:${gateway.world.random.bytes(KEY_RANDOM_BYTES).toString('base64url')}` }
}

async function passed (gateway: Gateway, request: GuardedRequest, { preset, why }: Extract<FoundKey, { kind: 'passes' }>, { body, heldBytes }: Extract<BodyResult, { kind: 'body' }>): Promise<Admission> {
  gateway.world.meter.passed(request.route.name, preset, why)
  request.steps.keyFrom = preset
  try {
    return { kind: 'passed', outcome: await passOn(gateway, request, body) }
  } finally {
    gateway.buffered.release(heldBytes)
  }
}

/** What was asked of the body, and is not there: the one who asked has to say what he means. */
function refusedKey (gateway: Gateway, found: Exclude<FoundKey, { kind: 'key' | 'passes' }>, { body, heldBytes }: Extract<BodyResult, { kind: 'body' }>): Admission {
  return refusedBody(gateway, refusalOfKey(found, body), heldBytes)
}

function refusalOfKey (found: Exclude<FoundKey, { kind: 'key' | 'passes' }>, body: Buffer): Outcome {
  if (found.kind === 'missing') return rejected('key-missing', `${found.detail}${unreadOf(body)}`)
  return found.kind === 'body' ? rejected('key-missing') : keyRefusal(found)
}

/** A value that the sender sees in its body, and that is said not to be there. */
function unreadOf (body: Buffer): string {
  const found = lookInto(body, [])
  return 'kind' in found ? ` The body ${found.why}.` : ''
}

function refusedBody (gateway: Gateway, outcome: Outcome, heldBytes: number): Admission {
  gateway.buffered.release(heldBytes)
  return refused(outcome)
}

/** A key that cannot be had, or not be used. */
export function keyRefusal (found: Exclude<SourcedKey, { kind: 'key' }>): Outcome {
  switch (found.kind) {
    case 'absent': return rejected('key-missing')
    case 'missing': return rejected('key-missing', found.detail)
    case 'invalid': return rejected('key-invalid', found.detail)
    case 'too-old': return rejected('key-too-old', found.detail)
  }
}

interface Read {
  readonly found: Extract<FoundKey, { kind: 'key' }>
  readonly scope: string
  readonly read: Extract<BodyResult, { kind: 'body' }>
  readonly arrivedAtMs: number
  /** Gives the caller's place back. */
  readonly leave: () => void
}

function visitOf (gateway: Gateway, request: GuardedRequest, { found: { key, source }, scope, read: { body, heldBytes }, arrivedAtMs, leave }: Read): Visit {
  const { route, rawHeaders, steps } = request
  const policy = route.idempotency
  const asked: Asked = { method: request.method, target: request.target, contentType: headerValue(rawHeaders, 'content-type'), body }
  const fingerprint = fingerprintOf(asked, policy.fingerprint)
  const id = recordId(route.name, scope, key)
  const name = id.toString('base64url')
  steps.record = name
  const preferred = policy.inbox !== null && prefersAsync(rawHeaders)
  const deferred = preferred || policy.inboxFor === 'all'
  return {
    route,
    id,
    name,
    scope,
    asked,
    claim: {
      id,
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
      instance: gateway.world.instance,
      keyHash: keyHash(key),
      keyText: policy.key.store === 'text' ? key : null
    }),
    question: () => policy.probe === null || deferred ? null : renderQuestion(policy.probe, route.upstream.name, { key, recordId: name, body, host: route.upstream.host === 'preserve' ? headerValue(rawHeaders, 'host') : null }),
    rawHeaders,
    forwarded: request.forwarded,
    requestId: request.requestId,
    arrivedAtMs,
    gone: request.gone,
    steps,
    holding: new Holding(gateway.buffered, heldBytes, leave)
  }
}

// ---------------------------------------------------------------- small things

export function bodyRefusal (kind: Exclude<BodyResult['kind'], 'body'>): Rejected {
  switch (kind) {
    case 'too-large': return { kind: 'rejected', code: 'request-too-large', close: true }
    case 'too-slow': return { kind: 'rejected', code: 'request-timeout', close: true }
    case 'no-room': return { kind: 'rejected', code: 'overloaded', close: true }
    case 'gone': return { kind: 'rejected', code: 'bad-request', detail: 'The request ended before its body was complete.', close: true }
  }
}

function pathOf (target: string): string {
  const query = target.indexOf('?')
  return (query === -1 ? target : target.slice(0, query)).slice(0, ABOUT_TEXT_MAX)
}

function refused (outcome: Outcome): Admission {
  return { kind: 'refused', outcome }
}
