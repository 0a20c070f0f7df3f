/** Changes of messages by an operator: retry, discard and replay, one or many. Each leaves an audit row. */
import { inboxesOf } from '../../core/inbox/targets.ts'
import type { MessageDetail } from '../../core/inbox/message.ts'
import { may } from '../../core/operator/roles.ts'
import type { Identity } from '../../core/operator/roles.ts'
import { filterOf, noteOfRoute, present, writtenFilter, type WrittenFilter } from '../shared/filter.ts'
import type { OperatorContext } from '../shared/operators.ts'
import { badRequest, OperatorProblem, type Outcome } from '../shared/problem.ts'
import { cursorOf, ID_WANTED, nothingRead, readId, readPage, SEARCH_WITHIN_MS, timeText } from '../shared/query.ts'
import { changeEach, count, readToken, STEP_ROWS, tokenOf } from '../shared/selection.ts'
import type {
  ChangedMessageJson, MessageBulkValues, MessageChangeValues, MessageFilterValues, MessageSelectionJson, MessageStepJson
} from './schemas.ts'
import { readFilter, type MessageFilter } from './search.ts'
import { messageJson } from './view.ts'

/** States in which a message can be retried or discarded. */
const OPEN_STATES: readonly string[] = ['waiting', 'held', 'dead']
/** States that can be selected. What is delivered can only be replayed. */
const SELECTABLE: readonly string[] = [...OPEN_STATES, 'delivered']

const DONE = {
  retry: 'It waits again, with its full number of attempts.',
  discard: 'It is discarded, and never delivered.',
  replay: 'It waits, and is delivered once more.'
} as const

export type MessageChange = keyof typeof DONE

export async function changeMessage (
  context: OperatorContext,
  identity: Identity,
  action: MessageChange,
  idText: string,
  { state, attempt, reason }: MessageChangeValues
): Promise<Outcome<ChangedMessageJson>> {
  const id = readId(idText)
  if (id === null) return badRequest(ID_WANTED)
  const after = await applyChange(context, identity, action, { id, state, attempt }, reason)
  return after instanceof OperatorProblem ? after : { done: DONE[action], message: messageJson(after) }
}

/** A compare-and-set: what has gone on since it was shown is left alone. */
async function applyChange (
  { stores: { inbox } }: OperatorContext,
  { name, via }: Identity,
  action: MessageChange,
  { id, state, attempt }: Pick<MessageDetail, 'id' | 'state' | 'attempt'>,
  why: string
): Promise<Outcome<MessageDetail>> {
  const audit = { who: name, via, why }
  const [after] = await inbox[action]({ id, state, attempt, limit: 1 }, audit)
  if (after !== undefined) return after
  const [found] = await inbox.list({ id, limit: 1 })
  if (found === undefined) return new OperatorProblem('not-found', 'There is no such message (any more).')
  const now = { state: found.state, attempt: found.attempt }
  return now.state === state && now.attempt === attempt
    ? new OperatorProblem('refused', refusalOf(action, found), { now })
    : new OperatorProblem(
      'changed',
      `It has changed since it was shown, and nothing was changed now. It is ${now.state}, and delivery ${now.attempt} was its last. Look at it again.`,
      { now }
    )
}

function refusalOf (action: MessageChange, { state }: MessageDetail): string {
  if (action !== 'replay') return `Only a message that is waiting, held or dead can be changed. It is ${state} now.`
  if (state !== 'delivered') return `Only a delivered message can be replayed. It is ${state} now.`
  return 'The request of this message is gone, so it cannot be replayed. It was not kept (inbox.keepDelivered), its time is over, or it ' +
    'was beyond the bounds of the route (inbox.maxKept, inbox.maxKeptBytes).'
}

