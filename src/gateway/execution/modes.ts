/** The modes beside execution: drop duplicates, or accept into the inbox. app.ts passes both in. pipeline.ts knows only these types. */
import type { KeySource } from '../../core/policy/key-source.ts'
import type { DropPolicy } from '../../core/policy/policy.ts'
import type { Fingerprint, RawHeaders } from '../../core/record/record.ts'
import type { Rules } from '../../core/record/rules.ts'
import type { Sending, UpstreamResult } from '../../ports/upstream.ts'
import type { Drain } from '../shared/drain.ts'
import type { ClaimedAcceptance, Execution } from './execution.ts'
import type { KeyedRequest, Part } from '../fingerprint/keyed-request.ts'
import type { Identified, Ids } from '../shared/ids.ts'
import type { InboxDepths } from '../limits/inbox-depths.ts'
import type { Limits } from '../limits/limits.ts'
import type { Outcome, Rejected } from '../shared/outcome.ts'
import type { RecordCounts } from '../authorise/record-counts.ts'
import type { IncomingRequest } from '../key/incoming-request.ts'
import type { Deps } from '../shared/deps.ts'

/** The parts of the gateway that a mode gets. */
export interface ModeContext {
  readonly deps: Deps
  readonly drain: Drain
  readonly limits: Limits
  readonly recordCounts: RecordCounts
  readonly ids: Ids
  readonly depths: InboxDepths
  readonly background: (work: Promise<void>) => void
  /** Called when the commit of a message is acknowledged that is due in `inMs`. The deliverer listens. */
  readonly onMessage: (inMs: number) => void
}

export interface Modes {
  readonly drop: (parts: ModeContext) => DropMode
  readonly inbox: (parts: ModeContext) => InboxMode
}

// ---------------------------------------------------------------- mode drop

export interface DropMode {
  readonly pass: (keyed: KeyedRequest, policy: DropPolicy) => Promise<Outcome>
  /** An event of this name is being forwarded by this process. */
  readonly has: (name: string) => boolean
  readonly size: number
  readonly all: () => ReadonlyArray<{ cancelled: boolean, readonly sending: Sending | null }>
}

// ---------------------------------------------------------------- mode inbox, and `async: allowed`

/** The part of a request that its events are made from. */
export type Splittable = Pick<IncomingRequest, 'route' | 'method' | 'target' | 'rawHeaders'>

export interface InboxMode {
  /** Splits a request whose key is in its body into messages: all of them, or none. */
  readonly split: (request: Splittable, body: Buffer, nowMs: () => number, rules: Rules) => Split
  /** One message of a split request. */
  readonly partOf: (keyed: KeyedRequest, message: SplitMessage, identified: Identified) => Part
  /**
   * Accepts all of `parts` (absent: the whole request), or none of them.
   * null: the request was or is being executed under another mode of the route, and its record answers.
   */
  readonly accept: (keyed: KeyedRequest, parts?: readonly Part[]) => Promise<Outcome | null>
  /** Called with the claim won, for every request of the route. null: the request is sent. `maySend`: the lease still holds. */
  readonly acceptClaimed: (execution: Execution, maySend: () => boolean) => Promise<UpstreamResult | ClaimedAcceptance | null>
  /** The refusal of a message whose order value or time cannot be read, or is beyond a bound. null: no refusal. */
  readonly valueRefusal: (keyed: KeyedRequest) => Rejected | null
  /** The refusal of a message for which the inbox has no room. null: it has room. */
  readonly fullRefusal: (keyed: KeyedRequest) => Rejected | null
  /** Converts the record's outcome to one of the inbox. Asks the inbox if the record does not show the message. */
  readonly answerOf: (keyed: KeyedRequest, outcome: Outcome) => Promise<Outcome>
}

/** One event of a batch, as if the sender had sent it alone. */
export interface SplitMessage {
  readonly key: string
  readonly source: KeySource | null
  readonly fingerprint: Fingerprint
  /** The rules of the fingerprint. */
  readonly rules: Rules
  /** The headers of the batch, with the media type of one event. */
  readonly rawHeaders: RawHeaders
  /** Its places in the batch, from 0: several if it is there several times. */
  readonly items: readonly [number, ...number[]]
  readonly body: Buffer
}

export type Split =
  /** Not a batch: it goes on like any request. */
  | { readonly kind: 'one' }
  /** In the order of the batch, without repetitions. */
  | { readonly kind: 'several', readonly messages: readonly [SplitMessage, ...SplitMessage[]] }
  /** No event is accepted. */
  | { readonly kind: 'refused', readonly outcome: Rejected }

export const ONE: Split = { kind: 'one' }

/** The code of an acceptance that wrote nothing. Nothing was sent either. */
export const INBOX_UNREACHED = 'INBOX'
