/** What operators search in the inbox: open messages by route and state (messages_depth), ended ones by their time (messages_ended). */
import type { MessageSearch, MessageSummary, Page } from '../../ports/operator.ts'
import { searchStreams, StepTimeOver, type StepOrder, type Stream } from '../shared/search.ts'
import type { Connections } from './connections.ts'
import { summaryColumns, toSummary, type SummaryColumns } from './inbox-rows.ts'
import { CONDITIONS, filterValues, lastValues } from './message-filter.ts'
import { openParts, openStreams } from './open-messages.ts'
import { inSnapshot, placeValues, readStep, stepStatement, type Snapshot } from './search-step.ts'
import type { Values } from './statements.ts'

export async function searchMessages (connections: Connections, search: MessageSearch): Promise<Page<MessageSummary>> {
  return inSnapshot(connections, async (snapshot) => searchIn(snapshot, search))
}

async function searchIn (snapshot: Snapshot, search: MessageSearch): Promise<Page<MessageSummary>> {
  const { id, state } = search
  if (id !== undefined) return searchStreams([streamOf(snapshot, search, { name: 'id', where: 'r.id = $6::bytea', own: id })], search)
  const began = performance.now()
  const parts = await openParts(snapshot, search).catch((error: unknown) => {
    if (error instanceof StepTimeOver) return null
    throw error
  })
  if (parts === null) return { rows: [], next: search.after, isWhole: false }
  const hasEnded = state === undefined || state === 'delivered' || state === 'discarded'
  const ended = { name: 'ended', where: "r.state in ('delivered', 'discarded') and $6::bytea is null", own: null }
  const streams = [...openStreams(snapshot, search, parts), ...hasEnded ? [streamOf(snapshot, search, ended)] : []]
  return searchStreams(streams, { ...search, withinMs: search.withinMs - (performance.now() - began) })
}

/** `own`: the value of $6. */
interface Source { readonly name: string, readonly where: string, readonly own: Buffer | null }

function streamOf (snapshot: Snapshot, search: MessageSearch, { name, where, own }: Source): Stream<MessageSummary> {
  const statement = stepStatement({
    name: `message_search_${name}`,
    table: 'messages',
    column: 'received_at',
    tie: 'number',
    where,
    conditions: CONDITIONS,
    columns: summaryColumns('r'),
    order: search.order
  })
  const valuesOf = (order: StepOrder): Values => [...filterValues(search), own, ...placeValues(search, order)]
  return (order) => snapshot(order.withinMs, (session) =>
    readStep<SummaryColumns, MessageSummary>(session, statement, valuesOf(order), order, {
      order: search.order, tie: 'number', toRow: toSummary, more: lastValues(search)
    }))
}
