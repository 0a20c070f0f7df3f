/** A request that is identified: by whom, under which key, and what exactly is asked. */
import type { Asked } from '../../core/fingerprint/fingerprint.ts'
import type { Forwarded } from '../../core/forward/forwarding.ts'
import type { GuardedRoute } from '../../core/policy/policy.ts'
import type { About, Claim, RawHeaders } from '../../core/record/record.ts'
import type { BodyReservation } from '../body/body-reservation.ts'
import type { Identified } from '../shared/ids.ts'
import type { Steps } from '../shared/steps.ts'

/** One request on its way through handle(), read and identified. */
export interface KeyedRequest {
  readonly route: GuardedRoute
  readonly id: Buffer
  /** `id` as text: the key of every map, and what the upstream sees as Onceway-Key. */
  readonly name: string
  /** Whose key it is, and by which scheme the id says so. */
  readonly identified: Identified
  readonly asked: Asked
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
