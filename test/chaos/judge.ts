/**
 * Finds the violations of a run. The clients' ledger, the witness file, stamps and audit become one history for each record, and the
 * checker judges each. Two more checks need real processes: the time of an answer, and claims without a sending that a live process
 * left to their lease. Pure.
 */
import { staleReplays, violationsOf } from '../harness/checker.ts'
import type { Violation } from '../harness/checker.ts'
import type { FinalRow, History, HistoryEvent, Rules } from '../harness/history.ts'
import { eventOf } from './audit.ts'
import type { Written } from './audit.ts'
import { waitedMs } from './core-waits.ts'
import { unknownAt } from './differ.ts'
import type { Configured } from './differ.ts'
import { judgeDrop } from './judge-drop.ts'
import { judgeIds } from './judge-ids.ts'
import type { DropRule } from './judge-drop.ts'
import type { Incarnation } from './gateways.ts'
import { askedOf } from './ledger.ts'
import { ANSWER_WITHIN_MS, CLAIM_TIMEOUT_MS, meaningOf, RETENTION_MS, routeNamed } from './routes.ts'
import type { ChaosRoute } from './routes.ts'
import type { Stamp } from './stamps.ts'
import type { Executed, Replied, WitnessLine } from './witness.ts'

/**
 * P6 is no numbered invariant, but also a promise: a live process that sent nothing never leaves an unknown outcome.
 * P10: nothing of an ended life is replayed. N5: a key is executed or accepted.
 * I13: while a life under one id of a request lasts, nothing begins under another.
 */
export interface Found extends Omit<Violation, 'invariant'> {
  readonly invariant: Violation['invariant'] | 'P6' | 'P10' | 'N5' | 'I13' | DropRule
}

export interface Evidence {
  readonly events: readonly HistoryEvent[]
  readonly witnessed: readonly WitnessLine[]
  readonly stamps: readonly Stamp[]
  readonly audit: readonly Written[]
  readonly rows: readonly Written[]
  readonly claimed: readonly Written[]
  readonly abandoned: readonly Written[]
  /** Per gateway, by its name. */
  readonly incarnations: ReadonlyMap<string, readonly Incarnation[]>
  /** Which configurations it had, and from when on. Absent: always the first. */
  readonly configured?: ReadonlyMap<string, readonly Configured[]>
  /** Requests that are messages too, and the ids of those. */
  readonly accepted?: ReadonlyMap<string, readonly string[]>
  /** Which gateway each call went to. */
  readonly gatewayOf: (call: string) => string
  readonly endedAtMs: number
}

export interface Judgement {
  readonly found: readonly Found[]
  /** Sendings of a process that had just resumed, after a later claim. They are not judged (protocol §10). */
  readonly excused: number
  readonly executions: number
  /** Events of mode drop that were forwarded again after an answer said that they are done, by route. */
  readonly doubled: ReadonlyMap<string, number>
  readonly historyOf: (record: string) => HistoryEvent[]
}

/** The longest time between a lease check and the first bytes on the network, on a busy machine. The sending is in between. */
const SEEN_LATE_MS = 250
/** A process that was frozen between its check and its write writes when it resumes. It is excused for this long. */
const WOKEN_MS = 500
/** answerWithin, a claim and E6's wait, on a machine with two cores for everything. */
const ANSWER_MS_MAX = ANSWER_WITHIN_MS + CLAIM_TIMEOUT_MS + 3_000 + 10_000

