/**
 * One step of a search: rows behind a place, in the order of an index, and those of them that match. Nothing here is prepared: the planner
 * sees the values.
 */
import type { Order, Position, RecordSearch } from '../../ports/operator.ts'
import { ID_ENDS, NUMBER_BYTES, NUMBER_ENDS, numberOfPlace, placeOfNumber } from '../shared/places.ts'
import { StepTimeOver, type Step, type StepOrder } from '../shared/search.ts'
import type { Connections } from './connections.ts'
import { isTimeOver } from './faults.ts'
import type { Session, Statement, Values } from './statements.ts'

/**
 * A transaction's own settings, so that a pooler may be between. One snapshot for all of it: what goes from one stream to another while it
 * is looked for is in one of them. Without an index nothing here should be read from a whole table.
 */
const BEGIN: Statement = { name: 'search_begin', writes: false, text: () => 'begin isolation level repeatable read read only' }
const SETTINGS: Statement = {
  name: 'search_settings',
  writes: false,
  text: () => `select set_config('statement_timeout', $1, true), set_config('idle_in_transaction_session_timeout', '${IDLE_MS_MAX}ms', true), ${
    ['enable_seqscan', 'enable_hashjoin', 'enable_mergejoin', 'jit'].map((name) => `set_config('${name}', 'off', true)`).join(', ')
  }`
}
/** A search rests between its steps, never for so long. A gateway that hangs does not keep the database from its vacuum. */
const IDLE_MS_MAX = 10_000
const COMMIT: Statement = { name: 'search_commit', writes: false, text: () => 'commit' }
const ROLLBACK: Statement = { name: 'search_rollback', writes: false, text: () => 'rollback' }

/** Statements of one snapshot, with a time limit for each. Nothing follows one whose time was over. @throws StepTimeOver, or as they do */
export type Snapshot = <Result>(withinMs: number, work: (session: Session) => Promise<Result>) => Promise<Result>

/** @throws as `search` does */
export async function inSnapshot<Result> (
  connections: Pick<Connections, 'use'>,
  search: (snapshot: Snapshot) => Promise<Result>
): Promise<Result> {
  return connections.use('search', async (session) => {
    await session.run(BEGIN, [])
    try {
      const result = await search(async (withinMs, work) => {
        try {
          await session.run(SETTINGS, [`${Math.max(1, Math.round(withinMs))}ms`])
          return await work(session)
        } catch (error) {
          throw isTimeOver(error) ? new StepTimeOver({ cause: error }) : error
        }
      })
      await end(session, COMMIT)
      return result
    } catch (error) {
      // What does not answer would only be waited for once more.
      if (!('isUsable' in session) || session.isUsable === true) await end(session, ROLLBACK).catch(() => {})
      throw error
    }
  })
}

/**
 * The limit of the last step holds for the end too, and may be a millisecond. What was read is true all the same. The transaction has
 * failed then, and its settings are gone: nothing limits the rollback.
 */
async function end (session: Session, statement: Statement): Promise<void> {
  try {
    await session.run(statement, [])
  } catch (error) {
    if (!isTimeOver(error)) throw error
    await session.run(ROLLBACK, [])
  }
}

/** One statement of a snapshot of its own. @throws as it does */
export async function searching<Result> (
  connections: Connections,
  withinMs: number,
  work: (session: Session) => Promise<Result>
): Promise<Result> {
  return inSnapshot(connections, async (snapshot) => snapshot(withinMs, work))
}

/** A `*` at the end stands for the rest of a path. Nothing else is special. */
export function likePath (path: string): string {
  const literal = (text: string): string => text.replaceAll(/[\\%_]/g, '\\$&')
  return path.endsWith('*') ? `${literal(path.slice(0, -1))}%` : literal(path)
}

/** Microseconds since the Unix epoch, exact. */
export function exactTime (expression: string): string {
  return `(extract(epoch from ${expression}) * 1000000)::bigint::text`
}

export function timeOf (parameter: number): string {
  return `(timestamptz 'epoch' + $${parameter}::bigint * interval '1 microsecond')`
}

/** What rows with the same time are sorted by. Numbers are in the order of acceptance. */
export type Tie = 'id' | 'number'

const TYPE_OF_TIE: Readonly<Record<Tie, string>> = { id: 'bytea', number: 'bigint' }

const BEFORE: Readonly<Record<Order, string>> = { newest: '<', oldest: '>' }
const DIRECTION: Readonly<Record<Order, string>> = { newest: 'desc', oldest: 'asc' }

