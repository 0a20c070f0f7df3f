/**
 * What operators search in the records. Each search knows its index (migration 0014): a key by its ten minutes, the states that few records
 * have by theirs, everything else from its newest or oldest row on.
 */
import type { Page, RecordSearch, RecordSummary } from '../../ports/operator.ts'
import { searchStreams, type Step, type StepOrder, type Stream } from '../shared/search.ts'
import { byteas } from './arrays.ts'
import type { Connections } from './connections.ts'
import { summaryColumns, toSummary, type SummaryColumns } from './rows.ts'
import { behindPlace, exactTime, inSnapshot, likePath, placeValues, readStep, stepStatement, type Snapshot } from './search-step.ts'
import type { Session, Statement, Values } from './statements.ts'

export async function searchRecords (connections: Connections, search: RecordSearch): Promise<Page<RecordSummary>> {
  return inSnapshot(connections, async (snapshot) => searchIn(snapshot, search))
}

async function searchIn (snapshot: Snapshot, search: RecordSearch): Promise<Page<RecordSummary>> {
  const { id, keyHashes, state } = search
  const few = (statement: Statement, own: Values = []): Stream<RecordSummary> => (order) =>
    snapshot(order.withinMs, (session) => readFew(session, statement, [...valuesOf(search, order), ...own], order))
  if (id !== undefined) return searchStreams([few(fewStatement(search, 'r.id = $12::bytea', 'id'), [id])], search)
  if (keyHashes !== undefined) return searchStreams([few(keyStatement(search), [byteas(keyHashes)])], search)
  const claimed = few(fewStatement(search, "r.state = 'claimed'", 'claimed'))
  if (state === 'claimed') return searchStreams([claimed], search)
  const statement = settledStatement(search)
  const settled: Stream<RecordSummary> = (order) =>
    snapshot(
      order.withinMs,
      (session) => readStep<SummaryColumns, RecordSummary>(session, statement, valuesOf(search, order), order, {
        order: search.order, tie: 'id', toRow: toSummary
      })
    )
  return searchStreams(state === undefined ? [claimed, settled] : [settled], search)
}

/** $1 route, $2 state, $3 request id, $4 path or its beginning, $5 stage, $6 settled before (null: any). */
const CONDITIONS = `($1::text is null or r.route = $1) and ($2::text is null or r.state = $2) and ($3::text is null or r.request_id = $3)
     and ($4::text is null or r.path like $4) and ($5::text is null or r.unknown_stage = $5)
     and ($6::float8 is null or r.settled_at < to_timestamp($6::float8 / 1000))`

function valuesOf (search: RecordSearch, order: StepOrder): Values {
  const { route, state, requestId, path, stage, settledToMs } = search
  return [
    route ?? null,
    state ?? null,
    requestId ?? null,
    path === undefined ? null : likePath(path),
    stage ?? null,
    settledToMs ?? null,
    ...placeValues(search, order)
  ]
}

/** By the index of what few records have. */
function settledStatement ({ state, order }: RecordSearch): Statement {
  const isExceptional = state !== undefined && state !== 'completed'
  return stepStatement({
    name: `search_${isExceptional ? state : 'settled'}`,
    table: 'records',
    column: 'claimed_at',
    tie: 'id',
    where: isExceptional ? `r.state = '${state}'` : "r.state <> 'claimed'",
    conditions: CONDITIONS,
    columns: summaryColumns('r'),
    order
  })
}

/** All that match are sorted, so there must be few of them. */
function fewStatement ({ order }: RecordSearch, where: string, name: string, before = ''): Statement {
  const { where: behind, by } = behindPlace('claimed_at', order)
  return {
    name: `search_${name}_${order}`,
    writes: false,
    text: (schema) => `${before.replaceAll(':schema', schema)}select ${summaryColumns('r')}, ${exactTime('r.claimed_at')} as at
  from ${schema}.records r
 where ${where} and ${CONDITIONS} and ${behind}
 order by ${by}
 limit $11`
  }
}

/** The bucket of a time in the index records_key, as migration 0014 has it. */
function bucketOf (time: string): string {
  return `floor(date_part('epoch', ${time} at time zone 'UTC') / 600)::int`
}

/** In every ten minutes in which there are records. `offset 0`: each is looked up by itself, whatever the planner expects. */
function keyStatement (search: RecordSearch): Statement {
  const end = (direction: string): string =>
    `(select r.claimed_at from :schema.records r where r.state <> 'claimed' order by r.claimed_at ${direction} limit 1)`
  return fewStatement(search, 'r.id = any (array(select id from hits))', 'key', `with buckets as materialized (
  select generate_series(${bucketOf('min(o.claimed_at)')}, ${bucketOf('max(o.claimed_at)')}) as bucket
    from (${end('asc')} union all ${end('desc')}) o
), wanted as materialized (
  select b.bucket, k.hash, substring(k.hash, 1, 8) as beginning from buckets b cross join unnest($12::bytea[]) as k (hash)
), hits as materialized (
  select r.id from wanted w cross join lateral (
    select r.id from :schema.records r
     where (${bucketOf('r.claimed_at')}) = w.bucket and substring(r.key_hash, 1, 8) = w.beginning and r.state <> 'claimed' and r.key_hash = w.hash
    offset 0) r
  union
  select r.id from :schema.records r where r.state = 'claimed' and r.key_hash = any ($12::bytea[])
)
`)
}

async function readFew (session: Session, statement: Statement, values: Values, { wanted }: StepOrder): Promise<Step<RecordSummary>> {
  const found = (await session.run<SummaryColumns & { readonly at: string }>(statement, values)).map((row) =>
    ({ row: toSummary(row), position: { at: row.at, id: row.id } }))
  return { found, reached: found.length < wanted ? null : found.at(-1)?.position ?? null }
}
