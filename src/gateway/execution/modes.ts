/**
 * What a route may do instead of executing: drop duplicates, or accept into the inbox. app.ts hands both in; the way of a
 * request (pipeline.ts) knows them by these types alone.
 */
import type { KeySource } from '../../core/policy/key-source.ts'
import type { DropPolicy } from '../../core/policy/policy.ts'
import type { Fingerprint, RawHeaders } from '../../core/record/record.ts'
import type { Rules } from '../../core/record/rules.ts'
import type { Sending, UpstreamResult } from '../../ports/upstream.ts'
import type { Drain } from '../shared/drain.ts'
import type { Execution } from './execution.ts'
import type { KeyedRequest, Part } from '../fingerprint/keyed-request.ts'
import type { Identified, Ids } from '../shared/ids.ts'
import type { InboxDepths } from '../limits/inbox-depths.ts'
import type { Limits } from '../limits/limits.ts'
import type { Outcome, Rejected } from '../shared/outcome.ts'
import type { RecordCounts } from '../authorise/record-counts.ts'
import type { GuardedRequest } from '../key/guarded-request.ts'
import type { Deps } from '../shared/deps.ts'

/** What a mode gets of the gateway. */
export interface ModeContext {
  readonly deps: Deps
  readonly drain: Drain
  readonly limits: Limits
  readonly recordCounts: RecordCounts
  readonly ids: Ids
  readonly depths: InboxDepths
  readonly background: (work: Promise<void>) => void
  /** A message was accepted, and its commit is acknowledged; the deliverer listens. */
  readonly onMessage: () => void
}

export interface Modes {
  readonly drop: (parts: ModeContext) => DropMode
  readonly inbox: (parts: ModeContext) => InboxMode
}

// ---------------------------------------------------------------- mode drop

export interface DropMode {
  readonly pass: (keyed: KeyedRequest, policy: DropPolicy) => Promise<Outcome>
  /** An event of this name is under way here. */
  readonly has: (name: string) => boolean
  readonly size: number
  readonly all: () => ReadonlyArray<{ cancelled: boolean, readonly sending: Sending | null }>
}

// ---------------------------------------------------------------- mode inbox, and `async: allowed`

export interface InboxMode {
  /** A request whose key is in its body, as the messages that it becomes: all of them, or none. */
  readonly split: (request: GuardedRequest, body: Buffer, nowMs: () => number, rules: Rules) => Split
  /** One message of a split request. */
  readonly partOf: (keyed: KeyedRequest, message: SplitMessage, identified: Identified) => Part
  /**
   * Accepts all of `parts` (absent: the whole request), or none of them. null: it was executed, or is being executed, under another
   * mode of the route, and its record answers.
   */
  readonly accept: (keyed: KeyedRequest, parts?: readonly Part[]) => Promise<Outcome | null>
  /**
   * With the claim won, whichever way this request goes. null: it is sent. `maySend`: the lease is believed.
   */
  readonly acceptClaimed: (execution: Execution, maySend: () => boolean) => Promise<UpstreamResult | Taken | null>
  /** Its place in an order cannot be read. null: it may come in. */
  readonly orderRefusal: (keyed: KeyedRequest) => Rejected | null
  /** The inbox has no room for it. null: it has. */
  readonly fullRefusal: (keyed: KeyedRequest) => Rejected | null
  /** What the record says, in the inbox's words; the inbox is asked where the record does not know of its message. */
  readonly answerOf: (keyed: KeyedRequest, outcome: Outcome) => Promise<Outcome>
}

/** One event, as if the sender had sent it alone. */
export interface SplitMessage {
  readonly key: string
  readonly source: KeySource | null
  readonly fingerprint: Fingerprint
  /** By which the fingerprint is made. */
  readonly rules: Rules
  /** The batch's, with the media type of one event. */
  readonly rawHeaders: RawHeaders
  /** Its place in the batch, the first one's where it is there twice. */
  readonly index: number
  readonly body: Buffer
}

export type Split =
  /** Not several: it goes on as any request. */
  | { readonly kind: 'one' }
  /** In their order; what is there twice is there once. */
  | { readonly kind: 'several', readonly messages: readonly [SplitMessage, ...SplitMessage[]] }
  /** None is accepted. */
  | { readonly kind: 'refused', readonly outcome: Rejected }

export const ONE: Split = { kind: 'one' }

/** What an acceptance under a claim came to. */
export type Taken =
  | { readonly kind: 'accepted', readonly isNew: boolean }
  /** Another request's message has this key. */
  | { readonly kind: 'taken-by-another' }

/** The code of an acceptance that wrote nothing; nothing was sent either. */
export const INBOX_UNREACHED = 'INBOX'
