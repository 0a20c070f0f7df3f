/**
 * The state machine of records. `transition` is the table of what a write may do to a record. The memory and the SQLite store run it,
 * Postgres' statements say the same in SQL, and the conformance suite checks all three. `decide` says what a gateway does next after it
 * read a row. `lockAfter` says what then happens to its lock. Pure: no clock, no chance, no I/O. Only arguments decide.
 */
import type { IdempotencyPolicy } from '../policy/policy.ts'
import { claimedRow, isPast, leaseIsOver, type RecordRow } from './row.ts'
import type { Claim, Fingerprint, Row, Seen, SettledState, Settlement, Token } from '../record/record.ts'

/** What an operator or a probe says about the outcome of an indeterminate record. */
export interface ResolveWrite extends Omit<Settlement, 'outcome' | 'reason'> {
  readonly outcome: Exclude<SettledState, 'indeterminate'>
  readonly by: 'operator' | 'probe'
  /** The number of the probe. null: an operator's own decision. */
  readonly tries: number | null
}

export type Event =
  | { readonly kind: 'insert', readonly claim: Claim }
  | { readonly kind: 'take', readonly seen: Seen, readonly claim: Claim, readonly mayRetry: boolean }
  | { readonly kind: 'confirm', readonly claim: Claim }
  | { readonly kind: 'renew', readonly token: Token }
  | { readonly kind: 'lapse', readonly running: readonly Buffer[] }
  | { readonly kind: 'settle', readonly settlement: Settlement }
  | { readonly kind: 'settleLost', readonly settlement: Settlement, readonly claim: Claim }
  | { readonly kind: 'resolve', readonly resolution: ResolveWrite }
  | { readonly kind: 'expire', readonly token: Token }
  | { readonly kind: 'sweep' }

export type Change =
  | { readonly kind: 'written', readonly row: RecordRow }
  | { readonly kind: 'removed' }
  | { readonly kind: 'refused', readonly why: Refusal }

/** Which condition of the compare-and-set failed. `quarantine`: only the time failed. */
export type Refusal = 'state' | 'token' | 'fingerprint' | 'running' | 'quarantine'

/** The state of a record when a write arrives. `over`: claimed, and the lease is over. */
export const COLUMNS = [
  'none', 'live', 'over', 'completed', 'consumed', 'released', 'releasedByHand', 'indeterminate', 'undecodable', 'past'
] as const
export type Column = typeof COLUMNS[number]

/** `·`: changes nothing. `begin`: attempt 1. `again`: attempt + 1. `asState`: the same as if it were not past. */
export type Cell = '·' | 'begin' | 'again' | 'prolong' | 'settle' | 'shorten' | 'remove' | 'asState'

export type EventName =
  | Exclude<Event['kind'], 'take' | 'settle' | 'settleLost' | 'resolve'>
  | 'take' | 'takeRetry' | `settle:${SettledState}` | `settleLost:${SettledState}` | `resolve:${ResolveWrite['outcome']}`

/** One cell per column, in the order of {@link COLUMNS}. A missing cell does not compile. */
type PerColumn<Names> = { readonly [Index in keyof Names]: Cell }
export type Line = PerColumn<typeof COLUMNS>

/* eslint-disable @stylistic/no-multi-spaces, @stylistic/key-spacing -- a table is read by its columns */
/**
 * Every event and every column (protocol §3). The token, the fingerprint, the quarantine and the process's own running executions are
 * further conditions (`refusal`).
 */
