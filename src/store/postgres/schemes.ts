/**
 * The schemes of ids in this database (core/record/schemes.ts): read, chosen once for a new database, and ended. The switch is
 * in scheme-switch.ts.
 */
import type { ClientBase } from 'pg'
import { FIRST_SCHEME } from '../../core/record/schemes.ts'
import type { Schemes } from '../../core/record/schemes.ts'
import { StartError } from '../../ports/errors.ts'
import { UNBALANCED, type Session, type Statement } from './statements.ts'
import { PROVEN } from './durable.ts'

/** Rows may live longer than expected (claimed again, held, of unknown outcome). They are looked for again after this. */
const LOOK_AGAIN = '1 hour'

interface SchemeColumns {
  readonly number: number
  readonly name: string | null
  readonly is_lost: boolean
  readonly age_ms: number
  readonly ended: boolean
}

/**
 * A gateway keeps what it reads here, and hears of a change by the number alone. If a promotion loses a switch and another one
 * follows, both have the same number. So nothing is read that may be lost (durable.ts).
 */
const SCHEMES_READ: Statement = {
  name: 'schemes',
  writes: true,
  text: (schema) => `select s.number, s.name, s.is_lost, s.ended_at is not null as ended, (extract(epoch from clock_timestamp() - c.since) * 1000)::float8 as age_ms, ${PROVEN}
  from ${schema}.installation i
  join ${schema}.schemes c on c.number = i.scheme
  join ${schema}.schemes s on s.number in (i.scheme, i.scheme - 1)
 order by s.number desc`
}

export async function schemesNow (client: ClientBase, schema: string): Promise<Schemes> {
  const { rows } = await client.query<SchemeColumns>(`${UNBALANCED} ${SCHEMES_READ.text(schema)}`)
  return schemesIn(rows)
}

export async function readSchemes (session: Session): Promise<Schemes> {
  return schemesIn(await session.run<SchemeColumns>(SCHEMES_READ, []))
}

function schemesIn ([current, earlier]: readonly SchemeColumns[]): Schemes {
  if (current === undefined) {
    throw new StartError('This schema has lost its schemes: put the row of the one that claims back into its table schemes.')
  }
  return {
    current: current.name === null ? null : { number: current.number, name: current.name },
    earlier: earlier === undefined || earlier.name === null
      ? null
      : { number: earlier.number, name: earlier.name, isLost: earlier.is_lost, isOver: earlier.ended, ageMs: earlier.age_ms }
  }
}

export const SCHEMES_MIGRATION = 9

/** The time of all migrations, by one process or by several that start at once. */
const NEW_FOR = '1 minute'

/**
 * In the transaction that made the tables: the first gateway that serves from a new database chooses the scheme. A build from
 * before schemes may serve from it already and have claimed nothing. Then it claims nothing at all. If it starts here, it says
 * so.
 */
export async function leaveOpenIfNew (client: ClientBase, schema: string): Promise<void> {
  const { rowCount } = await client.query(`update ${schema}.schemes set name = null
 where number = ${FIRST_SCHEME} and (select min(applied_at) from ${schema}.migrations) > clock_timestamp() - interval '${NEW_FOR}'
   and ${['records', 'messages', 'marks', 'gateways'].map((table) => `not exists (select from ${schema}.${table})`).join(' and ')}`)
  if (rowCount === 1) await refuseOlder(client, schema)
}

/** A build that does not know schemes refuses to start. */
export async function refuseOlder (client: ClientBase, schema: string): Promise<void> {
  await client.query(`update ${schema}.migrations set compatible_from = number where number = ${SCHEMES_MIGRATION}`)
}

/** For a gateway that begins to serve. An earlier choice stays. */
export async function chooseScheme (client: ClientBase, schema: string, name: string): Promise<void> {
  const { rows } = await client.query(`${UNBALANCED} select from ${schema}.schemes where name is null`)
  if (rows.length > 0) {
    await client.query(
      `update ${schema}.schemes set name = $1, since = clock_timestamp() where number = ${FIRST_SCHEME} and name is null`,
      [name]
    )
  }
}

export const isAnyLeft = (schema: string, number: string): string => `(exists (select from ${schema}.records where scheme < ${number})
   or exists (select from ${schema}.messages where scheme < ${number})
   or exists (select from ${schema}.marks where scheme < ${number}))`

/**
 * No index says which rows are of the earlier scheme, so that no claim pays for one. The tables are read once all rows from
 * before the switch should be past, and then every hour. One gateway looks: it moves the time first.
 */
const SCHEME_LOOK: Statement = {
  name: 'scheme_look',
  writes: true,
  text: (schema) => `update ${schema}.schemes s set look_from = clock_timestamp() + interval '${LOOK_AGAIN}'
  from ${schema}.installation i
 where s.number = i.scheme - 1 and s.ended_at is null and s.look_from <= clock_timestamp()
returning s.number`
}

const SCHEME_END: Statement = {
  name: 'scheme_end',
  writes: true,
  text: (schema) =>
    `update ${schema}.schemes set ended_at = clock_timestamp() where number = $1 and not ${isAnyLeft(schema, '$1::smallint + 1')}`
}

export async function endEarlierScheme (session: Session): Promise<void> {
  const [due] = await session.run<{ number: number }>(SCHEME_LOOK, [])
  if (due !== undefined) await session.run(SCHEME_END, [due.number])
}
