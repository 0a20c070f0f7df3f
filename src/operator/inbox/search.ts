/** Searches for messages, and one message. */
import { messageGroup } from '../../core/inbox/acceptance.ts'
import type { MessageDetail } from '../../core/inbox/message.ts'
import type { MessageSearch } from '../../ports/operator.ts'
import { INCOMPLETE } from '../shared/words.ts'
import { noteOfRoute, present, readCommon, type ReadFilter } from '../shared/filter.ts'
import type { OperatorContext } from '../shared/operators.ts'
import { badRequest, OperatorProblem, type Outcome } from '../shared/problem.ts'
import { cursorOf, ID_WANTED, nothingRead, readId, readPage } from '../shared/query.ts'
import type { MessageDetailJson, MessageFilterValues, MessageQueryValues, MessagesPageJson } from './schemas.ts'
import { deliveryJson, messageJson } from './view.ts'

export type MessageFilter = Omit<MessageSearch, 'order' | 'limit' | 'after' | 'withinMs'>

export async function readFilter (
  context: Pick<OperatorContext, 'stores'>,
  { state, group: value, ...common }: MessageFilterValues
): Promise<Outcome<ReadFilter<MessageFilter>>> {
  const { route } = common
  if (value !== undefined && route === undefined) return badRequest('A group is one of a route: give the route too.')
  const read = await readCommon(context, common)
  if (read instanceof OperatorProblem) return read
  const group = value === undefined || route === undefined ? undefined : messageGroup(route, value)
  return { ...read, filter: { ...read.filter, ...present({ state, group }) } }
}

export async function searchMessages (context: OperatorContext, query: MessageQueryValues): Promise<Outcome<MessagesPageJson>> {
  const { order, limit, cursor, ...values } = query
  const words = { of: 'messages', values, installation: context.stores.records.installation } as const
  const page = readPage(present({ order, limit, cursor }), words)
  if (page instanceof OperatorProblem) return page
  const read = await readFilter(context, values)
  if (read instanceof OperatorProblem) return read
  const found = await context.stores.operator.searchMessages({ ...read.filter, ...page })
  const stuck = nothingRead(found, page)
  if (stuck !== null) return stuck
  return {
    messages: found.rows.map(messageJson),
    next: cursorOf(found, page.order, words),
    whole: found.isWhole,
    notes: [...read.notes, ...noteOfRoute(context, values.route, found.rows.length), ...(found.isWhole ? [] : [INCOMPLETE])]
  }
}

export async function findMessage ({ stores }: OperatorContext, text: string): Promise<Outcome<MessageDetail>> {
  const id = readId(text)
  if (id === null) return badRequest(ID_WANTED)
  const [message] = await stores.inbox.list({ id, limit: 1 })
  return message ?? new OperatorProblem('not-found', 'There is no such message (any more).')
}

export async function showMessage (context: OperatorContext, text: string): Promise<Outcome<MessageDetailJson>> {
  const message = await findMessage(context, text)
  if (message instanceof OperatorProblem) return message
  return { ...messageJson(message), deliveries: (await context.stores.inbox.deliveries(message.id)).map(deliveryJson) }
}