export const TRANSITIONS: Readonly<Record<EventName, Line>> = {
  //                           none      live       over       completed  consumed   released   byHand     indeterm.  undecod.  past
  insert:                     ['begin',  '·',       '·',       '·',       '·',       '·',       '·',       '·',       '·',      'asState'],
  take:                       ['·',      '·',       '·',       '·',       '·',       'again',   'again',   '·',       '·',      'begin'],
  takeRetry:                  ['·',      '·',       '·',       '·',       '·',       'again',   'again',   'again',   '·',      'begin'],
  // An indeterminate row with this owner was never sent. Its release is a settle of its own (decide: release-own).
  confirm:                    ['begin',  'prolong', 'prolong', '·',       '·',       '·',       '·',       '·',       '·',      'asState'],
  // A late renewal revives its lease if the lease has not lapsed: nobody else can have sent.
  renew:                      ['·',      'prolong', 'prolong', '·',       '·',       '·',       '·',       '·',       '·',      'asState'],
  lapse:                      ['·',      '·',       'settle',  '·',       '·',       '·',       '·',       '·',       '·',      'asState'],
  // The owner's true answer wins over a release by another, unless there was a claim since (then the token differs).
  'settle:completed':         ['·',      'settle',  'settle',  '·',       '·',       '·',       'settle',  'settle',  '·',      'asState'],
  'settle:consumed':          ['·',      'settle',  'settle',  '·',       '·',       '·',       'settle',  'settle',  '·',      'asState'],
  'settle:released':          ['·',      'settle',  'settle',  '·',       '·',       '·',       '·',       'settle',  '·',      'asState'],
  // An owner settled a stream by its head, and then its upstream broke it off. It takes its own tombstone back.
  'settle:indeterminate':     ['·',      'settle',  'settle',  '·',       'settle',  '·',       '·',       '·',       '·',      'asState'],
  'settleLost:completed':     ['settle', '·',       '·',       '·',       '·',       '·',       '·',       '·',       '·',      'asState'],
  'settleLost:consumed':      ['settle', '·',       '·',       '·',       '·',       '·',       '·',       '·',       '·',      'asState'],
  'settleLost:released':      ['·',      '·',       '·',       '·',       '·',       '·',       '·',       '·',       '·',      'asState'],
  'settleLost:indeterminate': ['settle', '·',       '·',       '·',       '·',       '·',       '·',       '·',       '·',      'asState'],
  'resolve:completed':        ['·',      '·',       '·',       '·',       '·',       '·',       '·',       'settle',  '·',      'asState'],
  'resolve:consumed':         ['·',      '·',       '·',       '·',       '·',       '·',       '·',       'settle',  '·',      'asState'],
  'resolve:released':         ['·',      '·',       '·',       '·',       '·',       '·',       '·',       'settle',  '·',      'asState'],
  expire:                     ['·',      '·',       '·',       'shorten', 'shorten', 'shorten', 'shorten', '·',       '·',      'asState'],
  // An undecodable row is never executed, past or not. It is removed after its expiry, which all builds write alike.
  sweep:                      ['·',      '·',       '·',       '·',       '·',       '·',       '·',       '·',       'remove', 'remove']
}
/* eslint-enable @stylistic/no-multi-spaces, @stylistic/key-spacing */

export const LAPSED_REASON = { stage: 'lease', code: 'LEASE_OVER' } as const

/**
 * What `event` does to `row` (null: there is no row) at the store's time `nowMs`. `overMs`: the time that decides whether anything is over,
 * if the store's time is not fully believed.
 */
export function transition (row: RecordRow | null, event: Event, nowMs: number, overMs = nowMs): Change {
  const cell = cellOf(row, TRANSITIONS[nameOf(event)], overMs)
  if (cell === '·') return { kind: 'refused', why: 'state' }
  const why = row === null ? null : refusal(row, event, cell, overMs)
  if (why !== null) return { kind: 'refused', why }
  const next = rowAfter(row, event, cell, nowMs)
  return next === null ? { kind: 'removed' } : { kind: 'written', row: next }
}

function nameOf (event: Event): EventName {
  switch (event.kind) {
    case 'take': return event.mayRetry ? 'takeRetry' : 'take'
    case 'settle': return `settle:${event.settlement.outcome}`
    case 'settleLost': return `settleLost:${event.settlement.outcome}`
    case 'resolve': return `resolve:${event.resolution.outcome}`
    default: return event.kind
  }
}

function cellOf (row: RecordRow | null, line: Line, nowMs: number): Cell {
  const column = row === null ? 'none' : columnOf(row, nowMs)
  const past = row !== null && column !== 'undecodable' && isPast(row, nowMs) ? cellAt(line, 'past') : 'asState'
  return past === 'asState' ? cellAt(line, column) : past
}

function cellAt (line: Line, column: Column): Cell {
  return line[COLUMNS.indexOf(column)] ?? '·'
}

function columnOf (row: RecordRow, nowMs: number): Exclude<Column, 'none' | 'past'> {
  if (row.state === 'claimed') return leaseIsOver(row, nowMs) ? 'over' : 'live'
  if (row.state === 'released') return row.settledBy === 'owner' ? 'released' : 'releasedByHand'
  return row.state
}