export async function selectMessages (
  context: OperatorContext,
  identity: Identity,
  values: MessageFilterValues
): Promise<Outcome<MessageSelectionJson>> {
  const { operator, records } = context.stores
  if (values.state === undefined || !SELECTABLE.includes(values.state)) {
    return badRequest(`A selection needs a state: ${SELECTABLE.join(', ')}.`)
  }
  const asOfMs = await operator.nowMs()
  const read = await readFilter(context, values)
  if (read instanceof OperatorProblem) return read
  const filter: MessageFilter = { ...read.filter, toMs: Math.min(read.filter.toMs ?? asOfMs, asOfMs), settledToMs: asOfMs }
  const counted = await count(
    (after, limit, withinMs) => operator.searchMessages({ ...filter, order: 'oldest', limit, after, withinMs }),
    SEARCH_WITHIN_MS
  )
  if (counted instanceof OperatorProblem) return counted
  const { token, expiresAtMs } = tokenOf(
    {
      kind: 'messages',
      filter: writtenFilter(filter),
      asOfMs,
      count: counted.count,
      who: identity.name,
      installation: records.installation
    },
    context.signingKey
  )
  const notes = [...read.notes, ...noteOfRoute(context, values.route, counted.count)]
  return { count: counted.count, sample: counted.sample.map(messageJson), token, expiresAt: timeText(expiresAtMs), notes }
}

/** One step. The caller goes on with `next`, or stops. */
export async function changeMessages (
  context: OperatorContext,
  identity: Identity,
  values: MessageBulkValues
): Promise<Outcome<MessageStepJson>> {
  const { operator } = context.stores
  if (values.action === 'discard' && !may(identity.role, 'admin')) {
    return new OperatorProblem('forbidden', 'Discarding many messages needs the role admin.')
  }
  const reader = { nowMs: await operator.nowMs(), who: identity.name, installation: context.stores.records.installation }
  const selection = readToken<WrittenFilter<MessageFilter>>(values.token, 'messages', context.signingKey, reader)
  if (selection instanceof OperatorProblem) return selection
  const { state = '', route } = filterOf<MessageFilter>(selection.filter)
  if ((values.action === 'replay') !== (state === 'delivered')) {
    return badRequest(`The selection is of messages that are ${state}. ${values.action === 'replay' ? 'Only delivered ones can be replayed.' : 'Delivered ones can only be replayed.'}`)
  }
  const full = values.action === 'replay' ? await noRoom(context, route) : null
  if (full !== null) return full
  const words = { of: 'selection', values: { token: values.token }, installation: selection.installation } as const
  const page = readPage({ order: 'oldest', limit: STEP_ROWS, ...present({ cursor: values.cursor }) }, words)
  if (page instanceof OperatorProblem) return page
  const found = await operator.searchMessages({ ...filterOf<MessageFilter>(selection.filter), ...page })
  const stuck = nothingRead(found, page)
  if (stuck !== null) return stuck
  const done = await changeEach(found.rows, { isFirst: page.after === null, isLast: found.next === null }, (message) =>
    applyChange(context, identity, values.action, message, values.reason))
  if (done instanceof OperatorProblem) return done
  return { counted: selection.count, changed: done.changed, refused: [...done.refused], next: cursorOf(found, 'oldest', words) }
}

/** So much of a route's bounds may be open messages when a step of replays begins. The rest is for what senders send. */
const REPLAY_SHARE = 1 / 2

/** A replayed message counts in the bounds of its route again. `route`: of the selection. null: there is room. */
async function noRoom ({ stores, config }: OperatorContext, route: string | undefined): Promise<OperatorProblem | null> {
  const depths = await stores.inbox.depths()
  for (const { name, idempotency: { inbox: bounds } } of inboxesOf(config.routes)) {
    const depth = depths.find((each) => each.route === name)
    if (depth === undefined || (route !== undefined && route !== name)) continue
    const open = depth.waiting + depth.delivering + depth.held
    if (open < bounds.depthMax * REPLAY_SHARE && depth.bytes - depth.deadBytes < bounds.bytesMax * REPLAY_SHARE) continue
    return new OperatorProblem(
      'refused',
      `The inbox of ${name} is half full: ${open} messages wait. Senders need the rest. Go on from here when some are delivered.`
    )
  }
  return null
}
