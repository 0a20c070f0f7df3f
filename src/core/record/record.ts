/**
 * The types of the protocol: what a record is, who may write it, and how a row looks to a reader. Types only. transitions.ts moves a record
 * from state to state.
 */
import type { Identity } from './record-id.ts'

/** Bytes of a record id: SHA-256 over the length-prefixed (route, scope, key). */
export const ID_BYTES = 32
/** Bytes of an owner: 128 random bits, drawn for every claim. */
export const OWNER_BYTES = 16

export const RECORD_STATES = ['claimed', 'completed', 'consumed', 'released', 'indeterminate'] as const
export type RecordState = typeof RECORD_STATES[number]
export type SettledState = Exclude<RecordState, 'claimed'>
/** States in which an answer is kept: with its body, or as a tombstone. */
export type KeptAnswerState = Extract<RecordState, 'completed' | 'consumed'>

/** What exactly was requested. `alg` says how `value` was made (see fingerprint.ts), so that a later build can make it again. */
export interface Fingerprint { readonly alg: number, readonly value: Buffer }

/** The fencing token. A write whose token does not match the row changes nothing. */
export interface Token { readonly id: Buffer, readonly owner: Buffer, readonly attempt: number }

/** What a take compares with the row: the owner that was seen, and the fingerprint of that time, by the row's own algorithm. */
export interface Seen extends Token { readonly fingerprint: Fingerprint }

/** Header names and values in the order of the wire, flat: [name, value, name, value, …]. Values as latin1. */
export type RawHeaders = readonly string[]

/** An answer as it goes to a client. `body` in the coding in which it came. `text`: the same as latin1, where that is at hand. */
export interface Answer { readonly status: number, readonly headers: RawHeaders, readonly body: Buffer, readonly text?: string }

/** Why an outcome is not known: the stage that failed, and the error's code. For operators, never for clients. */
export interface UnknownReason { readonly stage: 'during' | 'hop' | 'lease' | 'settle' | 'drain' | 'restore', readonly code: string }

/** What an operator needs to recognize a record. It never has a credential or a body, and `path` has no query. */
export interface About {
  readonly route: string
  readonly method: string
  /** Path without its query, at most {@link ABOUT_TEXT_MAX} characters. */
  readonly path: string
  readonly requestId: string
  /** The gateway process. */
  readonly instance: string
  /** SHA-256 of the key. With it `records list --key` finds a record although the key is not stored. */
  readonly keyHash: Buffer
  /** The key itself, only if the route says `key.store: text`. */
  readonly keyText: string | null
}

export const ABOUT_TEXT_MAX = 512

/** What a claim writes. */
export interface Claim extends Identity {
  readonly owner: Buffer
  readonly fingerprint: Fingerprint
  readonly leaseMs: number
  /** How long the record stays indeterminate if its lease ends without a settle. It is in the row because the sweeper knows no routes. */
  readonly unknownKeepMs: number
  /** How long a release by hand is refused after the record became indeterminate. Until then the first sending may be in flight. */
  readonly quarantineMs: number
  /** The probe's question, if the outcome stays unknown (probe.ts). null: there is no probe. Kept until the record is settled. */
  readonly question: Buffer | null
  readonly about: About
  /** Trace context of the request that executes (W3C traceparent, version 00). Absent or null: it is not recorded. */
  readonly trace?: string | null
}

/** Characters of a traceparent of version 00 (W3C Trace Context 3.2). */
export const TRACEPARENT_LENGTH = 55

export interface Settlement {
  readonly token: Token
  readonly outcome: SettledState
  /** Retention, from the settle on. */
  readonly keepMs: number
  readonly status: number | null
  /** Encoded by codec.ts. null unless completed. */
  readonly headers: Buffer | null
  readonly body: Buffer | null
  readonly reason: UnknownReason | null
  /** The probe's question, if an earlier settle of the same owner has removed it from the record. */
  readonly question?: Buffer | null
  /** When it was sent: milliseconds after its claim, by the gateway's clock. Absent or null: it was not, or nobody knows. */
  readonly sentMs?: number | null
  /** The same for its answer: the end of a whole one, the head of a stream. */
  readonly answeredMs?: number | null
}

/** A row as a reader sees it. Times are relative, by the store's own clock (P4). */
export interface Row {
  readonly id: Buffer
  /** 'undecodable': a value that this build does not understand. It is treated as indeterminate, and never executed. */
  readonly state: RecordState | 'undecodable'
  readonly owner: Buffer
  readonly attempt: number
  readonly fingerprint: Fingerprint
  readonly settledBy: 'owner' | 'lease' | 'probe' | 'operator' | null
  /** Claimed, and the lease was over when the statement began. */
  readonly lapsed: boolean
  /** Settled, and the retention was over when the statement began. It counts as no row, by compare-and-set. */
  readonly past: boolean
  /** Milliseconds since the claim. */
  readonly ageMs: number
  /** The lease with which it was claimed. Every copy elsewhere ends one lease before the row (P10). */
  readonly leaseMs: number
  /** Milliseconds until the lease ends. null unless claimed. May be negative. */
  readonly leaseLeftMs: number | null
  /** Milliseconds until the row may be swept. null while claimed. */
  readonly keepLeftMs: number | null
  readonly status: number | null
  readonly headers: Buffer | null
  readonly body: Buffer | null
  readonly reason: UnknownReason | null
  /** {@link Claim.trace} */
  readonly trace?: string | null
}

/** The state of the probes of a record (`unknown: probe`). Milliseconds since the Unix epoch, by the store's clock. */
export interface ProbeDetail {
  readonly tries: number
  /** null: there are no more probes. */
  readonly againAtMs: number | null
  /** When the first "not found" that counts came. null: there is none. */
  readonly absentSinceMs: number | null
}

/** A row with everything that an operator sees. */
export interface RecordDetail extends Row {
  readonly about: About
  /** Milliseconds since the Unix epoch, by the store's clock. */
  readonly claimedAtMs: number
  /** null: it was not sent, or nobody knows when. */
  readonly sentAtMs: number | null
  readonly answeredAtMs: number | null
  readonly settledAtMs: number | null
  readonly expiresAtMs: number | null
  readonly quarantineMs: number
  /** null: there are no probes of this record. */
  readonly probe: ProbeDetail | null
}
