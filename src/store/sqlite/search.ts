/**
 * What operators search in the embedded store. Each search knows its index (migrations 0013, 0016): the states that few records have by
 * theirs, everything else from its newest or oldest row on, a key without reading the rows. A step reads a bounded number of rows or
 * entries, so other calls of the same thread wait some ten milliseconds at most.
 */
import type { MessageState } from '../../core/inbox/message.ts'
import type { AuditedState, AuditRow } from '../../core/record/audit.ts'
import { detailOf as recordDetailOf } from '../../core/protocol/row.ts'
import type {
  AuditSearch,
  GroupDepth,
  MessageSearch,
  MessageSummary,
  Order,
  Position,
  RecordSearch,
  RecordSummary,
  UnknownOutcomes
} from '../../ports/operator.ts'
import { boundOf, NUMBER_BYTES, NUMBER_ENDS, numberOfPlace, placeOf, placeOfNumber, stateAfter, type AuditKind } from '../shared/places.ts'
import type { Step, StepOrder } from '../shared/search.ts'
import { bytesOf, type Columns } from './columns.ts'
import { ANSWER_HEAD, summaryOf as messageSummaryOf } from './inbox-rows.ts'
import { STOPS_ITS_GROUP } from './inbox-statements.ts'
import { storedOf, SUMMARY_COLUMNS } from './table.ts'
import type { MessageStream } from './worker-protocol.ts'
import type { SQLInputValue, StatementSync } from 'node:sqlite'

type Prepare = (text: string) => StatementSync
type Named = Record<string, SQLInputValue>

interface Times { readonly nowMs: number, readonly overMs: number }

/** Of one table: what the index finds, and what each row is tested for. */
interface StepText {
  readonly table: string
  /** The time by which rows are sorted. */
  readonly column: string
  /** Of rows with the same time. Numbers are in the order of acceptance. */
  readonly tie: 'id' | 'number'
  readonly columns: string
  readonly where: string
  readonly conditions: string
}

export function recordStep (
  prepare: Prepare,
  search: RecordSearch,
  from: 'claimed' | 'settled',
  order: StepOrder,
  { nowMs, overMs }: Times
): Step<RecordSummary> {
  const { id, keyHashes, route, state, requestId, path, stage, settledToMs } = search
  const isKey = keyHashes !== undefined && id === undefined && from === 'settled'
  const values: Named = {
    ...placeValues(search, order),
    ...(isKey && { size: order.size * ENTRIES_OF_A_ROW }),
    hashes: hashesOf(search),
    ...(id !== undefined && { id }),
    route: route ?? null,
    state: state ?? null,
    request: requestId ?? null,
    ...pathValues(path),
    stage: stage ?? null,
    settled: settledToMs ?? null
  }
  const text: StepText = {
    table: 'records',
    column: 'claimed_at',
    tie: 'id',
    columns: SUMMARY_COLUMNS,
    where: recordsFrom(search, from),
    conditions: `${isKey ? KEY_BEGINS : 'true'} and ${RECORD_CONDITIONS}`
  }
  return step(prepare, text, search.order, values, order.wanted, (columns) => summaryOf(columns, nowMs, overMs))
}

const PATH = '($path is null or r.path = $path) and ($prefix is null or substr(r.path, 1, length($prefix)) = $prefix)'

const RECORD_CONDITIONS = `($route is null or r.route = $route) and ($state is null or r.state = $state) and ($request is null or r.request_id = $request)
   and ${PATH} and ($stage is null or r.unknown_stage = $stage) and ($settled is null or r.settled_at < $settled)
   and ($hashes is null or r.key_hash in (select unhex(value) from json_each($hashes)))`

/** From the index, before a row is read (migration 0016). */
const KEY_BEGINS = 'substr(r.key_hash, 1, 4) in (select substr(unhex(value), 1, 4) from json_each($hashes))'

/** For each row that a step may look at. A million entries take a quarter of a second. */
const ENTRIES_OF_A_ROW = 8

