/**
 * The records table of one SQLite connection: rows in and out, nothing of the protocol. Runs inside the transaction that the
 * worker holds. Every statement is prepared once. Never begins or ends a transaction.
 */
import { RECORD_STATES } from '../../core/record/record.ts'
import type { Claim, RecordState, SettledState, Settlement, UnknownReason } from '../../core/record/record.ts'
import { auditedState } from '../../core/protocol/row.ts'
import type { SettledBy, RecordRow } from '../../core/protocol/row.ts'
import type { ProbeOrder, RecordFilter, Swept } from '../../ports/records.ts'
import type { Unresolved } from '../../ports/telemetry.ts'
import { aboutOf, bytesOf, preparedOnce, type Columns } from './columns.ts'
import { wantedOf } from './filter.ts'
import type { Audited, LapseRows, Table } from '../shared/record-table.ts'
import type { DatabaseSync, SQLInputValue, SQLOutputValue, StatementSync } from 'node:sqlite'

const COLUMNS = [
  'id', 'state', 'owner', 'attempt', 'fp_alg', 'fingerprint', 'lease_ms', 'unknown_keep_ms', 'quarantine_ms', 'claimed_at', 'lease_until',
  'settled_at', 'settled_by', 'expires_at', 'status', 'unknown_stage', 'unknown_code', 'route', 'method', 'path', 'request_id', 'instance',
  'key_hash', 'key_text', 'headers', 'body', 'question', 'ask_at', 'asked', 'absent_at', 'scheme', 'sent_at', 'answered_at', 'trace'
] as const

/** Of a record `r` in a list, without what may be large. */
export const SUMMARY_COLUMNS = `${COLUMNS.filter((column) => !['headers', 'body', 'question'].includes(column)).map((column) => `r.${column}`).join(', ')},
       null as headers, length(r.body) as body_bytes, r.question is not null as has_question`

const find = 'select * from records where id = ?'

/** What a settle writes of a row, and a take of what is settled. Everything else is the claim's. */
const OUTCOME = [
  'state', 'lease_until', 'settled_at', 'settled_by', 'expires_at', 'status', 'unknown_stage', 'unknown_code',
  'headers', 'body', 'question', 'sent_at', 'answered_at'
] as const

/** What an asking writes. */
const ASKING = ['ask_at', 'asked', 'absent_at'] as const

const insert = `insert into records (${COLUMNS.join(', ')}) values (${COLUMNS.map(() => '?').join(', ')})`

const replace = `update records set ${COLUMNS.slice(1).map((column) => `${column} = ?`).join(', ')} where id = ?`

/**
 * The usual claim: a new row, if nothing is there that the state machine would have to look at. Whatever it finds (a row, a message, past
 * or not, another scheme), it inserts nothing, and the claim goes the long way.
 */
const claimNew = `
insert into records (
  id, state, owner, attempt, fp_alg, fingerprint, lease_ms, unknown_keep_ms, quarantine_ms, claimed_at, lease_until,
  route, method, path, request_id, instance, key_hash, key_text, question, scheme, trace)
select ?, 'claimed', ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
 where not exists (select 1 from messages where id = ?) and (select scheme from installation) = ?
on conflict (id) do nothing`

/** The usual settle, of a claimed row by its owner with a known outcome. In any other state it changes nothing. */
const settleClaimed = `
update records
   set state = ?, lease_until = null, settled_at = ?, settled_by = 'owner', expires_at = ?, status = ?, headers = ?, body = ?, question = null,
       sent_at = claimed_at + ?, answered_at = claimed_at + ?
 where id = ? and owner = ? and attempt = ? and state = 'claimed'`

const settle = `update records set ${OUTCOME.map((column) => `${column} = ?`).join(', ')} where id = ?`

const ask = `update records set ${ASKING.map((column) => `${column} = ?`).join(', ')} where id = ?`

const endLeases = 'update records set lease_until = min(lease_until, ?) where state = \'claimed\''

const lapsing = 'select * from records where state = \'claimed\' and lease_until <= ? order by lease_until'

const lapsingOf = `
select * from records
 where id in (select unhex(value) from json_each(?)) and state = 'claimed' and lease_until <= ?
 order by lease_until`

const removePast = `
delete from records
 where rowid in (select rowid from records where expires_at <= ? order by expires_at limit ?)
returning state`

const due = `
select * from records
 where state = 'indeterminate' and question is not null and coalesce(ask_at, settled_at) <= ? and expires_at > ?
   and route in (select value from json_each(?))
 order by coalesce(ask_at, settled_at) limit ?`

const unresolved = 'select count(*) as count, min(settled_at) as since from records where state = \'indeterminate\''

