/**
 * What was changed by hand in the database: the audits of records and of messages, as one list. Of one record or message by its index,
 * everything else from its newest or oldest row on.
 */
import type { AuditRow, AuditedState } from '../../core/record/audit.ts'
import type { AuditSearch, Order, Page, Position } from '../../ports/operator.ts'
import { AUDITS, boundOf, numberOfPlace, placeOf, placeOfNumber, stateAfter, type AuditKind } from '../shared/places.ts'
import { searchStreams, type Step, type StepOrder, type Stream } from '../shared/search.ts'
import type { Connections } from './connections.ts'
import { behindPlace, exactTime, inSnapshot, placeValues, readStep, stepStatement, type Snapshot } from './search-step.ts'
import type { Session, Statement, Values } from './statements.ts'

interface Columns extends Omit<AuditRow, 'atMs' | 'number' | 'about' | 'id' | 'requestId'> {
  readonly at: string
  readonly tie: string
  readonly id: Buffer | null
  readonly request_id: string | null
  readonly before: AuditedState | null
  readonly after: AuditedState | null
}

const TABLES = {
  records: { table: 'audit', id: 'r.record_id', owner: 'r.owner' },
  messages: { table: 'message_audit', id: 'r.message_id', owner: 'null::bytea' }
} as const satisfies Readonly<Record<AuditKind, object>>

export async function searchAudit (connections: Connections, search: AuditSearch): Promise<Page<AuditRow>> {
  return inSnapshot(connections, async (snapshot) => searchStreams(AUDITS.map((kind) => streamOf(snapshot, search, kind)), search))
}

function streamOf (snapshot: Snapshot, search: AuditSearch, kind: AuditKind): Stream<AuditRow> {
  const isOfOne = search.id !== undefined
  const statement = isOfOne ? ofOneStatement(kind, search.order) : auditStatement(kind, search.order)
  return async (order) => {
    const from = order.from === null ? null : { at: order.from.at, id: placeOfNumber(boundOf(order.from, kind)) }
    const values = valuesOf(search, { ...order, from })
    const { found, reached } = await snapshot(order.withinMs, async (session): Promise<Step<AuditRow>> => isOfOne
      ? readOfOne(session, statement, values, order, kind)
      : readStep<Columns, AuditRow>(session, statement, values, order, {
        order: search.order, tie: 'number', toRow: (columns) => rowOf(columns, kind)
      }))
    return {
      found: found.map(({ row, position }) => ({ row, position: auditPlace(position, kind) })),
      reached: reached === null ? null : auditPlace(reached, kind)
    }
  }
}

/** In the list of both audits. */
function auditPlace ({ at, id }: Position, kind: AuditKind): Position {
  return { at, id: placeOf(kind, numberOfPlace(id)) }
}

/** $1 who, $2 action, $3 route, $4 the record or the message (null: any). $5 and $6 are null. */
const CONDITIONS = `($1::text is null or r.who = $1) and ($2::text is null or r.action = $2) and ($3::text is null or r.route = $3)
     and $5::text is null and $6::text is null`

function valuesOf ({ who, action, route, id, ...times }: AuditSearch, order: StepOrder): Values {
  return [who ?? null, action ?? null, route ?? null, id ?? null, null, null, ...placeValues(times, order)]
}

function columnsOf (kind: AuditKind): string {
  const { id, owner } = TABLES[kind]
  return `r.action, ${id} as id, ${owner} as owner, r.attempt, r.route, r.request_id, r.state, r.who, r.via, r.why, r.before, r.after`
}

function auditStatement (kind: AuditKind, order: Order): Statement {
  const { table } = TABLES[kind]
  return stepStatement({
    name: `search_${table}`,
    table,
    key: 'number',
    column: 'at',
    tie: 'number',
    where: '$4::bytea is null',
    conditions: CONDITIONS,
    columns: columnsOf(kind),
    order
  })
}

/** All of them are sorted: nothing is changed by hand so often. `materialized`: by its index, whatever the planner expects. */
function ofOneStatement (kind: AuditKind, order: Order): Statement {
  const { table, id } = TABLES[kind]
  const { where: behind, by } = behindPlace('at', order, 'number')
  return {
    name: `search_${table}_of_one_${order}`,
    writes: false,
    text: (schema) => `with few as materialized (select r.* from ${schema}.${table} r where ${id} = $4::bytea)
select ${columnsOf(kind)}, ${exactTime('r.at')} as at, r.number as tie from few r
 where ${CONDITIONS} and ${behind}
 order by ${by}
 limit $11`
  }
}

async function readOfOne (
  session: Session,
  statement: Statement,
  values: Values,
  { wanted }: StepOrder,
  kind: AuditKind
): Promise<Step<AuditRow>> {
  const found = (await session.run<Columns>(statement, values)).map((columns) =>
    ({ row: rowOf(columns, kind), position: { at: columns.at, id: placeOfNumber(columns.tie) } }))
  return { found, reached: found.length < wanted ? null : found.at(-1)?.position ?? null }
}

const US_PER_MS = 1_000

function rowOf ({ action, owner, attempt, route, state, who, via, why, before, after, ...row }: Columns, kind: AuditKind): AuditRow {
  return {
    atMs: Number(row.at) / US_PER_MS,
    number: row.tie,
    about: kind === 'records' ? 'record' : row.id === null ? 'route' : 'message',
    action,
    id: row.id,
    owner,
    attempt,
    route,
    requestId: row.request_id,
    state: stateAfter({ state, after }),
    who,
    via,
    why,
    before,
    after
  }
}
