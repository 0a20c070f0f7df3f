/**
 * A row as a store holds it, with absolute times, and what a reader sees of it. Drivers that run the state machine (transitions.ts) hold
 * rows in this shape. It never reads a clock: `nowMs` is the store's time, from the driver.
 */
import type { AuditedState } from '../record/audit.ts'
import type { ProbeNote } from '../probe/probe.ts'
import type { About, ProbeDetail, Claim, Fingerprint, RecordDetail, RecordState, Row, UnknownReason } from '../record/record.ts'

export type SettledBy = NonNullable<Row['settledBy']>

export interface RecordRow {
  readonly id: Buffer
  /** The scheme of the id. */
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
  readonly sentAtMs: number | null
  readonly answeredAtMs: number | null
  readonly settledAtMs: number | null
  readonly settledBy: SettledBy | null
  readonly expiresAtMs: number | null
  readonly status: number | null
  readonly headers: Buffer | null
  readonly body: Buffer | null
  readonly reason: UnknownReason | null
  /** The probe's question. Kept until the record is settled with a known outcome. */
  readonly question: Buffer | null
  /** null: no probe yet. During a probe: when its time is over. {@link NEVER_MS}: no more probes. */
  readonly probeAtMs: number | null
  readonly probeTries: number
  /** When the first "not found" that counts came. */
  readonly absentAtMs: number | null
  readonly about: About
  readonly trace?: string | null
}

/** `overMs`: the time that decides whether anything is over, if the store's time is not fully believed. */
export function rowOf (row: RecordRow, nowMs: number, overMs = nowMs): Row {
  return {
    id: row.id,
    state: row.state,
    owner: row.owner,
    attempt: row.attempt,
    fingerprint: row.fingerprint,
    settledBy: row.settledBy,
    lapsed: leaseIsOver(row, overMs),
    past: isPast(row, overMs),
    ageMs: nowMs - row.claimedAtMs,
    leaseMs: row.leaseMs,
    leaseLeftMs: left(row.leaseUntilMs, nowMs),
    keepLeftMs: left(row.expiresAtMs, nowMs),
    status: row.status,
    headers: row.headers,
    body: row.body,
    reason: row.reason,
    trace: row.trace ?? null
  }
}

/** What the audit shows of a record. Never an answer. */
export function auditedState ({ state, attempt, status, body, reason, expiresAtMs, probeAtMs }: RecordRow): AuditedState {
  return {
    state,
    attempt,
    ...(status !== null && { status }),
    ...(body !== null && { bodyBytes: body.length }),
    ...(reason !== null && { reason: `${reason.stage}/${reason.code}` }),
    ...(expiresAtMs !== null && { expiresAtMs }),
    ...(probeAtMs !== null && probeAtMs !== NEVER_MS && { askAtMs: probeAtMs })
  }
}

/** The next probe is due now. null: the record asks nobody. */
export function askedNowRow (row: RecordRow, nowMs: number): RecordRow | null {
  return row.state === 'indeterminate' && row.question !== null ? { ...row, probeAtMs: nowMs } : null
}

export function detailOf (row: RecordRow, nowMs: number, overMs = nowMs): RecordDetail {
  return {
    ...rowOf(row, nowMs, overMs),
    about: row.about,
    claimedAtMs: row.claimedAtMs,
    sentAtMs: sinceClaim(row.sentAtMs, row.claimedAtMs),
    answeredAtMs: sinceClaim(row.answeredAtMs, row.claimedAtMs),
    settledAtMs: row.settledAtMs,
    expiresAtMs: row.expiresAtMs,
    quarantineMs: row.quarantineMs,
    probe: probeDetailOf(row)
  }
}

/** A build that does not know these columns claims anew without clearing them. What is older than the claim is of an attempt before. */
export function sinceClaim (atMs: number | null, claimedAtMs: number): number | null {
  return atMs === null || atMs < claimedAtMs ? null : atMs
}

function probeDetailOf ({ state, question, probeTries, probeAtMs, absentAtMs, settledAtMs }: RecordRow): ProbeDetail | null {
  if (state !== 'indeterminate' || question === null) return null
  const againAtMs = probeAtMs ?? settledAtMs ?? 0
  return { tries: probeTries, againAtMs: againAtMs === NEVER_MS ? null : againAtMs, absentSinceMs: absentAtMs }
}

/** A newly claimed row: everything that a claim writes, and nothing of the row before. */
export function claimedRow (claim: Claim, attempt: number, nowMs: number): RecordRow {
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
    sentAtMs: null,
    answeredAtMs: null,
    settledAtMs: null,
    settledBy: null,
    expiresAtMs: null,
    status: null,
    headers: null,
    body: null,
    reason: null,
    question: claim.question,
    probeAtMs: null,
    probeTries: 0,
    absentAtMs: null,
    about: claim.about,
    trace: claim.trace ?? null
  }
}

/** The largest date. An integer that every store can hold. */
export const NEVER_MS = 8_640_000_000_000_000

/** Whether a probe may start now. */
export function isDue (row: RecordRow, nowMs: number, overMs = nowMs): boolean {
  return row.state === 'indeterminate' &&
    row.question !== null &&
    !isPast(row, overMs) &&
    (row.probeAtMs ?? row.settledAtMs ?? 0) <= nowMs
}

/** A probe starts. No other may start within `withinMs`. */
export function probedRow (row: RecordRow, withinMs: number, nowMs: number): RecordRow {
  return { ...row, probeAtMs: nowMs + withinMs, probeTries: row.probeTries + 1 }
}

/** The row after a probe that settles nothing. null: the row has changed since. */
export function notedRow (row: RecordRow, { token, tries, afterMs, absent }: ProbeNote, nowMs: number): RecordRow | null {
  const mine = row.state === 'indeterminate' &&
    row.attempt === token.attempt &&
    row.owner.equals(token.owner) &&
    row.probeTries === tries
  if (!mine) return null
  const absentAtMs = absent === 'first' ? nowMs : absent === 'forget' ? null : row.absentAtMs
  return { ...row, probeAtMs: afterMs === null ? NEVER_MS : nowMs + afterMs, absentAtMs }
}

export function leaseIsOver (row: RecordRow, nowMs: number): boolean {
  return row.leaseUntilMs !== null && row.leaseUntilMs <= nowMs
}

export function isPast (row: RecordRow, nowMs: number): boolean {
  return row.expiresAtMs !== null && row.expiresAtMs <= nowMs
}

/** The CHECK constraints of the databases, for rows that no database checks. Returns the constraint that is violated. */
export function violation (row: RecordRow): string | null {
  const claimed = row.state === 'claimed'
  if (claimed !== (row.leaseUntilMs !== null)) return 'claimed must have a lease, and nothing else may'
  if (claimed !== (row.expiresAtMs === null)) return 'everything but claimed must expire'
  if (claimed !== (row.settledBy === null)) return 'everything but claimed must say who settled it'
  if (claimed !== (row.settledAtMs === null)) return 'everything but claimed must say when it was settled'
  if ((row.state === 'completed') !== (row.body !== null)) return 'completed must have a body, and nothing else may'
  if ((row.state === 'completed' || row.state === 'consumed') && row.status === null) {
    return 'completed and consumed must have a status'
  }
  return null
}

function left (untilMs: number | null, nowMs: number): number | null {
  return untilMs === null ? null : untilMs - nowMs
}
