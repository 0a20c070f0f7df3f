/**
 * The machine. `transition` is the whole table of what a write may do to a record: the memory and the SQLite store
 * execute it, Postgres' statements say the same in SQL, and the conformance suite holds all of them to it. `decide` is
 * what a gateway does next after it looked at a row, `lockAfter` what then becomes of its lock.
 * Pure: no clock, no chance, no I/O. Never decides by anything that is not an argument.
 */
import type { IdempotencyPolicy } from '../policy/policy.ts'
import { claimedRow, isPast, leaseIsOver, type RecordRow } from './row.ts'
import type { Claim, Fingerprint, Row, Seen, SettledState, Settlement, Token } from '../record/record.ts'

/** What an operator or a probe says became of an indeterminate record. */
export interface ResolveWrite extends Omit<Settlement, 'outcome' | 'reason'> {
  readonly outcome: Exclude<SettledState, 'indeterminate'>
  readonly by: 'operator' | 'probe'
  /** Which asking of a probe; null: somebody's own word. */
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

/** Which condition of the compare-and-set did not hold. `quarantine`: everything held but the time. */
export type Refusal = 'state' | 'token' | 'fingerprint' | 'running' | 'quarantine'

/** Where a record stands when a write arrives. `over`: claimed with its lease over. */
export const COLUMNS = [
  'none', 'live', 'over', 'completed', 'consumed', 'released', 'releasedByHand', 'indeterminate', 'undecodable', 'past'
] as const
export type Column = typeof COLUMNS[number]

/** `·`: changes nothing. `begin`: attempt 1. `again`: attempt + 1. `asState`: being past makes no difference here. */
export type Cell = '·' | 'begin' | 'again' | 'prolong' | 'settle' | 'shorten' | 'remove' | 'asState'

export type EventName =
  | Exclude<Event['kind'], 'take' | 'settle' | 'settleLost' | 'resolve'>
  | 'take' | 'takeRetry' | `settle:${SettledState}` | `settleLost:${SettledState}` | `resolve:${ResolveWrite['outcome']}`

/** One cell per column, in the order of {@link COLUMNS}: a missing one does not compile. */
type PerColumn<Names> = { readonly [Index in keyof Names]: Cell }
export type Line = PerColumn<typeof COLUMNS>

/* eslint-disable @stylistic/no-multi-spaces, @stylistic/key-spacing -- a table is read by its columns */
/**
 * Every event against every column (protocol §3). The token, the fingerprint, the quarantine and a process's own running
 * executions are conditions on top (`refusal`).
 */
export const TRANSITIONS: Readonly<Record<EventName, Line>> = {
  //                           none      live       over       completed  consumed   released   byHand     indeterm.  undecod.  past
  insert:                     ['begin',  '·',       '·',       '·',       '·',       '·',       '·',       '·',       '·',      'asState'],
  take:                       ['·',      '·',       '·',       '·',       '·',       'again',   'again',   '·',       '·',      'begin'],
  takeRetry:                  ['·',      '·',       '·',       '·',       '·',       'again',   'again',   'again',   '·',      'begin'],
  // An own row found indeterminate is mine and unsent: its release is a settle of its own (decide: release-own).
  confirm:                    ['begin',  'prolong', 'prolong', '·',       '·',       '·',       '·',       '·',       '·',      'asState'],
  // A renewal that comes late revives its lease as long as nobody lapsed it: nobody else can have sent.
  renew:                      ['·',      'prolong', 'prolong', '·',       '·',       '·',       '·',       '·',       '·',      'asState'],
  lapse:                      ['·',      '·',       'settle',  '·',       '·',       '·',       '·',       '·',       '·',      'asState'],
  // A true answer of the owner wins over a release by other hands, unless somebody claimed since (then the token differs).
  'settle:completed':         ['·',      'settle',  'settle',  '·',       '·',       '·',       'settle',  'settle',  '·',      'asState'],
  'settle:consumed':          ['·',      'settle',  'settle',  '·',       '·',       '·',       'settle',  'settle',  '·',      'asState'],
  'settle:released':          ['·',      'settle',  'settle',  '·',       '·',       '·',       '·',       'settle',  '·',      'asState'],
  // An owner that has settled a stream by its head, and whose upstream then broke it off, takes its own tombstone back.
  'settle:indeterminate':     ['·',      'settle',  'settle',  '·',       'settle',  '·',       '·',       '·',       '·',      'asState'],
  'settleLost:completed':     ['settle', '·',       '·',       '·',       '·',       '·',       '·',       '·',       '·',      'asState'],
  'settleLost:consumed':      ['settle', '·',       '·',       '·',       '·',       '·',       '·',       '·',       '·',      'asState'],
  'settleLost:released':      ['·',      '·',       '·',       '·',       '·',       '·',       '·',       '·',       '·',      'asState'],
  'settleLost:indeterminate': ['settle', '·',       '·',       '·',       '·',       '·',       '·',       '·',       '·',      'asState'],
  'resolve:completed':        ['·',      '·',       '·',       '·',       '·',       '·',       '·',       'settle',  '·',      'asState'],
  'resolve:consumed':         ['·',      '·',       '·',       '·',       '·',       '·',       '·',       'settle',  '·',      'asState'],
  'resolve:released':         ['·',      '·',       '·',       '·',       '·',       '·',       '·',       'settle',  '·',      'asState'],
  expire:                     ['·',      '·',       '·',       'shorten', 'shorten', 'shorten', 'shorten', '·',       '·',      'asState'],
  // An undecodable row is never executed, past or not; it goes when its expiry, which every build writes alike, is over.
  sweep:                      ['·',      '·',       '·',       '·',       '·',       '·',       '·',       '·',       'remove', 'remove']
}
/* eslint-enable @stylistic/no-multi-spaces, @stylistic/key-spacing */

export const LAPSED_REASON = { stage: 'lease', code: 'LEASE_OVER' } as const

/**
 * What `event` does to `row` (null: no such row) at the store's time `nowMs`. `overMs`: the time by which anything is
 * over, where less is believed.
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

/** A "not found" that was asked for before somebody else asked, or that no other one confirms any more, frees nothing. */
function isStale ({ outcome, tries }: ResolveWrite, row: RecordRow): boolean {
  return tries !== null && outcome === 'released' && (row.probeTries !== tries || row.absentAtMs === null)
}

function holds (token: Token, row: RecordRow): boolean {
  return token.attempt === row.attempt && token.owner.equals(row.owner)
}

function sameFingerprint (a: Fingerprint, b: Fingerprint): boolean {
  return a.alg === b.alg && a.value.equals(b.value)
}

/** Milliseconds until a release by hand is allowed: until then the first sending may still be on its way. */
export function quarantineLeftMs (row: RecordRow, nowMs: number): number {
  return row.settledAtMs === null ? 0 : row.settledAtMs + row.quarantineMs - nowMs
}

/** null: the row is removed. A cell that acts on a row is never reached without one. */
function rowAfter (row: RecordRow | null, event: Event, cell: Cell, nowMs: number): RecordRow | null {
  switch (event.kind) {
    case 'insert': return claimedRow(event.claim, 1, nowMs)
    case 'take': return claimedRow(event.claim, cell === 'again' ? existing(row).attempt + 1 : 1, nowMs)
    case 'confirm': return cell === 'begin' ? claimedRow(event.claim, 1, nowMs) : prolonged(existing(row), nowMs)
    case 'renew': return prolonged(existing(row), nowMs)
    case 'lapse': return lapsedRow(existing(row), nowMs)
    case 'settle': return settledRow(existing(row), event.settlement, 'owner', nowMs)
    case 'settleLost': return settledRow(claimedRow(event.claim, event.settlement.token.attempt, nowMs), event.settlement, 'owner', nowMs)
    case 'resolve': return settledRow(existing(row), { ...event.resolution, reason: null }, event.resolution.by, nowMs)
    case 'expire': return shortened(existing(row), nowMs)
    case 'sweep': return null
  }
}

function existing (row: RecordRow | null): RecordRow {
  if (row === null) throw new TypeError('the table has no such cell for a record that does not exist')
  return row
}

/** Never shorter than it was: a renewal may overtake a younger one. */
function prolonged (row: RecordRow, nowMs: number): RecordRow {
  return { ...row, leaseUntilMs: Math.max(row.leaseUntilMs ?? 0, nowMs + row.leaseMs) }
}

function settledRow (
  row: RecordRow,
  settlement: Omit<Settlement, 'token'>,
  settledBy: NonNullable<RecordRow['settledBy']>,
  nowMs: number
): RecordRow {
  const { outcome, keepMs, status, headers, body, reason, question = null } = settlement
  return {
    ...row,
    state: outcome,
    leaseUntilMs: null,
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

/** Two leases: every copy of the answer outside the store ends at least one lease before its row (P10). Never longer than it had. */
function shortened (row: RecordRow, nowMs: number): RecordRow {
  return { ...row, expiresAtMs: Math.min(row.expiresAtMs ?? Infinity, nowMs + 2 * row.leaseMs) }
}

/** What the gateway does next after a look at the row. */
export type Step =
  | { readonly do: 'execute', readonly attempt: number }
  | { readonly do: 'take', readonly mayRetry: boolean }
  | { readonly do: 'insert' | 'lapse' | 'replay' | 'not-kept' | 'in-flight' | 'mismatch' | 'unknown' | 'release-own' }

/** Does the request at hand ask what the row's did? `unknown`: this build cannot make a fingerprint of the row's algorithm. */
export type SameRequest = 'same' | 'different' | 'unknown'

/**
 * Protocol §5 for one row. `mine.owner`: the owner that this request's claim was or will be made with. `mayLapse`: one
 * full lease of unbroken contact with the database lies behind this process (E2b).
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
 * Where all goes to the inbox, `unknown` speaks of deliveries, and says `retry` by default. What was executed before that was
 * promised what its profile says: of `api` that nobody sends it again.
 */
function mayRepeat ({ unknown, profile, inboxFor }: DecidePolicy): boolean {
  return unknown === 'retry' && !(inboxFor === 'all' && profile === 'api')
}

/** `row`: swapped for the row's own owner, fingerprint and rest of lease. `none`: I hold no lock. */
export type LockFate = 'keep' | 'delete' | 'copy' | 'row' | 'none'

/** Protocol §5's last column: what becomes of my lock after `step`, which `decide` said of `row`. */
export function lockAfter (step: Step, row: Row | null, held: boolean): LockFate {
  if (!held) return 'none'
  switch (step.do) {
    case 'execute': case 'insert': case 'take': case 'lapse': case 'release-own': return 'keep'
    case 'replay': case 'not-kept': return 'copy'
    case 'unknown': return 'delete'
    // Another's live claim that Redis has lost: whoever comes next finds its lock again. A lease that is over has no rest to give.
    case 'in-flight': case 'mismatch': return row?.state === 'claimed' && !row.lapsed ? 'row' : 'delete'
  }
}