export function judge (evidence: Evidence): Judgement {
  const sendings = sendingsOf(evidence)
  const byRecord = groupOf(evidence, sendings.events)
  const found: Found[] = []
  const doubled = new Map<string, number>()
  for (const group of componentsOf(byRecord, sendings.recordOf)) {
    const [first = ''] = group
    const route = routeOfRecord(byRecord.get(first) ?? [])
    if (route.switches === true) found.push(...executedAndAccepted(evidence, group))
    else if (route.drop === undefined) found.push(...judgeGroup(evidence, group, byRecord))
    else found.push(...judgeDrops(route, group, byRecord, sendings.woken, doubled))
  }
  found.push(...judgeIds(evidence))
  found.push(...tooLate(evidence))
  found.push(...evidence.claimed.map(({ record }): Found => ({
    invariant: 'I9',
    record,
    detail: `record ${record.slice(0, 8)} is still claimed when everything is well again`
  })))
  found.push(...evidence.abandoned.map(({ record, attempt, instance }): Found => ({
    invariant: 'P6',
    record,
    detail: `record ${record.slice(0, 8)}: attempt ${attempt} of ${instance} was left to its lease, although the process lives and nothing was sent: unknown, and nobody died`
  })))
  return {
    found,
    excused: sendings.excused,
    executions: sendings.recordOf.size,
    doubled,
    historyOf: (record) => byRecord.get(record) ?? []
  }
}

// ---------------------------------------------------------------- the history

interface Sendings {
  readonly events: HistoryEvent[]
  readonly excused: number
  /** By processes that had just resumed. */
  readonly woken: ReadonlySet<number>
  readonly recordOf: ReadonlyMap<number, string>
}

function sendingsOf ({ witnessed, stamps, audit, incarnations }: Evidence): Sendings {
  const stamped = new Map(stamps.map((stamp) => [`${stamp.call} ${stamp.attempt}`, stamp]))
  const claims = Map.groupBy(
    audit.filter(({ state, gone }) => state === 'claimed' && !gone),
    ({ record, attempt }) => `${record} ${attempt}`
  )
  const routes = new Map<number, ChaosRoute>()
  const recordOf = new Map<number, string>()
  const justWoken = new Set<number>()
  const events: HistoryEvent[] = []
  let excused = 0
  for (const line of witnessed) {
    if ('repliedMs' in line) {
      events.push(repliedOf(line, routes.get(line.execution)))
      continue
    }
    const route = routeOf(line)
    routes.set(line.execution, route)
    recordOf.set(line.execution, line.record)
    const stamp = stamped.get(`${line.call} ${line.attempt}`)
    const seenAtMs = stamp?.atMs ?? line.atMs
    const woken = stamp !== undefined && wasWoken(incarnations.get(stamp.from) ?? [], seenAtMs)
    if (woken) justWoken.add(line.execution)
    const own = claims.get(`${line.record} ${line.attempt}`)
    // After a delete, a new life has the same attempt numbers again.
    const claimedAtMs = (own?.findLast(({ atMs }) => atMs <= seenAtMs + 1) ?? own?.[0])?.atMs
    const atMs = placed(seenAtMs, woken, claimedAtMs)
    if (woken && (claims.get(`${line.record} ${line.attempt + 1}`)?.[0]?.atMs ?? Infinity) < seenAtMs) excused++
    events.push({
      kind: 'sent',
      atMs,
      execution: line.execution,
      call: line.call,
      record: line.record,
      attempt: line.attempt,
      scope: line.scope,
      asked: askedOf(route, line.target, line.body)
    })
  }
  return { events, excused, woken: justWoken, recordOf }
}

/** The earliest possible time, and never before its own claim. A later claim is not its own. */
function placed (seenAtMs: number, woken: boolean, claimedAtMs: number | undefined): number {
  if (claimedAtMs === undefined || claimedAtMs > seenAtMs + 1) return seenAtMs
  return (woken ? claimedAtMs : Math.max(claimedAtMs, seenAtMs - SEEN_LATE_MS)) + JUST_AFTER_MS
}

/** After the trigger's time, which is before the commit that permits the sending. */
const JUST_AFTER_MS = 0.001

function wasWoken (incarnations: readonly Incarnation[], atMs: number): boolean {
  return incarnations.some(({ frozen }) => frozen.some(({ untilMs }) => untilMs !== null && atMs >= untilMs && atMs <= untilMs + WOKEN_MS))
}

function routeOf ({ target }: Executed): ChaosRoute {
  return routeNamed(target.split('/')[1] ?? '')
}

