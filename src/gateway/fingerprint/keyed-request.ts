import { fingerprintOf } from '../../core/fingerprint/fingerprint.ts'
import type { ComparedRequest } from '../../core/fingerprint/fingerprint.ts'
import type { Forwarded } from '../../core/forward/forwarding.ts'
import { headerValue } from '../../core/headers/lines.ts'
import { prefersAsync } from '../../core/headers/prefer.ts'
import type { KeySource } from '../../core/policy/key-source.ts'
import type { GuardedRoute, ProbePolicy } from '../../core/policy/policy.ts'
import { renderQuestion } from '../../core/probe/probe.ts'
import { ABOUT_TEXT_MAX } from '../../core/record/record.ts'
import type { About, Claim, Fingerprint, RawHeaders } from '../../core/record/record.ts'
import type { BodyReservation } from '../body/body-reservation.ts'
import type { IncomingRequest } from '../key/incoming-request.ts'
import type { Deps } from '../shared/deps.ts'
import { keyHashOf } from '../shared/ids.ts'
import type { Identified } from '../shared/ids.ts'
import type { Steps } from '../shared/steps.ts'

/** One request, read and identified: its caller, key and fingerprint are known. */
export interface KeyedRequest {
  readonly route: GuardedRoute
  readonly id: Buffer
  /** `id` as text: the key of every map, and `Onceway-Key` to the upstream. */
  readonly name: string
  /** What the id was made of, and by which scheme. */
  readonly identified: Identified
  readonly asked: ComparedRequest
  readonly claim: Omit<Claim, 'owner' | 'about' | 'question'>
  /** How long the settled record is kept, unless the upstream says otherwise. */
  readonly retentionMs: number
  /** The client sent `Prefer: respond-async`, and the route has an inbox. */
  readonly preferred: boolean
  /** It goes into the inbox instead of being sent. */
  readonly deferred: boolean
  /** The description of the request for its record. */
  readonly about: () => About
  /** The probe's question to the upstream, if the outcome stays unknown. null: there is none. */
  readonly question: () => Buffer | null
  readonly rawHeaders: RawHeaders
  readonly forwarded: Forwarded
  readonly requestId: string
  /** Called with informational (1xx) answers, while its client is the first requester. */
  readonly informed: (status: number, headers: RawHeaders) => void
  /** Monotonic, when the body was complete. */
  readonly arrivedAtMs: number
  /** Resolves when the client has left. A waiter then frees its slot. */
  readonly gone: () => Promise<void>
  readonly steps: Steps
  /** The body's bytes and the caller slot. */
  readonly reservation: BodyReservation
}

/** One event of a request: the whole request, or (`batch: split`) one of several. */
export interface Part extends Pick<KeyedRequest, 'id' | 'name' | 'identified' | 'asked' | 'rawHeaders' | 'retentionMs' | 'about'> {
  readonly claim: Pick<KeyedRequest['claim'], 'fingerprint' | 'scheme' | 'earlierId'>
  /** Its places in the batch, from 0: several if it is there several times. Absent: it is the whole request. */
  readonly items?: readonly [number, ...number[]]
}

/** The source of the key, and the body. */
interface KeyAndBody {
  readonly source?: KeySource
  readonly body: Buffer
  readonly arrivedAtMs: number
}

/** Phase `fingerprint`: hashes the request, and puts the keyed request together. */
export function keyedRequest (
  { clock, instance }: Pick<Deps, 'clock' | 'instance'>,
  request: IncomingRequest,
  found: KeyAndBody,
  identified: Identified,
  reservation: BodyReservation
): KeyedRequest {
  const { route: { idempotency }, rawHeaders, steps, method, target } = request
  const asked: ComparedRequest = { method, target, rawHeaders, body: found.body }
  const startedAt = clock.monotonicMs()
  const fingerprint = fingerprintOf(asked, idempotency.fingerprint, identified.keys.rules)
  steps.fingerprintMs = clock.monotonicMs() - startedAt
  steps.record = identified.name
  return new Keyed(request, instance, found, identified, reservation, asked, fingerprint)
}

class Keyed implements KeyedRequest {
  readonly route: GuardedRoute
  readonly id: Buffer
  readonly name: string
  readonly identified: Identified
  readonly asked: ComparedRequest
  readonly claim: KeyedRequest['claim']
  readonly retentionMs: number
  readonly preferred: boolean
  readonly deferred: boolean
  readonly rawHeaders: RawHeaders
  readonly forwarded: Forwarded
  readonly requestId: string
  readonly arrivedAtMs: number
  readonly steps: Steps
  readonly reservation: BodyReservation
  readonly #request: IncomingRequest
  readonly #instance: string

  constructor (
    request: IncomingRequest,
    instance: string,
    { source, arrivedAtMs }: KeyAndBody,
    identified: Identified,
    reservation: BodyReservation,
    asked: ComparedRequest,
    fingerprint: Fingerprint
  ) {
    const { route, rawHeaders, forwarded, requestId, steps } = request
    const { inbox, inboxFor, leaseMs, unknownRetentionMs, key, retentionMs } = route.idempotency
    const { id, name, scheme, earlierId } = identified
    this.route = route
    this.id = id
    this.name = name
    this.identified = identified
    this.asked = asked
    this.claim = {
      id,
      scheme,
      earlierId,
      fingerprint,
      leaseMs,
      unknownKeepMs: unknownRetentionMs,
      quarantineMs: route.upstream.timeoutMs + leaseMs
    }
    this.preferred = inbox !== null && prefersAsync(rawHeaders)
    this.deferred = this.preferred || inboxFor === 'all'
    this.retentionMs = source?.kind === 'hash' ? key.windowMs : retentionMs
    this.rawHeaders = rawHeaders
    this.forwarded = forwarded
    this.requestId = requestId
    this.arrivedAtMs = arrivedAtMs
    this.steps = steps
    this.reservation = reservation
    this.#request = request
    this.#instance = instance
  }

  // A replay needs neither of the two.
  about (): About { return aboutOf(this.#request, this.identified, this.#instance) }

  question (): Buffer | null {
    const { probe } = this.route.idempotency
    return probe === null || this.deferred ? null : questionOf(probe, this.#request, this.identified, this.asked.body)
  }

  informed (status: number, headers: RawHeaders): void { this.#request.informed(status, headers) }

  gone (): Promise<void> { return this.#request.gone() }
}

function aboutOf ({ route, method, target, requestId }: IncomingRequest, identified: Identified, instance: string): About {
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

function questionOf (probe: ProbePolicy, { route, rawHeaders }: IncomingRequest, { key, name }: Identified, body: Buffer): Buffer | null {
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
