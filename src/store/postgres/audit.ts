/** What was changed by hand in the database: the audits of records and of messages, as one list. */
import type { AuditRow, AuditedState } from '../../core/record/audit.ts'
import type { AuditSearch, Page } from '../../ports/operator.ts'
import { AUDITS, boundOf, placeOf, stateAfter, type AuditKind } from '../shared/places.ts'
import { searchStreams, type Stream } from '../shared/search.ts'
import type { Connections } from './connections.ts'
import { exactTime, searching } from './search-step.ts'
import type { Statement } from './statements.ts'

interface Columns extends Omit<AuditRow, 'atMs' | 'number' | 'about' | 'id' | 'requestId'> {
  readonly at: string
  readonly number: string
  readonly id: Buffer | null
  readonly request_id: string | null
  readonly before: AuditedState | null
  readonly after: AuditedState | null
}

const COLUMNS: Readonly<Record<AuditKind, { readonly table: string, readonly id: string, readonly owner: string }>> = {
  records: { table: 'audit', id: 'r.record_id', owner: 'r.owner' },
  messages: { table: 'message_audit', id: 'r.message_id', owner: 'null::bytea' }
}

export async function searchAudit (connections: Connections, search: AuditSearch): Promise<Page<AuditRow>> {
  return searchStreams(AUDITS.map((kind) => streamOf(connections, search, kind)), search)
}

function streamOf (connections: Connections, search: AuditSearch, kind: AuditKind): Stream<AuditRow> {
  const { id, route, who, action, fromMs, toMs, order } = search
  const statement = statementOf(kind, order)
  return ({ from, wanted, withinMs }) => searching(connections, withinMs, async (session) => {
    const rows = await session.run<Columns>(statement, [
      id ?? null, route ?? null, who ?? null, action ?? null, fromMs ?? null, toMs ?? null,
      from?.at ?? null, from === null ? null : boundOf(from, kind), wanted
    ])
    const found = rows.map((columns) => ({ row: rowOf(columns, kind), position: { at: columns.at, id: placeOf(kind, columns.number) } }))
    return { found, reached: found.length < wanted ? null : found.at(-1)?.position ?? null }
  })
}

/** $1 to $6 what is searched for (null: any), $7 and $8 the place behind which the rows are, $9 how many at most. */
function statementOf (kind: AuditKind, order: AuditSearch['order']): Statement {
  const { table, id, owner } = COLUMNS[kind]
  const [before, direction] = order === 'newest' ? ['<', 'desc'] : ['>', 'asc']
  const place = "(timestamptz 'epoch' + $7::bigint * interval '1 microsecond')"
  return {
    name: `search_${table}_${order}`,
    writes: false,
    text: (schema) => `select ${exactTime('r.at')} as at, r.number::text as number, r.action, ${id} as id, ${owner} as owner, r.attempt, r.route,
       r.request_id, r.state, r.who, r.via, r.why, r.before, r.after
  from ${schema}.${table} r
 where ($1::bytea is null or ${id} = $1) and ($2::text is null or r.route = $2) and ($3::text is null or r.who = $3)
   and ($4::text is null or r.action = $4)
   and ($5::float8 is null or r.at >= to_timestamp($5::float8 / 1000)) and ($6::float8 is null or r.at < to_timestamp($6::float8 / 1000))
   and ($7::text is null or (r.at ${before}= ${place} and (r.at ${before} ${place} or r.number ${before} $8::bigint)))
 order by r.at ${direction}, r.number ${direction}
 limit $9`
  }
}

const US_PER_MS = 1_000

function rowOf ({ at, request_id: requestId, ...row }: Columns, kind: AuditKind): AuditRow {
  const about = kind === 'records' ? 'record' : row.id === null ? 'route' : 'message'
  return { ...row, state: stateAfter(row), atMs: Number(at) / US_PER_MS, requestId, about }
}