const note = `
insert into audit (
  at, action, who, why, via, record_id, route, request_id, owner, attempt, state_before, state_after, before, after)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

const remove = 'delete from records where id = ?'

const scheme = 'select scheme from installation'

const lostScheme = 'select 1 from schemes where number = ? and is_lost = 1'

const changedByHand = 'select 1 from audit where record_id = ? and at >= ? limit 1'

export class SqliteTable implements Table {
  /** At most sixteen statements differ by filter. The others are constants. */
  readonly #prepare: (text: string) => StatementSync
  readonly #claimNew: StatementSync
  readonly #settleClaimed: StatementSync

  constructor (database: DatabaseSync) {
    this.#prepare = preparedOnce(database)
    this.#claimNew = database.prepare(claimNew)
    this.#settleClaimed = database.prepare(settleClaimed)
  }

  claimNew (claim: Claim, nowMs: number): boolean {
    const { id, scheme, owner, fingerprint, leaseMs, unknownKeepMs, quarantineMs, question, about, trace } = claim
    return this.#claimNew.run(
      id, owner, fingerprint.alg, fingerprint.value, leaseMs, unknownKeepMs, quarantineMs, nowMs, nowMs + leaseMs,
      about.route, about.method, about.path, about.requestId, about.instance, about.keyHash, about.keyText, question, scheme, trace ?? null,
      id, scheme
    ).changes === 1
  }

  settleClaimed ({ token, outcome, keepMs, status, headers, body, sentMs, answeredMs }: Settlement, nowMs: number): boolean {
    return this.#settleClaimed.run(
      outcome, nowMs, nowMs + keepMs, status, headers, body, sentMs ?? null, answeredMs ?? null, token.id, token.owner, token.attempt
    ).changes === 1
  }

  find (id: Buffer): RecordRow | null {
    const columns = this.#prepare(find).get(id)
    return columns === undefined ? null : storedOf(columns)
  }

  save (row: RecordRow, before: RecordRow | null): void {
    if (before === null) this.#prepare(insert).run(...valuesOf(row))
    else if (isSameOutcome(row, before)) this.#prepare(ask).run(row.probeAtMs, row.probeTries, row.absentAtMs, row.id)
    else if (isSameClaim(row, before)) this.#prepare(settle).run(...outcomeOf(row), row.id)
    else this.#prepare(replace).run(...valuesOf(row).slice(1), row.id)
  }

  /** Every claimed row's lease ends now: for the start of the only process, when every owner is dead. */
  endLeases (nowMs: number): void {
    this.#prepare(endLeases).run(nowMs)
  }

  lapsing ({ ids, running, limit }: LapseRows, nowMs: number): RecordRow[] {
    const own = new Set(running.map(nameOf))
    const candidates = ids === null
      ? this.#prepare(lapsing).iterate(nowMs)
      : this.#prepare(lapsingOf).iterate(JSON.stringify(ids.map(nameOf)), nowMs)
    const rows: RecordRow[] = []
    for (const columns of candidates) {
      if (rows.length === limit) break
      const row = storedOf(columns)
      if (!own.has(nameOf(row.owner))) rows.push(row)
    }
    return rows
  }

  removePast (limit: number, nowMs: number): Swept[] {
    const counts = new Map<SettledState, number>()
    for (const { state } of this.#prepare(removePast).all(nowMs, limit)) {
      const counted = isState(state) && state !== 'claimed' ? state : 'indeterminate'
      counts.set(counted, (counts.get(counted) ?? 0) + 1)
    }
    return [...counts].map(([state, count]) => ({ state, count }))
  }

  due ({ routes, limit }: Pick<ProbeOrder, 'routes' | 'limit'>, nowMs: number, overMs: number): RecordRow[] {
    return this.#prepare(due).all(nowMs, overMs, JSON.stringify(routes), limit).map(storedOf)
  }

  unresolved (nowMs: number): Unresolved {
    const { count, since } = this.#prepare(unresolved).get() as { count: number, since: number | null }
    return { count, oldestMs: since === null ? null : nowMs - since }
  }

  list ({ limit, ...filter }: RecordFilter): RecordRow[] {
    const { conditions, values } = wantedOf(filter)
    const where = conditions.length === 0 ? '' : `where ${conditions.join(' and ')}`
    return this.#prepare(`select * from records ${where} order by claimed_at desc limit ?`).all(...values, limit).map(storedOf)
  }

  changedByHand (id: Buffer, sinceMs: number): boolean {
    return this.#prepare(changedByHand).get(id, sinceMs) !== undefined
  }

  note ({ atMs, action, who, why, via, before, after }: Audited): void {
    const { id, about: { route, requestId }, owner, attempt } = before
    this.#prepare(note).run(
      atMs, action, who, why, via ?? null, id, route, requestId, owner, attempt, before.state, after.state,
      JSON.stringify(auditedState(before)), JSON.stringify(auditedState(after))
    )
  }

  remove (id: Buffer): void {
    this.#prepare(remove).run(id)
  }

  scheme (): number {
    return this.#prepare(scheme).get()?.scheme as number
  }

  isLost (number: number): boolean {
    return this.#prepare(lostScheme).get(number) !== undefined
  }
}

/** Everything that is not its outcome is as it was. A renewal changes the lease, and a new claim changes the owner. */
function isSameClaim (row: RecordRow, before: RecordRow): boolean {
  return row.owner === before.owner &&
    row.attempt === before.attempt &&
    row.about === before.about &&
    row.fingerprint === before.fingerprint &&
      row.claimedAtMs === before.claimedAtMs &&
      row.leaseMs === before.leaseMs &&
      row.unknownKeepMs === before.unknownKeepMs &&
      row.quarantineMs === before.quarantineMs &&
      row.probeAtMs === before.probeAtMs && row.probeTries === before.probeTries && row.absentAtMs === before.absentAtMs
}

/** Settled as it was: only an asking is written. */
function isSameOutcome (row: RecordRow, before: RecordRow): boolean {
  return row.state === 'indeterminate' &&
    row.settledAtMs === before.settledAtMs &&
    row.owner === before.owner &&
    row.expiresAtMs === before.expiresAtMs &&
    row.probeTries > 0
}

/** In the order of COLUMNS. */
function valuesOf (row: RecordRow): SQLInputValue[] {
  const { about, fingerprint, reason } = row
  return [
    row.id, row.state, row.owner, row.attempt, fingerprint.alg, fingerprint.value, row.leaseMs, row.unknownKeepMs,
    row.quarantineMs, row.claimedAtMs, row.leaseUntilMs,
    row.settledAtMs, row.settledBy, row.expiresAtMs, row.status, reason?.stage ?? null, reason?.code ?? null,
    about.route, about.method, about.path, about.requestId, about.instance,
    about.keyHash, about.keyText, row.headers, row.body, row.question, row.probeAtMs, row.probeTries, row.absentAtMs, row.scheme,
    row.sentAtMs, row.answeredAtMs, row.trace ?? null
  ]
}

/** In the order of OUTCOME. */
function outcomeOf (row: RecordRow): SQLInputValue[] {
  return [
    row.state,
    row.leaseUntilMs,
    row.settledAtMs,
    row.settledBy,
    row.expiresAtMs,
    row.status,
    row.reason?.stage ?? null,
    row.reason?.code ?? null,
    row.headers,
    row.body,
    row.question,
    row.sentAtMs,
    row.answeredAtMs
  ]
}

/** The columns' types are the schema's own (STRICT). Only a state that a newer release wrote is unknown here. */
export function storedOf (columns: Columns): RecordRow {
  return {
    id: bytesOf(columns.id),
    scheme: columns.scheme as number,
    state: isState(columns.state) ? columns.state : 'undecodable',
    owner: bytesOf(columns.owner),
    attempt: columns.attempt as number,
    fingerprint: { alg: columns.fp_alg as number, value: bytesOf(columns.fingerprint) },
    leaseMs: columns.lease_ms as number,
    unknownKeepMs: columns.unknown_keep_ms as number,
    quarantineMs: columns.quarantine_ms as number,
    claimedAtMs: columns.claimed_at as number,
    leaseUntilMs: columns.lease_until as number | null,
    sentAtMs: columns.sent_at as number | null,
    answeredAtMs: columns.answered_at as number | null,
    settledAtMs: columns.settled_at as number | null,
    settledBy: columns.settled_by as SettledBy | null,
    expiresAtMs: columns.expires_at as number | null,
    status: columns.status as number | null,
    headers: columns.headers === null ? null : bytesOf(columns.headers),
    body: columns.body === null ? null : bytesOf(columns.body),
    reason: columns.unknown_stage === null
      ? null
      : { stage: columns.unknown_stage as UnknownReason['stage'], code: columns.unknown_code as string },
    question: columns.question === null ? null : bytesOf(columns.question),
    probeAtMs: columns.ask_at as number | null,
    probeTries: columns.asked as number,
    absentAtMs: columns.absent_at as number | null,
    about: aboutOf(columns),
    trace: columns.trace as string | null
  }
}

function isState (state: SQLOutputValue | undefined): state is RecordState {
  return (RECORD_STATES as readonly unknown[]).includes(state)
}

function nameOf (bytes: Buffer): string {
  return bytes.toString('hex')
}
