/** One change of many records: first they are counted, then changed step by step. */
import { Type } from 'typebox'
import type { Static } from 'typebox'
import { may } from '../../core/operator/roles.ts'
import type { Identity } from '../../core/operator/roles.ts'
import { filterOf, noteOfRoute, present, writtenFilter, type WrittenFilter } from '../shared/filter.ts'
import type { OperatorContext } from '../shared/operators.ts'
import { badRequest, OperatorProblem, type Outcome } from '../shared/problem.ts'
import { cursorOf, nothingRead, readPage, SEARCH_WITHIN_MS, timeText } from '../shared/query.ts'
import { closed, Id, Nullable, Reason, Time } from '../shared/schema-words.ts'
import { changeEach, count, readToken, STEP_ROWS, tokenOf } from '../shared/selection.ts'
import { applyChange, type RecordChange } from './changes.ts'
import { RecordFilterQuery, RecordSummaryView, ResolveBody, type RecordFilterValues } from './schemas.ts'
import { readFilter, type RecordFilter } from './search.ts'
import { summaryJson } from './view.ts'

export const SelectionBody = Type.Object({ ...RecordFilterQuery.properties }, closed)

export const SelectionView = Type.Object({
  count: Type.Integer({ description: 'So many match now.' }),
  sample: Type.Array(RecordSummaryView, { description: 'Some of them, the oldest first.' }),
  token: Type.String({ description: 'Names what was counted. For the change.' }),
  expiresAt: Time,
  notes: Type.Array(Type.String())
}, closed)

const { owner: _owner, attempt: _attempt, ...Answered } = ResolveBody.properties

export const BulkBody = Type.Object({
  ...Type.Partial(Type.Object(Answered)).properties,
  token: Type.String({ maxLength: 8192 }),
  action: Type.Enum(['resolve', 'release', 'delete', 'probe']),
  reason: Reason,
  cursor: Type.Optional(Type.String({ maxLength: 512, description: '`next` of the step before. Absent: the first step.' }))
}, closed)

export const StepView = Type.Object({
  counted: Type.Integer({ description: 'What the selection counted.' }),
  changed: Type.Integer({ description: 'In this step.' }),
  refused: Type.Array(Type.Object({ id: Id, detail: Type.String() }, closed), {
    description: 'In this step: what had changed, and what the change would be a mistake for.'
  }),
  next: Nullable(Type.String({ description: 'Cursor of the next step. null: everything is done.' }))
}, closed)

export type SelectionJson = Static<typeof SelectionView>
export type BulkValues = Static<typeof BulkBody>
export type StepJson = Static<typeof StepView>

export async function selectRecords (
  context: OperatorContext,
  identity: Identity,
  values: RecordFilterValues
): Promise<Outcome<SelectionJson>> {
  const { operator, records } = context.stores
  if (values.state === undefined || values.state === 'claimed') {
    return badRequest('A selection needs a state: indeterminate, completed, consumed or released.')
  }
  const asOfMs = await operator.nowMs()
  const read = await readFilter(context, values)
  if (read instanceof OperatorProblem) return read
  const filter: RecordFilter = { ...read.filter, settledToMs: asOfMs }
  const counted = await count(
    (after, limit, withinMs) => operator.searchRecords({ ...filter, order: 'oldest', limit, after, withinMs }),
    SEARCH_WITHIN_MS
  )
  if (counted instanceof OperatorProblem) return counted
  const { token, expiresAtMs } = tokenOf(
    {
      kind: 'records',
      filter: writtenFilter(filter),
      asOfMs,
      count: counted.count,
      who: identity.name,
      installation: records.installation
    },
    context.signingKey
  )
  const notes = [...read.notes, ...noteOfRoute(context, values.route, counted.count)]
  return { count: counted.count, sample: counted.sample.map(summaryJson), token, expiresAt: timeText(expiresAtMs), notes }
}

/** One step. The caller goes on with `next`, or stops. */
export async function changeRecords (context: OperatorContext, identity: Identity, values: BulkValues): Promise<Outcome<StepJson>> {
  const { operator } = context.stores
  if (values.action === 'delete' && !may(identity.role, 'admin')) {
    return new OperatorProblem('forbidden', 'Deleting many records needs the role admin.')
  }
  const change = changeOf(values)
  if (change instanceof OperatorProblem) return change
  const reader = { nowMs: await operator.nowMs(), who: identity.name, installation: context.stores.records.installation }
  const selection = readToken<WrittenFilter<RecordFilter>>(values.token, 'records', context.signingKey, reader)
  if (selection instanceof OperatorProblem) return selection
  const words = { of: 'selection', values: { token: values.token }, installation: selection.installation } as const
  const page = readPage({ order: 'oldest', limit: STEP_ROWS, ...present({ cursor: values.cursor }) }, words)
  if (page instanceof OperatorProblem) return page
  const found = await operator.searchRecords({ ...filterOf<RecordFilter>(selection.filter), ...page })
  const stuck = nothingRead(found, page)
  if (stuck !== null) return stuck
  const done = await changeEach(found.rows, { isFirst: page.after === null, isLast: found.next === null }, (record) => {
    const { owner, attempt } = record
    return applyChange(context, identity, record, { change, token: { owner, attempt }, why: values.reason })
  })
  if (done instanceof OperatorProblem) return done
  return { counted: selection.count, changed: done.changed, refused: [...done.refused], next: cursorOf(found, 'oldest', words) }
}

function changeOf ({ action, status, headers, body, encoding, statusOnly, unusual, retention }: BulkValues): Outcome<RecordChange> {
  const kept = present({ retention })
  // What has a default says nothing.
  const answer = present({ status, headers, body, retention: action === 'release' ? undefined : retention })
  const [foreign] = action === 'resolve' ? [] : Object.keys(answer)
  if (foreign !== undefined) return badRequest(`${foreign} is of the action resolve, and this is ${action}. Nothing was changed.`)
  if (action === 'release') return { action, ...kept }
  if (action !== 'resolve') return { action }
  if (status === undefined) return badRequest('To resolve, give the status that the upstream answered.')
  return { action, ...kept, answer: { status, ...present({ headers, body, encoding, statusOnly, unusual }) } }
}