function repliedOf ({ execution, repliedMs, status, page }: Replied, route: ChaosRoute | undefined): HistoryEvent {
  // A hop's answer proves nothing, except to a relay, which goes on until it succeeds.
  if (page === true) return { kind: 'replied', atMs: repliedMs, execution, means: route?.profile === 'relay' ? 'release' : 'unknown' }
  return { kind: 'replied', atMs: repliedMs, execution, means: route === undefined ? 'keep' : meaningOf(status, route) }
}

function groupOf ({ events, audit }: Evidence, sendings: readonly HistoryEvent[]): Map<string, HistoryEvent[]> {
  const recordOfCall = new Map<string, string>()
  const recordOfExecution = new Map<number, string>()
  for (const event of [...events, ...sendings]) {
    if (event.kind === 'asked') recordOfCall.set(event.call, event.record)
    if (event.kind === 'sent') recordOfExecution.set(event.execution, event.record)
  }
  const recordOf = (event: HistoryEvent): string => {
    if (event.kind === 'told' || event.kind === 'cut') return recordOfCall.get(event.call) ?? ''
    if (event.kind === 'replied') return recordOfExecution.get(event.execution) ?? ''
    return event.kind === 'switched' ? '' : event.record
  }
  const written = audit.map(eventOf)
  const whole = [...events.map(afterwards), ...sendings, ...written].sort((one, other) => one.atMs - other.atMs)
  return Map.groupBy(whole, recordOf)
}

/** Clocks of the client side have whole milliseconds, rounded down. An answer happened before the next millisecond. */
function afterwards (event: HistoryEvent): HistoryEvent {
  return event.kind === 'told' || event.kind === 'cut' ? { ...event, atMs: event.atMs + 1 } : event
}

/** Groups of records that answers connect: almost always one record each. */
function * componentsOf (
  byRecord: ReadonlyMap<string, readonly HistoryEvent[]>,
  recordOfExecution: ReadonlyMap<number, string>
): Generator<Set<string>> {
  const bound = new Map<string, Set<string>>()
  for (const [record, events] of byRecord) {
    const group = bound.get(record) ?? new Set([record])
    bound.set(record, group)
    for (const event of events) {
      const other = event.kind === 'told' && event.told.execution !== null ? recordOfExecution.get(event.told.execution) : undefined
      if (other === undefined || group.has(other)) continue
      for (const each of bound.get(other) ?? [other]) group.add(each)
      for (const each of group) bound.set(each, group)
    }
  }
  yield * new Set(bound.values())
}

// ---------------------------------------------------------------- judging

function judgeGroup (evidence: Evidence, records: ReadonlySet<string>, byRecord: ReadonlyMap<string, readonly HistoryEvent[]>): Found[] {
  const events = Array.from(records).flatMap((record) => byRecord.get(record) ?? [])
  if (records.size > 1) events.sort((one, other) => one.atMs - other.atMs)
  const rows = rowsOf(evidence).filter(records)
  const history: History = {
    events,
    rows,
    endedAtMs: evidence.endedAtMs,
    watched: true,
    rulesOf: () => rulesOf(events),
    unknownOf: unknownIn(evidence, events)
  }
  return [...violationsOf(history), ...staleReplays(history).map(({ record, detail }): Found => ({ invariant: 'P10', record, detail }))]
}

/** The `unknown` policies of the gateways that may have taken the call. */
function unknownIn ({ configured, gatewayOf }: Evidence, events: readonly HistoryEvent[]): NonNullable<History['unknownOf']> {
  const calls = new Map(events.filter((event) => event.kind === 'asked').map((event) => [event.call, event]))
  // The first sending: the call had been taken by then.
  const ends = new Map(events.toReversed().flatMap((event): Array<[string, number]> =>
    event.kind === 'sent' || event.kind === 'told' || event.kind === 'cut' ? [[event.call, event.atMs]] : []))
  return (call) => {
    const asked = calls.get(call)
    const route = routeNamed(asked?.asked.split('/')[1] ?? 'hold')
    return unknownAt(route, configured?.get(gatewayOf(call)) ?? [], asked?.atMs ?? 0, ends.get(call))
  }
}

/**
 * For the route that executes on one gateway and accepts on another. An executed key that was released, or may be sent again, may be
 * accepted. An acceptance under a claim leaves its own answer in the record.
 */
