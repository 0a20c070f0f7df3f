/** The schemes in the embedded store (core/record/schemes.ts): which one claims, and which earlier one is still looked for. */
import type { DatabaseSync } from 'node:sqlite'
import { FIRST_NAME } from '../../core/record/schemes.ts'
import type { Schemes } from '../../core/record/schemes.ts'
import type { LostQuestion } from '../../ports/records.ts'

/** The migration that made the tables. A build that does not know it makes ids by the first scheme, whichever scheme claims. */
export const SCHEMES_MIGRATION = 9
/**
 * If nothing is left, a look reads the whole table, and no other call is served meanwhile. What is left now is not swept
 * before it is past.
 */
const LOOK_EVERY_MS = 300_000

export const TABLES = ['records', 'messages', 'marks'] as const

const readCurrent = `
select c.number, c.name, c.since, e.number as earlier, e.name as earlier_name, e.is_lost, e.ended_at
  from installation i join schemes c on c.number = i.scheme
  left join schemes e on e.number = i.scheme - 1 and e.name is not null`

interface CurrentSchemes {
  readonly number: number
  readonly name: string | null
  readonly since: number
  readonly earlier: number | null
  readonly earlier_name: string
  readonly is_lost: number
  readonly ended_at: number | null
}

export function readSchemes (connection: DatabaseSync): CurrentSchemes {
  return connection.prepare(readCurrent).get() as unknown as CurrentSchemes
}

export function schemesIn (connection: DatabaseSync, nowMs: number): Schemes {
  const { number, name, since, earlier, earlier_name: earlierName, is_lost: isLost, ended_at: endedAt } = readSchemes(connection)
  return {
    current: name === null ? null : { number, name },
    earlier: earlier === null
      ? null
      : { number: earlier, name: earlierName, isLost: isLost === 1, isOver: endedAt !== null, ageMs: nowMs - since }
  }
}

/** For a new database: the first process that serves from it chooses. */
export function leaveOpen (connection: DatabaseSync): void {
  connection.exec('update schemes set name = null')
}

/** Called by the only process, before it claims anything. A scheme that was chosen before stays. */
export function chooseScheme (connection: DatabaseSync, name: string, nowMs: number): void {
  if (readSchemes(connection).name !== null) return
  connection.exec('begin immediate')
  choose(connection, { name, who: null, why: null }, nowMs)
  connection.exec('commit')
}

export function choose (
  connection: DatabaseSync,
  { name, who, why }: { readonly name: string, readonly who: string | null, readonly why: string | null },
  nowMs: number
): void {
  connection.prepare('update schemes set name = ?, since = ?, who = ?, why = ? where name is null').run(name, nowMs, who, why)
  if (name !== FIRST_NAME) refuseOlder(connection)
}

/** Builds that know nothing of schemes can no longer start here (migrate.ts). */
export function refuseOlder (connection: DatabaseSync): void {
  connection.prepare('update migrations set compatible_from = ? where number = ?').run(SCHEMES_MIGRATION, SCHEMES_MIGRATION)
}

export function endEarlierSchemeIn (connection: DatabaseSync, nowMs: number): null {
  const { number, earlier, ended_at: endedAt } = readSchemes(connection)
  if (earlier === null || endedAt !== null) return null
  const from = connection.prepare('select look_from from schemes where number = ?').get(earlier)?.look_from as number | null
  if (from !== null && from > nowMs) return null
  for (const table of TABLES) {
    const left = connection.prepare(`select expires_at from ${table} where scheme < ? limit 1`).get(number)
    if (left === undefined) continue
    connection.prepare('update schemes set look_from = ? where number = ?').run(
      Math.max(nowMs + LOOK_EVERY_MS, (left.expires_at ?? 0) as number),
      earlier
    )
    return null
  }
  endScheme(connection, earlier, nowMs)
  return null
}

/** Rows that are past and not swept yet count as well. They are soon gone. */
export function lostAlgorithmsIn (connection: DatabaseSync, lost: number, route: string): number[] {
  return connection
    .prepare(
      'select fp_alg from records where scheme <= ?1 and route = ?2 union select fp_alg from messages where scheme <= ?1 and route = ?2'
    )
    .all(lost, route)
    .map(({ fp_alg: alg }) => alg as number)
}

export function mayBeLostIn (connection: DatabaseSync, { lost, route, key, fingerprints }: LostQuestion): boolean {
  return (['records', 'messages'] as const).some((table) => {
    const stands = (condition: string, ...values: Array<string | number | Buffer>) =>
      connection.prepare(`select 1 from ${table} where scheme <= ? and route = ? and ${condition} limit 1`).get(
        lost,
        route,
        ...values
      ) !== undefined
    return stands('key_text = ?', key) ||
      fingerprints.some(({ alg, value }) => stands('key_text is null and fp_alg = ? and fingerprint = ?', alg, value))
  })
}

export function endScheme (connection: DatabaseSync, number: number, nowMs: number): void {
  connection.prepare('update schemes set ended_at = ? where number = ?').run(nowMs, number)
}
