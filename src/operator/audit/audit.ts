/** Who changed what by hand. Rows are only read here: no operation changes one. */
import { Type } from 'typebox'
import type { Static } from 'typebox'
import { MESSAGE_ACTIONS, RECORD_ACTIONS } from '../../core/record/audit.ts'
import type { AuditedState, AuditRow } from '../../core/record/audit.ts'
import type { OperatorContext } from '../shared/operators.ts'
import { noteOfRoute, present, readCommon } from '../shared/filter.ts'
import { OperatorProblem, type Outcome } from '../shared/problem.ts'
import { cursorOf, nothingRead, readPage, timeText } from '../shared/query.ts'
import { INCOMPLETE } from '../shared/words.ts'
import { closed, Id, Nullable, PageMembers, PageQuery, Time, TimeQuery } from '../shared/schema-words.ts'

export const AuditQuery = Type.Object({
  id: Type.Optional(Id),
  route: Type.Optional(Type.String({ maxLength: 1024 })),
  who: Type.Optional(Type.String({ maxLength: 512 })),
  action: Type.Optional(Type.Enum([...RECORD_ACTIONS, ...MESSAGE_ACTIONS])),
  ...TimeQuery,
  ...PageQuery
}, closed)

const State = Nullable(Type.Record(Type.String(), Type.Union([Type.String(), Type.Number()]), {
  description: 'null: a release of before wrote the row.'
}))

export const AuditView = Type.Object({
  entryId: Type.String({ description: 'Unique among all entries: the table and the number in it.' }),
  number: Type.String({ description: 'Records have numbers of their own. Messages and routes share theirs.' }),
  at: Time,
  about: Type.Enum(['record', 'message', 'route']),
  action: Type.Enum([...RECORD_ACTIONS, ...MESSAGE_ACTIONS]),
  id: Nullable(Id),
  owner: Nullable(Type.String()),
  attempt: Nullable(Type.Integer()),
  route: Type.String(),
  requestId: Nullable(Type.String()),
  state: Type.String({ description: 'After the change.' }),
  who: Type.String({ description: 'The identity that was signed in.' }),
  via: Nullable(
    Type.String(
      { description: 'How it was recognised: token, oidc, proxy, or cli for a command on a machine with the database credentials.' }
    )
  ),
  why: Type.String(),
  before: State,
  after: State
}, closed)

export const AuditPage = Type.Object({ entries: Type.Array(AuditView), ...PageMembers }, closed)

export type AuditQueryValues = Static<typeof AuditQuery>
export type AuditJson = Static<typeof AuditView>
export type AuditPageJson = Static<typeof AuditPage>

export async function searchAudit (context: OperatorContext, query: AuditQueryValues): Promise<Outcome<AuditPageJson>> {
  const { order, limit, cursor, who, action, ...common } = query
  const words = { of: 'audit', values: { who, action, ...common }, installation: context.stores.records.installation } as const
  const page = readPage(present({ order, limit, cursor }), words)
  if (page instanceof OperatorProblem) return page
  const read = await readCommon(context, common)
  if (read instanceof OperatorProblem) return read
  const found = await context.stores.operator.searchAudit({ ...read.filter, ...present({ who, action }), ...page })
  const stuck = nothingRead(found, page)
  if (stuck !== null) return stuck
  return {
    entries: found.rows.map(auditJson),
    next: cursorOf(found, page.order, words),
    whole: found.isWhole,
    notes: [...read.notes, ...noteOfRoute(context, common.route, found.rows.length), ...(found.isWhole ? [] : [INCOMPLETE])]
  }
}

function auditJson ({ atMs, id, owner, before, after, ...row }: AuditRow): AuditJson {
  return {
    entryId: `${row.about === 'record' ? 'records' : 'messages'}/${row.number}`,
    ...row,
    at: timeText(atMs),
    id: id === null ? null : id.toString('base64url'),
    owner: owner === null ? null : owner.toString('hex'),
    before: stateJson(before),
    after: stateJson(after)
  }
}

/** Times as every other time here. */
function stateJson (state: AuditedState | null): AuditJson['before'] {
  return state === null
    ? null
    : Object.fromEntries(Object.entries(state).map(([name, value]) =>
      name.endsWith('Ms') && typeof value === 'number' ? [name.slice(0, -'Ms'.length), timeText(value)] : [name, value]))
}
