/**
 * The nouns of the protocol as plain shapes: what a record is, who may write it, what a row looks like to somebody who
 * reads it. Shapes only; the machine that moves a record from state to state is transitions.ts.
 */
import type { Identity } from './record-id.ts'

/** Bytes of a record id: SHA-256 over the length-prefixed (route, scope, key). */
export const ID_BYTES = 32
/** Bytes of an owner: 128 random bits, drawn anew for every claim. */
export const OWNER_BYTES = 16

export const RECORD_STATES = ['claimed', 'completed', 'consumed', 'released', 'indeterminate'] as const
export type RecordState = typeof RECORD_STATES[number]
export type SettledState = Exclude<RecordState, 'claimed'>
/** The states that an answer is kept in: with its body, or as a tombstone. */
export type KeptAnswerState = Extract<RecordState, 'completed' | 'consumed'>

/** What exactly was asked. `alg` says how `value` was made (see fingerprint.ts), so that a later build can make it again. */
export interface Fingerprint { readonly alg: number, readonly value: Buffer }

/** The fencing token. A write whose token does not match the row changes nothing. */
export interface Token { readonly id: Buffer, readonly owner: Buffer, readonly attempt: number }

/** What a take compares with the row: whose it was seen to be, and what was asked then, by the row's own algorithm. */
export interface Seen extends Token { readonly fingerprint: Fingerprint }

/** Header names and values in the order of the wire, flat: [name, value, name, value, …], values as latin1. */
export type RawHeaders = readonly string[]

/** An answer as it goes to a client: `body` in the coding it came in. */
export interface Answer { readonly status: number, readonly headers: RawHeaders, readonly body: Buffer }

/** Why an outcome is not known: the stage that failed and the error's code. Shown to operators, never to clients. */
export interface UnknownReason { readonly stage: 'during' | 'hop' | 'lease' | 'settle' | 'drain' | 'restore', readonly code: string }

/** What an operator needs to recognise a record. Never a credential, never a body; `path` without its query. */
export interface About {
  readonly route: string
  readonly method: string
  /** Path without query, at most {@link ABOUT_TEXT_MAX} characters. */
  readonly path: string
  readonly requestId: string
  /** Which gateway process. */
  readonly instance: string
  /** SHA-256 of the key: lets `records list --key` find a record without keeping the key. */
  readonly keyHash: Buffer
  /** The key itself, only where the route says `key.store: text`. */
  readonly keyText: string | null
}

export const ABOUT_TEXT_MAX = 512

/** What a claim writes. */
export interface Claim extends Identity {
  readonly owner: Buffer
  readonly fingerprint: Fingerprint
  readonly leaseMs: number
  /** How long the record stays indeterminate if its lease ends without a settle. Kept with the row: the sweeper knows no routes. */
  readonly unknownKeepMs: number
  /** How long after it became indeterminate a release by hand is refused: until then the first sending may be on its way. */
  readonly quarantineMs: number
  /** What to ask the upstream if the outcome stays unknown (probe.ts); null: nobody will. Kept until the record is settled. */
  readonly question: Buffer | null
  readonly about: About
}

export interface Settlement {
  readonly token: Token
  readonly outcome: SettledState
  /** Retention, counted from the settle. */
  readonly keepMs: number
  readonly status: number | null
  /** Encoded by codec.ts; null unless completed. */
  readonly headers: Buffer | null
  readonly body: Buffer | null
  readonly reason: UnknownReason | null
  /** What the upstream is to be asked, where an earlier settle of the same owner has taken it off the record. */
  readonly question?: Buffer | null
}

/** A row as a reader sees it. Times are relative, by the store's own clock (P4). */
export interface Row {
  readonly id: Buffer
  /** 'undecodable': a value that this build does not understand; treated as indeterminate, never executed. */
  readonly state: RecordState | 'undecodable'
  readonly owner: Buffer
  readonly attempt: number
  readonly fingerprint: Fingerprint
  readonly settledBy: 'owner' | 'lease' | 'probe' | 'operator' | null
  /** claimed, and the lease was over when the statement began. */
  readonly lapsed: boolean
  /** settled, and its retention was over when the statement began: counts as no row, by compare-and-set. */
  readonly past: boolean
  /** Milliseconds since the claim. */
  readonly ageMs: number
  /** The lease that it was claimed with: every copy elsewhere ends one of these before the row (P10). */
  readonly leaseMs: number
  /** Milliseconds until the lease ends; null unless claimed. May be negative. */
  readonly leaseLeftMs: number | null
  /** Milliseconds until the row may be swept; null while claimed. */
  readonly keepLeftMs: number | null
  readonly status: number | null
  readonly headers: Buffer | null
  readonly body: Buffer | null
  readonly reason: UnknownReason | null
}

/** How it stands with asking the upstream about a record (`unknown: probe`). Milliseconds since the Unix epoch, by the store's clock. */
export interface ProbeDetail {
  readonly tries: number
  /** null: nobody asks any more. */
  readonly againAtMs: number | null
  /** Of the first "not found" that counts; null: none. */
  readonly absentSinceMs: number | null
}

/** A row with everything an operator is shown. */
export interface RecordDetail extends Row {
  readonly about: About
  /** Milliseconds since the Unix epoch, by the store's clock. */
  readonly claimedAtMs: number
  readonly settledAtMs: number | null
  readonly expiresAtMs: number | null
  readonly quarantineMs: number
  /** null: nobody will ask the upstream about it. */
  readonly probe: ProbeDetail | null
}