function recordsFrom ({ id, state, keyHashes }: RecordSearch, from: 'claimed' | 'settled'): string {
  if (id !== undefined) return 'r.id = $id'
  if (from === 'claimed') return "r.state = 'claimed'"
  return state === undefined || state === 'completed' || keyHashes !== undefined ? "r.state <> 'claimed'" : `r.state = '${state}'`
}

/** JSON, in hexadecimal digits. */
function hashesOf ({ keyHashes }: Pick<RecordSearch, 'keyHashes'>): string | null {
  return keyHashes === undefined ? null : JSON.stringify(keyHashes.map((each) => Buffer.from(each).toString('hex')))
}

function summaryOf (columns: Columns, nowMs: number, overMs: number): RecordSummary {
  const bodyBytes = columns.body_bytes as number | null
  const { headers, body, ...summary } = recordDetailOf(
    storedOf({ ...columns, body: bodyBytes === null ? null : NO_BYTES, question: columns.has_question === 1 ? NO_BYTES : null }),
    nowMs,
    overMs
  )
  return { ...summary, bodyBytes }
}

const NO_BYTES = new Uint8Array(0)

export function messageStep (
  prepare: Prepare,
  search: MessageSearch,
  stream: MessageStream,
  order: StepOrder,
  { overMs }: Times
): Step<MessageSummary> {
  const { id, route, state, group, requestId, path, settledToMs } = search
  const values: Named = {
    ...placeValues(search, order),
    route: route ?? null,
    state: state ?? null,
    request: requestId ?? null,
    group: group ?? null,
    ...pathValues(path),
    hashes: hashesOf(search),
    over: overMs,
    settled: settledToMs ?? null,
    ...(id !== undefined && { id }),
    ...(id === undefined && stream !== 'ended' && { of: stream.route })
  }
  const where = id !== undefined
    ? 'r.id = $id'
    : stream === 'ended' ? "r.state in ('delivered', 'discarded')" : `r.route = $of and r.state = '${stream.state}' and ${IS_OPEN}`
  const text: StepText = {
    table: 'messages',
    column: 'received_at',
    tie: 'number',
    columns: MESSAGE_COLUMNS,
    where,
    conditions: MESSAGE_CONDITIONS
  }
  return step(prepare, text, search.order, values, order.wanted, messageSummaryOf)
}

/** As the index of open messages has it (migration 0005): SQLite draws no conclusions from a state, and would read all messages. */
const IS_OPEN = "r.state <> 'delivered' and r.state <> 'discarded'"

/** Without the request and the body of the answer, which may be large. */
const MESSAGE_COLUMNS = `${[
  'id', 'state', 'fp_alg', 'fingerprint', 'scope_hash', 'group_id', 'blocks', 'attempt', 'tries', 'route', 'method', 'path', 'request_id',
  'instance', 'key_hash', 'key_text', 'bytes', 'received_at', 'due_at', 'settled_at', 'expires_at', 'request_until',
  'replayed_at', 'status', 'error'
].map((column) => `r.${column}`).join(', ')}, length(r.answer) as answer_bytes, ${ANSWER_HEAD} as answer_head`

const MESSAGE_CONDITIONS = `($route is null or r.route = $route) and ($state is null or r.state = $state) and ($request is null or r.request_id = $request)
   and ${PATH} and ($hashes is null or hex(r.key_hash) in (select upper(value) from json_each($hashes)))
   and (r.expires_at is null or r.expires_at > $over or ${STOPS_ITS_GROUP})
   and ($settled is null or max(r.received_at, coalesce(r.retried_at, 0), coalesce(r.replayed_at, 0), coalesce(r.settled_at, 0)) < $settled)
   and ($group is null or r.group_id = $group)`

/** Those of open messages. One entry of the index is read for each. */
export function openRoutes (prepare: Prepare): string[] {
  const next = prepare(`select r.route from messages r where ${IS_OPEN} and r.route > ? order by r.route limit 1`)
  const routes: string[] = []
  for (let found = next.get(''); found !== undefined; found = next.get(found.route ?? '')) routes.push(String(found.route))
  return routes
}

