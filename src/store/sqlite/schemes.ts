/**
 * The switch from one scheme (core/record/schemes.ts) to the next in the embedded store. One transaction, by the only process
 * that holds it.
 */
import type { DatabaseSync } from 'node:sqlite'
import { isNone } from '../../core/record/scheme-switch.ts'
import type { SchemeReport, SchemeRows, SwitchOrder, SwitchResult } from '../../core/record/scheme-switch.ts'
import { inTransaction, withDatabase, withDatabaseAlone } from './by-command.ts'
import { choose, endScheme, readSchemes, refuseOlder, TABLES } from './scheme-rows.ts'

/** A running gateway holds the directory. So none makes ids by the earlier scheme while another begins. @throws StartError */
export function switchSchemeIn (dataDir: string, order: SwitchOrder, nowMs = Date.now()): SwitchResult {
  return withDatabaseAlone(dataDir, nowMs, (connection) => switchIn(connection, order, nowMs))
}

/** For an operator, beside a gateway that serves. @throws StartError */
export function reportSchemesIn (dataDir: string, nowMs = Date.now()): SchemeReport {
  return withDatabase(dataDir, nowMs, (connection) => {
    const schemes = connection.prepare(
      'select number, name, since as sinceMs, who, why, is_lost as isLost, ended_at as endedMs, look_from as lookFromMs from schemes order by number desc'
    ).all()
    return { schemes: schemes.map((row) => ({ ...row, isLost: row.isLost === 1 })) as unknown as SchemeReport['schemes'], gateways: [] }
  })
}

/** Runs in a transaction of its own. */
export function switchIn (connection: DatabaseSync, order: SwitchOrder, nowMs: number): SwitchResult {
  return inTransaction(
    connection,
    () => switched(connection, order, nowMs),
    ({ kind }) => !order.dryRun && (kind === 'switched' || kind === 'lost')
  )
}

function switched (connection: DatabaseSync, { name, who, why, isLost }: SwitchOrder, nowMs: number): SwitchResult {
  const { number, name: from, earlier, earlier_name: earlierName, ended_at: endedAt, is_lost: wasLost } = readSchemes(connection)
  if (from === name && (!isLost || earlier === null || endedAt !== null || wasLost === 1)) return { kind: 'same', number }
  if (from === name) return { kind: 'lost', number, earlier: earlierName, rows: loseEarlier(connection, earlier ?? number, nowMs) }
  if (from === null) {
    choose(connection, { name, who, why }, nowMs)
    return { kind: 'switched', number, from, to: name, rows: { records: 0, messages: 0, marks: 0 } }
  }
  if (earlier !== null && endedAt === null) {
    const rows = countOf(connection, 'scheme < ?', number)
    if (!isNone(rows)) return { kind: 'earlier-left', earlier: earlierName, rows, untilMs: null }
    endScheme(connection, earlier, nowMs)
  }
  indexLost(connection, isLost)
  const rows = countLiving(connection, number, nowMs)
  connection.prepare('update schemes set is_lost = ?, look_from = ? where number = ?').run(isLost ? 1 : 0, lastExpiry(connection), number)
  connection.prepare('insert into schemes (number, name, since, who, why) values (?, ?, ?, ?, ?)').run(number + 1, name, nowMs, who, why)
  connection.prepare('update installation set scheme = ?').run(number + 1)
  refuseOlder(connection)
  return { kind: 'switched', number: number + 1, from, to: name, rows }
}

/** The secret of the earlier scheme is reported lost after the switch. */
function loseEarlier (connection: DatabaseSync, earlier: number, nowMs: number): SchemeRows {
  indexLost(connection, true)
  connection.prepare('update schemes set is_lost = 1 where number = ?').run(earlier)
  return countLiving(connection, earlier, nowMs)
}

/** Indexes what every request asks for while the secret is lost (scheme-rows.ts). */
function indexLost (connection: DatabaseSync, isLost: boolean): void {
  for (const table of ['records', 'messages']) {
    connection.exec(isLost ? `create index if not exists ${table}_lost on ${table} (fingerprint)` : `drop index if exists ${table}_lost`)
  }
}

function countLiving (connection: DatabaseSync, number: number, nowMs: number): SchemeRows {
  return countOf(connection, 'scheme = ? and (expires_at is null or expires_at > ?)', number, nowMs)
}

function countOf (connection: DatabaseSync, condition: string, ...values: number[]): SchemeRows {
  const count = (table: typeof TABLES[number]) =>
    Number(connection.prepare(`select count(*) as count from ${table} where ${condition}`).get(...values)?.count)
  return { records: count('records'), messages: count('messages'), marks: count('marks') }
}

/** Until then some of today's rows are left. null: no row has an end yet. */
function lastExpiry (connection: DatabaseSync): number | null {
  const ends = TABLES.map((table) =>
    connection.prepare(`select max(expires_at) as last from ${table} where expires_at is not null`).get()?.last as number | null)
  return ends.reduce((last, each) => last === null || each === null ? last ?? each : Math.max(last, each))
}
