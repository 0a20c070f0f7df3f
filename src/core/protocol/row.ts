/**
 * A row as a store holds it, with absolute times, and what a reader sees of it. Drivers that execute the machine
 * (transitions.ts) themselves hold rows in this shape. Never reads a clock: `nowMs` is the store's, given by the driver.
 */
import type { ProbeNote } from '../probe/probe.ts'
import type { About, AskingDetail, Claim, Fingerprint, RecordDetail, RecordState, Row, UnknownReason } from '../record/record.ts'

export type SettledBy = NonNullable<Row['settledBy']>

export interface Stored {
  readonly id: Buffer
  /** Of the id. */
  readonly scheme: number
  readonly state: RecordState | 'undecodable'
  readonly owner: Buffer
  readonly attempt: number
  readonly fingerprint: Fingerprint
  readonly leaseMs: number
  readonly unknownKeepMs: number
  readonly quarantineMs: number
  readonly claimedAtMs: number
  readonly leaseUntilMs: number | null
  readonly settledAtMs: number | null
  readonly settledBy: SettledBy | null
  readonly expiresAtMs: number | null
  readonly status: number | null
  readonly headers: Buffer | null
  readonly body: Buffer | null
  readonly reason: UnknownReason | null
  /** Kept until it is settled as known. */
  readonly question: Buffer | null
  /** null: nobody has asked yet. While somebody asks, the end of his time for it; {@link NEVER_MS}: nobody asks any more. */
  readonly askAtMs: number | null
  readonly asked: number
  /** Of the first "not found" that counts. */
  readonly absentAtMs: number | null
  readonly about: About
}

/** `overMs`: the time by which anything is over, where less is believed than the store's. */
export function rowOf (stored: Stored, nowMs: number, overMs = nowMs): Row {
  return {
    id: stored.id,
    state: stored.state,
    owner: stored.owner,
    attempt: stored.attempt,
    fingerprint: stored.fingerprint,
    settledBy: stored.settledBy,
    lapsed: leaseIsOver(stored, overMs),
    past: isPast(stored, overMs),
    ageMs: nowMs - stored.claimedAtMs,
    leaseMs: stored.leaseMs,
    leaseLeftMs: left(stored.leaseUntilMs, nowMs),
    keepLeftMs: left(stored.expiresAtMs, nowMs),
    status: stored.status,
    headers: stored.headers,
    body: stored.body,
    reason: stored.reason
  }
}

export function detailOf (stored: Stored, nowMs: number, overMs = nowMs): RecordDetail {
  return {
    ...rowOf(stored, nowMs, overMs),
    about: stored.about,
    claimedAtMs: stored.claimedAtMs,
    settledAtMs: stored.settledAtMs,
    expiresAtMs: stored.expiresAtMs,
    quarantineMs: stored.quarantineMs,
    asking: askingOf(stored)
  }
}

function askingOf ({ state, question, asked, askAtMs, absentAtMs, settledAtMs }: Stored): AskingDetail | null {
  if (state !== 'indeterminate' || question === null) return null
  const againAtMs = askAtMs ?? settledAtMs ?? 0
  return { tries: asked, againAtMs: againAtMs === NEVER_MS ? null : againAtMs, absentSinceMs: absentAtMs }
}

/** A freshly claimed row: everything a claim writes, and nothing left of what stood there. */
export function claimedRow (claim: Claim, attempt: number, nowMs: number): Stored {
  return {
    id: claim.id,
    scheme: claim.scheme,
    state: 'claimed',
    owner: claim.owner,
    attempt,
    fingerprint: claim.fingerprint,
    leaseMs: claim.leaseMs,
    unknownKeepMs: claim.unknownKeepMs,
    quarantineMs: claim.quarantineMs,
    claimedAtMs: nowMs,
    leaseUntilMs: nowMs + claim.leaseMs,
    settledAtMs: null,
    settledBy: null,
    expiresAtMs: null,
    status: null,
    headers: null,
    body: null,
    reason: null,
    question: claim.question,
    askAtMs: null,
    asked: 0,
    absentAtMs: null,
    about: claim.about
  }
}

/** The largest date: an integer that every store can hold. */
export const NEVER_MS = 8_640_000_000_000_000

/** May somebody ask the upstream about it now? */
export function isDue (stored: Stored, nowMs: number, overMs = nowMs): boolean {
  return stored.state === 'indeterminate' &&
    stored.question !== null &&
    !isPast(stored, overMs) &&
    (stored.askAtMs ?? stored.settledAtMs ?? 0) <= nowMs
}

/** Somebody asks, and nobody else until `withinMs` are over. */
export function askedRow (stored: Stored, withinMs: number, nowMs: number): Stored {
  return { ...stored, askAtMs: nowMs + withinMs, asked: stored.asked + 1 }
}

/** What an asking came to that settles nothing. null: the row has moved on since. */
export function answeredRow (stored: Stored, { token, tries, afterMs, absent }: ProbeNote, nowMs: number): Stored | null {
  const mine = stored.state === 'indeterminate' &&
    stored.attempt === token.attempt &&
    stored.owner.equals(token.owner) &&
    stored.asked === tries
  if (!mine) return null
  const absentAtMs = absent === 'first' ? nowMs : absent === 'forget' ? null : stored.absentAtMs
  return { ...stored, askAtMs: afterMs === null ? NEVER_MS : nowMs + afterMs, absentAtMs }
}

export function leaseIsOver (stored: Stored, nowMs: number): boolean {
  return stored.leaseUntilMs !== null && stored.leaseUntilMs <= nowMs
}

export function isPast (stored: Stored, nowMs: number): boolean {
  return stored.expiresAtMs !== null && stored.expiresAtMs <= nowMs
}

/** The CHECK constraints of the databases, for rows that no database checks. The sentence names what is violated. */
export function violation (stored: Stored): string | null {
  const claimed = stored.state === 'claimed'
  if (claimed !== (stored.leaseUntilMs !== null)) return 'claimed must have a lease, and nothing else may'
  if (claimed !== (stored.expiresAtMs === null)) return 'everything but claimed must expire'
  if (claimed !== (stored.settledBy === null)) return 'everything but claimed must say who settled it'
  if (claimed !== (stored.settledAtMs === null)) return 'everything but claimed must say when it was settled'
  if ((stored.state === 'completed') !== (stored.body !== null)) return 'completed must have a body, and nothing else may'
  if ((stored.state === 'completed' || stored.state === 'consumed') && stored.status === null) {
    return 'completed and consumed must have a status'
  }
  return null
}

function left (untilMs: number | null, nowMs: number): number | null {
  return untilMs === null ? null : untilMs - nowMs
}