/** The most open messages first. A message that no longer blocks its group has ended. */
export function messageGroups (prepare: Prepare, route: string, limit: number, nowMs: number): GroupDepth[] {
  const rows = prepare(`select group_id, count(*) as open, min(number) as first, min(received_at) as oldest from messages
 where route = $route and blocks and group_id is not null group by group_id order by open desc, first limit $limit`).all({ route, limit })
  const first = prepare('select id, state from messages where number = ?')
  return rows.map((row) => {
    const { id, state } = first.get(row.first as number) as Columns
    return {
      group: bytesOf(row.group_id),
      open: row.open as number,
      oldestMs: nowMs - (row.oldest as number),
      first: { id: bytesOf(id), state: state as MessageState }
    }
  })
}

const [HOUR_MS, DAY_MS, WEEK_MS] = [3_600_000, 86_400_000, 604_800_000]

export function unknownByRoute (prepare: Prepare, nowMs: number): UnknownOutcomes[] {
  const rows = prepare(`select route, count(*) as count, min(settled_at) as oldest, sum(settled_at > $hour) as hours,
       sum(settled_at > $day) as days, sum(settled_at > $week) as weeks from records where state = 'indeterminate' group by route order by route`)
    .all({ hour: nowMs - HOUR_MS, day: nowMs - DAY_MS, week: nowMs - WEEK_MS }) as unknown as UnknownRow[]
  return rows.map(({ route, count, oldest, hours, days, weeks }) =>
    ({ route, count, oldestMs: oldest, ages: [hours, days - hours, weeks - days, count - weeks] }))
}

/** Younger than an hour, a day, a week: each includes those before it. */
interface UnknownRow { route: string, count: number, oldest: number, hours: number, days: number, weeks: number }

function pathValues (path: string | undefined): Named {
  const isPrefix = path?.endsWith('*') === true
  return { path: path === undefined || isPrefix ? null : path, prefix: isPrefix ? path.slice(0, -1) : null }
}

/** The id of a record, or the number of a message. */
function tieOf ({ id }: Position): SQLInputValue {
  return id.length === NUMBER_BYTES ? numberOfPlace(id) : id
}

/** Between `low` and `high` the index is read, from the place on. */
function placeValues ({ fromMs, toMs, order }: Pick<RecordSearch, 'fromMs' | 'toMs' | 'order'>, { from, size }: StepOrder): Named {
  const at = from === null ? null : Number(from.at)
  return {
    at,
    after: from === null ? null : tieOf(from),
    low: Math.max(fromMs ?? 0, order === 'oldest' ? at ?? 0 : 0),
    high: Math.min(toMs ?? Number.MAX_SAFE_INTEGER, order === 'newest' ? at ?? Number.MAX_SAFE_INTEGER : Number.MAX_SAFE_INTEGER),
    to: toMs ?? null,
    size
  }
}

/** Looks at `size` rows behind the place, and at all of the same time as the last of them. Reads those that match. */
function step<Row> (
  prepare: Prepare,
  { table, column, tie, columns, where, conditions }: StepText,
  order: Order,
  { size, ...values }: Named,
  wanted: number,
  toRow: (columns: Columns) => Row
): Step<Row> {
  const [before, direction] = order === 'newest' ? ['<', 'desc'] : ['>', 'asc']
  const range = `${where} and r.${column} between $low and $high`
  const skip = prepare(`select r.${column} as at from ${table} r where ${range} order by r.${column} ${direction} limit 1 offset $size`)
  skip.setAllowUnknownNamedParameters(true)
  const edge = skip.get({ ...values, size: size ?? 0 })?.at
  const hits = prepare(`select ${columns}, r.${tie} as tie, r.${column} as at from ${table} r
 where ${range} and ${conditions} and ($at is null or r.${column} <> $at or r.${tie} ${before} $after) and ($to is null or r.${column} < $to)
 order by r.${column} ${direction}, r.${tie} ${direction} limit $wanted`)
    .all({ ...values, wanted, ...(edge !== undefined && { [order === 'newest' ? 'low' : 'high']: edge }) })
  const found = hits.map((hit) => ({ row: toRow(hit), position: positionOf(hit) }))
  if (hits.length === wanted) return { found, reached: found.at(-1)?.position ?? null }
  return { found, reached: edge === undefined ? null : { at: String(edge), id: ENDS[tie][order] } }
}

