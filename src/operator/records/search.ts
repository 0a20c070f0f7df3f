/** Searches for records, and one record. */
import type { RecordDetail } from '../../core/record/record.ts'
import type { RecordSearch } from '../../ports/operator.ts'
import { noteOfRoute, present, readCommon, type ReadFilter } from '../shared/filter.ts'
import type { OperatorContext } from '../shared/operators.ts'
import { badRequest, OperatorProblem, type Outcome } from '../shared/problem.ts'
import { cursorOf, ID_WANTED, nothingRead, readId, readPage } from '../shared/query.ts'
import { INCOMPLETE } from '../shared/words.ts'
import type { AnswerJson, RecordFilterValues, RecordJson, RecordQueryValues, RecordsPageJson } from './schemas.ts'
import { historyByHand } from './by-hand.ts'
import { answerJson, recordJson, summaryJson } from './view.ts'

export type RecordFilter = Omit<RecordSearch, 'order' | 'limit' | 'after' | 'withinMs'>

/** @throws as the store does */
export async function readFilter (
  context: Pick<OperatorContext, 'stores'>,
  { state, stage, ...common }: RecordFilterValues
): Promise<Outcome<ReadFilter<RecordFilter>>> {
  const read = await readCommon(context, common)
  return read instanceof OperatorProblem ? read : { ...read, filter: { ...read.filter, ...present({ state, stage }) } }
}

export async function searchRecords (context: OperatorContext, query: RecordQueryValues): Promise<Outcome<RecordsPageJson>> {
  const { order, limit, cursor, ...filterValues } = query
  const words = { of: 'records', values: filterValues, installation: context.stores.records.installation } as const
  const page = readPage(present({ order, limit, cursor }), words)
  if (page instanceof OperatorProblem) return page
  const read = await readFilter(context, filterValues)
  if (read instanceof OperatorProblem) return read
  const found = await context.stores.operator.searchRecords({ ...read.filter, ...page })
  const stuck = nothingRead(found, page)
  if (stuck !== null) return stuck
  return {
    records: found.rows.map(summaryJson),
    next: cursorOf(found, page.order, words),
    whole: found.isWhole,
    notes: [...read.notes, ...noteOfRoute(context, filterValues.route, found.rows.length), ...(found.isWhole ? [] : [INCOMPLETE])]
  }
}

export async function findRecord ({ stores }: OperatorContext, idText: string): Promise<Outcome<RecordDetail>> {
  const id = readId(idText)
  if (id === null) return badRequest(ID_WANTED)
  const [record] = await stores.records.list({ id, limit: 1 })
  return record ?? new OperatorProblem('not-found', 'There is no such record (any more).')
}

export async function showRecord (context: OperatorContext, id: string): Promise<Outcome<RecordJson>> {
  const record = await findRecord(context, id)
  if (record instanceof OperatorProblem) return record
  const shown = recordJson(record, await context.stores.operator.nowMs(), context)
  return { ...shown, history: await historyByHand(context, record, shown.history) }
}

export async function showAnswer (context: OperatorContext, id: string): Promise<Outcome<AnswerJson>> {
  const record = await findRecord(context, id)
  if (record instanceof OperatorProblem) return record
  return answerJson(record) ?? new OperatorProblem('not-found', record.state === 'completed'
    ? 'The stored answer cannot be read.'
    : `There is no stored answer: the record is ${record.state}.`)
}