/** $7 and $8: the place behind which the rows are. $9 and $10: from when, and before when. $11: how many at most. */
export function behindPlace (column: string, order: Order, tie: Tie = 'id'): { readonly where: string, readonly by: string } {
  const before = BEFORE[order]
  return {
    where: `($7::text is null or (r.${column} ${before}= ${timeOf(7)} and (r.${column} ${before} ${timeOf(7)} or r.${tie} ${before} $8::${TYPE_OF_TIE[tie]})))
     and ${betweenTimes(column)}`,
    by: `r.${column} ${DIRECTION[order]}, r.${tie} ${DIRECTION[order]}`
  }
}

function betweenTimes (column: string): string {
  return `($9::text is null or r.${column} >= ${timeOf(9)}) and ($10::text is null or r.${column} < ${timeOf(10)})`
}

/** The id of a record, or the number of a message. */
function tieOf ({ id }: Position): Buffer | string {
  return id.length === NUMBER_BYTES ? String(numberOfPlace(id)) : id
}

const US_PER_MS = 1_000

export function placeValues (
  { fromMs, toMs }: Pick<RecordSearch, 'fromMs' | 'toMs'>,
  { from, wanted }: Pick<StepOrder, 'from' | 'wanted'>
): Values {
  const exact = (ms: number | undefined) => ms === undefined ? null : String(Math.round(ms * US_PER_MS))
  return [from?.at ?? null, from === null ? null : tieOf(from), exact(fromMs), exact(toMs), wanted]
}

export interface StepText {
  readonly name: string
  readonly table: 'records' | 'messages' | 'audit' | 'message_audit'
  /** What names a row. Absent: its id. */
  readonly key?: Tie
  /** The time by which rows are sorted. */
  readonly column: string
  readonly tie: Tie
  /** What the index finds. */
  readonly where: string
  /** What each row is tested for: $1 to $6, and $13. */
  readonly conditions: string
  /** What is read of those that match. */
  readonly columns: string
  readonly order: Order
}

/**
 * Looks at $12 rows behind the place, whatever is in them, and at all of the same time as the last of these. That time is read from the
 * index alone. So a row that does not match is read once, and kept nowhere.
 */
export function stepStatement ({ name, table, key: named = 'id', column, tie, where, conditions, columns, order }: StepText): Statement {
  const { where: behind, by } = behindPlace(column, order, tie)
  const [before, direction] = [BEFORE[order], DIRECTION[order]]
  const notBeyond = order === 'newest'
    ? `r.${column} >= coalesce((select l.at from last l), '-infinity')`
    : `r.${column} <= coalesce((select l.at from last l), 'infinity')`
  return {
    name: `${name}_${order}`,
    writes: false,
    text: (schema) => `with last as materialized (
  select r.${column} as at
    from ${schema}.${table} r
   where ${where} and ($7::text is null or r.${column} ${before} ${timeOf(7)}) and ${betweenTimes(column)}
   order by r.${column} ${direction}
   offset $12::int - 1 limit 1
), hits as materialized (
  select r.${named}
    from ${schema}.${table} r
   where ${where} and ${behind} and ${notBeyond}
     and ${conditions}
   order by ${by}
   limit $11
)
select reach.*, r.*
  from (select (select ${exactTime('l.at')} from last l) as last_at) reach
  left join lateral (
  select ${columns}, ${exactTime(`r.${column}`)} as at, r.${tie} as tie
    from ${schema}.${table} r where r.${named} = any (array(select ${named} from hits))
) r on true
 order by r.at::bigint ${direction} nulls last, r.tie ${direction}`
  }
}

/** bytea comes as bytes, bigint as text. */
type TieValue = Buffer | string
interface Reach { readonly last_at: string | null }
interface Placed { readonly at: string, readonly tie: TieValue }

export async function readStep<Columns extends object, Row> (
  session: Session,
  statement: Statement,
  values: Values,
  { size, wanted }: StepOrder,
  { order, tie, toRow, more = [] }: {
    readonly order: Order
    readonly tie: Tie
    readonly toRow: (columns: Columns) => Row
    /** Behind $12. */
    readonly more?: Values
  }
): Promise<Step<Row>> {
  const rows = await session.run<Reach & Columns & Partial<Placed>>(statement, [...values, size, ...more])
  const found = rows.flatMap((row) => row.at == null || row.tie == null ? [] : [{ row: toRow(row), position: positionOf(row.at, row.tie) }])
  if (found.length === wanted) return { found, reached: found.at(-1)?.position ?? null }
  const lastAt = rows[0]?.last_at ?? null
  return { found, reached: lastAt === null ? null : { at: lastAt, id: (tie === 'id' ? ID_ENDS : NUMBER_ENDS)[order] } }
}

function positionOf (at: string, tie: TieValue): Position {
  return { at, id: typeof tie === 'string' ? placeOfNumber(tie) : tie }
}
