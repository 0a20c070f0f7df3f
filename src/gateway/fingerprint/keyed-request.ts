/** A request that is identified: by whom, under which key, and what exactly is asked. */
import { fingerprintOf } from '../../core/fingerprint/fingerprint.ts'
import type { ComparedRequest } from '../../core/fingerprint/fingerprint.ts'
import type { Forwarded } from '../../core/forward/forwarding.ts'
import { headerValue } from '../../core/headers/lines.ts'
import { prefersAsync } from '../../core/headers/prefer.ts'
import type { KeySource } from '../../core/policy/key-source.ts'
import type { GuardedRoute, ProbePolicy } from '../../core/policy/policy.ts'
import { renderQuestion } from '../../core/probe/probe.ts'
import { ABOUT_TEXT_MAX } from '../../core/record/record.ts'
import type { About, Claim, RawHeaders } from '../../core/record/record.ts'
import type { BodyReservation } from '../body/body-reservation.ts'
import type { GuardedRequest } from '../key/guarded-request.ts'
import type { Deps } from '../shared/deps.ts'
import { keyHashOf } from '../shared/ids.ts'
import type { Identified } from '../shared/ids.ts'
import type { Steps } from '../shared/steps.ts'

/** One request, read and identified. */
export interface KeyedRequest {
  readonly route: GuardedRoute
  readonly id: Buffer
  /** `id` as text: the key of every map, and what the upstream sees as Onceway-Key. */
  readonly name: string
  /** Whose key it is, and by which scheme the id says so. */
  readonly identified: Identified
  readonly asked: ComparedRequest
  readonly claim: Omit<Claim, 'owner' | 'about' | 'question'>
  /** How long what is settled is remembered, unless the upstream says otherwise. */
  readonly retentionMs: number
  /** Its client asks for the inbox (`Prefer: respond-async`), and the route has one. */
  readonly preferred: boolean
  /** It goes into the inbox, and is not sent. */
  readonly deferred: boolean
  /** What its record will say of the request. */
  readonly about: () => About
  /** What the upstream is to be asked should the outcome stay unknown; null: nobody can ask. */
  readonly question: () => Buffer | null
  readonly rawHeaders: RawHeaders
  readonly forwarded: Forwarded
  readonly requestId: string
  /** Told of informational answers while its client is the one who began the execution. */
  readonly informed: (status: number, headers: RawHeaders) => void
  /** Monotonic; the body was whole then. */
  readonly arrivedAtMs: number
  /** Its client has left; whoever only waits gives its place to others. */
  readonly gone: () => Promise<void>
  readonly steps: Steps
  /** The request body's share of the gateway's buffers. */
  readonly reservation: BodyReservation
}

/** One event of a request: all of it, or (`batch: split`) one of several. */
export interface Part extends Pick<KeyedRequest, 'id' | 'name' | 'identified' | 'asked' | 'rawHeaders' | 'retentionMs' | 'about'> {
  readonly claim: Pick<KeyedRequest['claim'], 'fingerprint' | 'scheme' | 'earlierId'>
  /** Its place in the batch; none: it is all of the request. */
  readonly item?: number
}

/** The key and the body that were read. */
interface Read {
  readonly source?: KeySource
  readonly body: Buffer
  readonly arrivedAtMs: number
}

/** `fingerprint`: what exactly is asked, and the id of its record. */
export function keyedRequest (
  { clock, instance }: Pick<Deps, 'clock' | 'instance'>,
  request: GuardedRequest,
  { source, body, arrivedAtMs }: Read,
  identified: Identified,
  reservation: BodyReservation
): KeyedRequest {
  const { route, rawHeaders, steps } = request
  const policy = route.idempotency
  const asked: ComparedRequest = { method: request.method, target: request.target, rawHeaders, body }
  const startedAt = clock.monotonicMs()
  const fingerprint = fingerprintOf(asked, policy.fingerprint, identified.keys.rules)
  steps.fingerprintMs = clock.monotonicMs() - startedAt
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
    about: () => aboutOf(request, identified, instance),
    question: () => policy.probe === null || deferred ? null : questionOf(policy.probe, request, identified, body),
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

function aboutOf ({ route, method, target, requestId }: GuardedRequest, identified: Identified, instance: string): About {
  return {
    route: route.name,
    method,
    path: pathOf(target),
    requestId,
    instance,
    keyHash: keyHashOf(identified),
    keyText: route.idempotency.key.store === 'text' ? identified.key : null
  }
}

function questionOf (probe: ProbePolicy, { route, rawHeaders }: GuardedRequest, { key, name }: Identified, body: Buffer): Buffer | null {
  return renderQuestion(probe, route.upstream.name, {
    key,
    recordId: name,
    body,
    host: route.upstream.host === 'preserve' ? headerValue(rawHeaders, 'host') : null
  })
}

function pathOf (target: string): string {
  const query = target.indexOf('?')
  return (query === -1 ? target : target.slice(0, query)).slice(0, ABOUT_TEXT_MAX)
}