function executedAndAccepted ({ accepted, rows }: Evidence, records: ReadonlySet<string>): Found[] {
  if (accepted === undefined || !Array.from(records).some((record) => accepted.has(record))) return []
  return rows.filter(({ record, state, status }) =>
    records.has(record) && accepted.has(record) && (state === 'completed' || state === 'consumed') && status !== ACCEPTED)
    .map(({ record, state }) => ({
      invariant: 'N5',
      record,
      detail: `record ${record.slice(0, 8)} was executed (${state}), and its key was accepted`
    }))
}

const ACCEPTED = 202

function judgeDrops (
  route: ChaosRoute,
  records: ReadonlySet<string>,
  byRecord: ReadonlyMap<string, readonly HistoryEvent[]>,
  woken: ReadonlySet<number>,
  doubled: Map<string, number>
): Found[] {
  return Array.from(records).flatMap((record) => {
    const { found, late } = judgeDrop({
      record,
      events: byRecord.get(record) ?? [],
      woken,
      seenLateMs: SEEN_LATE_MS,
      forgets: route.drop === 'redis'
    })
    if (late > 0) doubled.set(route.name, (doubled.get(route.name) ?? 0) + late)
    return found
  })
}

function routeOfRecord (events: readonly HistoryEvent[]): ChaosRoute {
  const asked = events.find((event) => event.kind === 'asked')
  return routeNamed(asked?.asked.split(/[/?]/)[1] ?? 'hold')
}

interface Rows { readonly filter: (records: ReadonlySet<string>) => FinalRow[] }
const rowsByEvidence = new WeakMap<Evidence, Rows>()

/** Indexed by record, because there are as many rows as records. */
function rowsOf (evidence: Evidence): Rows {
  const known = rowsByEvidence.get(evidence)
  if (known !== undefined) return known
  const rows = new Map(evidence.rows.map(({ record, state, print }): [string, FinalRow] => [record, { record, state, past: false, print }]))
  const made: Rows = { filter: (records) => Array.from(records).flatMap((record) => rows.get(record) ?? []) }
  rowsByEvidence.set(evidence, made)
  return made
}

function rulesOf (events: readonly HistoryEvent[]): Rules {
  const asked = events.find((event) => event.kind === 'asked')
  const route = routeNamed(asked?.asked.split('/')[1] ?? 'hold')
  // The time of an answer is judged here, because the checker does not know which processes were frozen.
  return { unknown: route.unknown, retentionMs: RETENTION_MS, unknownRetentionMs: RETENTION_MS, answerMs: Infinity, replaysMismatch: false }
}

/** I8, less the time in which its gateway was frozen or had no core. */
function tooLate ({ events, incarnations, gatewayOf }: Evidence): Found[] {
  const asked = new Map(events.filter((event) => event.kind === 'asked').map((event) => [event.call, event]))
  return events.flatMap((event): Found[] => {
    const request = event.kind === 'told' ? asked.get(event.call) : undefined
    if (event.kind !== 'told' || request === undefined) return []
    const tookMs = event.atMs - request.atMs
    if (tookMs <= ANSWER_MS_MAX) return []
    const processes = incarnations.get(gatewayOf(event.call)) ?? []
    const awakeMs = tookMs - frozenMs(processes, request.atMs, event.atMs) -
      waitedMs(processes.flatMap(({ waits }) => waits), request.atMs, event.atMs)
    return awakeMs <= ANSWER_MS_MAX
      ? []
      : [{ invariant: 'I8', record: request.record, detail: `call ${event.call} waited ${Math.round(awakeMs)} ms` }]
  })
}

function frozenMs (incarnations: readonly Incarnation[], fromMs: number, untilMs: number): number {
  const overlaps = incarnations.flatMap(({ frozen }) => frozen.map((each) =>
    Math.min(untilMs, each.untilMs ?? untilMs) - Math.max(fromMs, each.fromMs)))
  return overlaps.reduce((sum, overlap) => sum + Math.max(0, overlap), 0)
}