/** Behind all rows of one time. */
const ENDS: Readonly<Record<StepText['tie'], Readonly<Record<Order, Buffer>>>> = {
  id: { newest: Buffer.alloc(32), oldest: Buffer.alloc(32, 0xff) },
  number: NUMBER_ENDS
}

function positionOf ({ at, tie }: Columns): Position {
  return { at: String(at), id: typeof tie === 'number' ? placeOfNumber(tie) : bytesOf(tie) }
}

const AUDIT_TEXT: Readonly<Record<AuditKind, Pick<StepText, 'table' | 'columns'> & { readonly id: string }>> = {
  records: {
    table: 'audit',
    id: 'r.record_id',
    columns: `r.at, r.number, r.action, r.record_id as id, r.owner, r.attempt, r.route, r.request_id, r.state_after as state, r.who, r.via, r.why,
 r.before, r.after`
  },
  messages: {
    table: 'message_audit',
    id: 'r.message_id',
    columns: `r.at, r.number, r.action, r.message_id as id, null as owner, r.attempt, r.route, r.request_id, r.state, r.who, r.via, r.why,
 r.before, r.after`
  }
}

const AUDIT_CONDITIONS = '($route is null or r.route = $route) and ($who is null or r.who = $who) and ($action is null or r.action = $action)'

/** By the index of the record or the message, or by time. Both tables have both indexes (migration 0012). */
export function auditStep (prepare: Prepare, search: AuditSearch, kind: AuditKind, order: StepOrder): Step<AuditRow> {
  const { id, route, who, action } = search
  const from = order.from === null ? null : { at: order.from.at, id: placeOfNumber(boundOf(order.from, kind)) }
  const values: Named = {
    ...placeValues(search, { ...order, from }),
    ...(id !== undefined && { id }),
    route: route ?? null,
    who: who ?? null,
    action: action ?? null
  }
  const { id: column, ...text } = AUDIT_TEXT[kind]
  const where = id === undefined ? 'true' : `${column} = $id`
  const { found, reached } = step(
    prepare,
    { ...text, column: 'at', tie: 'number', where, conditions: AUDIT_CONDITIONS },
    search.order,
    values,
    order.wanted,
    (columns) => auditOf(columns, kind)
  )
  return {
    found: found.map(({ row, position }) => ({ row, position: auditPlace(position, kind) })),
    reached: reached === null ? null : auditPlace(reached, kind)
  }
}

/** In the list of both audits. */
function auditPlace ({ at, id }: Position, kind: AuditKind): Position {
  return { at, id: placeOf(kind, numberOfPlace(id)) }
}

function auditOf (columns: Columns, kind: AuditKind): AuditRow {
  const id = columns.id === null ? null : bytesOf(columns.id)
  const after = stateOf(columns.after as string | null)
  return {
    atMs: columns.at as number,
    number: String(columns.number),
    about: kind === 'records' ? 'record' : id === null ? 'route' : 'message',
    action: columns.action as AuditRow['action'],
    id,
    owner: columns.owner === null ? null : bytesOf(columns.owner),
    attempt: columns.attempt as number | null,
    route: columns.route as string,
    requestId: columns.request_id as string | null,
    state: stateAfter({ state: columns.state as string, after }),
    who: columns.who as string,
    via: columns.via as string | null,
    why: columns.why as string,
    before: stateOf(columns.before as string | null),
    after
  }
}

function stateOf (text: string | null): AuditedState | null {
  return text === null ? null : JSON.parse(text) as AuditedState
}