function refusal (row: RecordRow, event: Event, cell: Cell, nowMs: number): Refusal | null {
  switch (event.kind) {
    case 'take':
      if (!holds(event.seen, row)) return 'token'
      return cell === 'again' && !sameFingerprint(event.seen.fingerprint, row.fingerprint) ? 'fingerprint' : null
    case 'confirm': return event.claim.owner.equals(row.owner) ? null : 'token'
    case 'renew': case 'expire': return holds(event.token, row) ? null : 'token'
    case 'lapse': return event.running.some((owner) => owner.equals(row.owner)) ? 'running' : null
    case 'settle':
      if (!holds(event.settlement.token, row)) return 'token'
      return row.state === 'consumed' && row.settledBy !== 'owner' ? 'state' : null
    case 'resolve':
      if (!holds(event.resolution.token, row) || isStale(event.resolution, row)) return 'token'
      return event.resolution.outcome === 'released' && quarantineLeftMs(row, nowMs) > 0 ? 'quarantine' : null
    case 'sweep': return isPast(row, nowMs) ? null : 'state'
    case 'insert': case 'settleLost': return null
  }
}

/** A "not found" frees nothing if another probe started since, or if no other "not found" confirms it any more. */
function isStale ({ outcome, tries }: ResolveWrite, row: RecordRow): boolean {
  return tries !== null && outcome === 'released' && (row.probeTries !== tries || row.absentAtMs === null)
}

function holds (token: Token, row: RecordRow): boolean {
  return token.attempt === row.attempt && token.owner.equals(row.owner)
}

function sameFingerprint (a: Fingerprint, b: Fingerprint): boolean {
  return a.alg === b.alg && a.value.equals(b.value)
}

/** Milliseconds until a release by hand is allowed. Until then the first sending may still be in flight. */
export function quarantineLeftMs (row: RecordRow, nowMs: number): number {
  return row.settledAtMs === null ? 0 : row.settledAtMs + row.quarantineMs - nowMs
}

/** null: the row is removed. A cell that changes a row is never reached without a row. */
function rowAfter (row: RecordRow | null, event: Event, cell: Cell, nowMs: number): RecordRow | null {
  switch (event.kind) {
    case 'insert': return claimedRow(event.claim, 1, nowMs)
    case 'take': return claimedRow(event.claim, cell === 'again' ? existing(row).attempt + 1 : 1, nowMs)
    case 'confirm': return cell === 'begin' ? claimedRow(event.claim, 1, nowMs) : prolonged(existing(row), nowMs)
    case 'renew': return prolonged(existing(row), nowMs)
    case 'lapse': return lapsedRow(existing(row), nowMs)
    case 'settle': return settledRow(existing(row), event.settlement, 'owner', nowMs)
    case 'settleLost': {
      // The claim's own time is lost with its row.
      const settlement = { ...event.settlement, sentMs: null, answeredMs: null }
      return settledRow(claimedRow(event.claim, settlement.token.attempt, nowMs), settlement, 'owner', nowMs)
    }
    case 'resolve': return settledRow(existing(row), { ...event.resolution, reason: null }, event.resolution.by, nowMs)
    case 'expire': return shortened(existing(row), nowMs)
    case 'sweep': return null
  }
}

function existing (row: RecordRow | null): RecordRow {
  if (row === null) throw new TypeError('the table has no such cell for a record that does not exist')
  return row
}

/** Never shorter than before: a renewal may overtake a younger one. */
function prolonged (row: RecordRow, nowMs: number): RecordRow {
  return { ...row, leaseUntilMs: Math.max(row.leaseUntilMs ?? 0, nowMs + row.leaseMs) }
}

function settledRow (
  row: RecordRow,
  settlement: Omit<Settlement, 'token'>,
  settledBy: NonNullable<RecordRow['settledBy']>,
  nowMs: number
): RecordRow {
  const { outcome, keepMs, status, headers, body, reason, question = null, sentMs = null, answeredMs = null } = settlement
  return {
    ...row,
    state: outcome,
    leaseUntilMs: null,
    sentAtMs: sentMs === null ? row.sentAtMs : row.claimedAtMs + sentMs,
    answeredAtMs: answeredMs === null ? row.answeredAtMs : row.claimedAtMs + answeredMs,
    settledAtMs: nowMs,
    settledBy,
    expiresAtMs: nowMs + keepMs,
    status,
    headers,
    body,
    reason,
    question: outcome === 'indeterminate' ? question ?? row.question : null
  }
}

function lapsedRow (row: RecordRow, nowMs: number): RecordRow {
  return settledRow(
    row,
    { outcome: 'indeterminate', keepMs: row.unknownKeepMs, status: null, headers: null, body: null, reason: LAPSED_REASON },
    'lease',
    nowMs
  )
}

/** Two leases: every copy of the answer outside the store ends at least one lease before its row (P10). Never longer than before. */
function shortened (row: RecordRow, nowMs: number): RecordRow {
  return { ...row, expiresAtMs: Math.min(row.expiresAtMs ?? Infinity, nowMs + 2 * row.leaseMs) }
}

/** What the gateway does next after it read the row. */
export type Step =
  | { readonly do: 'execute', readonly attempt: number }
  | { readonly do: 'take', readonly mayRetry: boolean }
  | { readonly do: 'insert' | 'lapse' | 'replay' | 'not-kept' | 'in-flight' | 'mismatch' | 'unknown' | 'release-own' }

/** Whether this request is the same as the row's. `unknown`: this build cannot make a fingerprint with the row's algorithm. */
export type SameRequest = 'same' | 'different' | 'unknown'

/**
 * Protocol §5 for one row. `mine.owner`: the owner of this request's claim, made or still to be made. `mayLapse`: this process has had one
 * full lease of unbroken contact with the database (E2b).
 */
export function decide (
  row: Row | null,
  mine: { readonly owner: Buffer },
  sameRequest: SameRequest,
  policy: DecidePolicy,
  mayLapse: boolean
): Step {
  if (row === null) return { do: 'insert' }
  if (row.past) return row.state === 'undecodable' ? { do: 'unknown' } : { do: 'take', mayRetry: false }
  if (sameRequest === 'different') return { do: 'mismatch' }
  if (sameRequest === 'unknown') return { do: row.state === 'claimed' ? 'in-flight' : 'unknown' }
  const own = row.owner.equals(mine.owner)
  switch (row.state) {
    case 'claimed':
      if (own) return { do: 'execute', attempt: row.attempt }
      return { do: row.lapsed && mayLapse ? 'lapse' : 'in-flight' }
    case 'completed': return { do: 'replay' }
    case 'consumed': return { do: 'not-kept' }
    case 'released': return { do: 'take', mayRetry: false }
    case 'indeterminate':
      if (own) return { do: 'release-own' }
      return mayRepeat(policy) ? { do: 'take', mayRetry: true } : { do: 'unknown' }
    case 'undecodable': return { do: 'unknown' }
  }
}

type DecidePolicy = Pick<IdempotencyPolicy, 'unknown'> & Partial<Pick<IdempotencyPolicy, 'profile' | 'inboxFor'>>

/**
 * If all requests go to the inbox, `unknown` is about deliveries, and its default is `retry`. A request that was executed before that had
 * its profile's guarantee. For `api` that means: never sent again.
 */
function mayRepeat ({ unknown, profile, inboxFor }: DecidePolicy): boolean {
  return unknown === 'retry' && !(inboxFor === 'all' && profile === 'api')
}

/** `row`: replaced by the row's own owner, fingerprint and rest of the lease. `none`: this process holds no lock. */
export type LockFate = 'keep' | 'delete' | 'copy' | 'row' | 'none'

/** Protocol §5's last column: what happens to the lock after `step`, which `decide` returned for `row`. */
export function lockAfter (step: Step, row: Row | null, held: boolean): LockFate {
  if (!held) return 'none'
  switch (step.do) {
    case 'execute': case 'insert': case 'take': case 'lapse': case 'release-own': return 'keep'
    case 'replay': case 'not-kept': return 'copy'
    case 'unknown': return 'delete'
    // Redis has lost another's live claim: the next request finds its lock again. A lease that is over has no rest to give.
    case 'in-flight': case 'mismatch': return row?.state === 'claimed' && !row.lapsed ? 'row' : 'delete'
  }
}
