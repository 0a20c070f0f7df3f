/**
 * `onceway inbox`: lists messages, retries or discards those that are not in flight, and replays those that were delivered. A change is for
 * one id or for all that a filter finds. Every change leaves an audit row.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { MessageState } from '../core/inbox/message.ts'
import { parseDuration } from '../config/read/units.ts'
import type { MessageBulkValues, MessageDetailJson, MessageFilterValues, MessageJson, MessageStepJson } from '../operator/inbox/schemas.ts'
import { OperatorProblem } from '../operator/shared/problem.ts'
import type { Outcome } from '../operator/shared/problem.ts'
import { StartError } from '../ports/errors.ts'
import { CONFIG_OPTIONS, requiredOption, textOption, LARGER_LIMIT, whoAndWhy, integerOption } from './command.ts'
import type { Command, Subcommand } from './command.ts'
import { MESSAGE_HEADINGS, messageCells, messageLines, readMessageState, stateText } from './message-text.ts'
import { listed, must, REMOTE_HELP, REMOTE_OPTIONS } from './operators.ts'
import type { OpenFor } from './operators.ts'
import { readId } from './record-text.ts'
import { nowOf, runSubcommand, printRows } from './subcommands.ts'
import type { CommandContext } from './subcommands.ts'

const LIST_DEFAULT = 50
/** Most messages that one command changes. The same command again changes the rest. */
const BULK_DEFAULT = 1_000
const LIMIT_MAX = 10_000

const OPTIONS = {
  ...CONFIG_OPTIONS,
  ...REMOTE_OPTIONS,
  key: { type: 'string' },
  route: { type: 'string' },
  group: { type: 'string' },
  state: { type: 'string' },
  'older-than': { type: 'string' },
  from: { type: 'string' },
  to: { type: 'string' },
  limit: { type: 'string' },
  all: { type: 'boolean' },
  json: { type: 'boolean' },
  who: { type: 'string' },
  why: { type: 'string' }
} as const

/** A change of messages that are not being delivered. */
interface Change {
  readonly name: 'retry' | 'discard' | 'replay'
  readonly one: 'retryMessage' | 'discardMessage' | 'replayMessage'
  readonly done: string
  /** States in which a message can be changed so. */
  readonly states: readonly MessageState[]
}

const OPEN_STATES: readonly MessageState[] = ['waiting', 'held', 'dead']
const RETRY: Change = { name: 'retry', one: 'retryMessage', done: 'waits again.', states: OPEN_STATES }
const DISCARD: Change = { name: 'discard', one: 'discardMessage', done: 'is discarded.', states: OPEN_STATES }
const REPLAY: Change = { name: 'replay', one: 'replayMessage', done: 'is delivered once more.', states: ['delivered'] }

const FILTER = ['route', 'group', 'state', 'key', 'older-than', 'from', 'to', 'limit'] as const
const CHANGE = [...FILTER, 'all', 'json', 'who', 'why']

const SUBCOMMANDS: Readonly<Record<string, Subcommand<CommandContext>>> = {
  list: { run: listMessages, options: [...FILTER, 'json'] },
  show: { run: showMessage, options: ['json'] },
  retry: { run: async (context) => changeMessages(context, RETRY), options: CHANGE },
  discard: { run: async (context) => changeMessages(context, DISCARD), options: CHANGE },
  replay: {
    run: async (context) => context.options.values.all === true ? replayAll(context) : changeOne(context, REPLAY),
    options: CHANGE
  },
  routes: { run: listRoutes, options: ['json'] },
  pause: { run: async (context) => setPaused(context, 'pauseRoute'), options: ['route', 'who', 'why'] },
  resume: { run: async (context) => setPaused(context, 'resumeRoute'), options: ['route', 'who', 'why'] }
}

const HELP = `usage: onceway inbox list [--route R] [--group G] [--state S] [--key K] [--from T] [--to T] [--older-than T] [--limit N] [--json]
       onceway inbox show ID [--json]
       onceway inbox retry ID --why TEXT
       onceway inbox retry --all --state S [--route R] [--group G] [--key K] [--from T] [--to T] [--older-than T] [--limit N] --why TEXT
       onceway inbox discard ID --why TEXT
       onceway inbox discard --all --state S [--route R] [--group G] [--key K] [--from T] [--to T] [--older-than T] [--limit N] --why TEXT
       onceway inbox replay ID --why TEXT
       onceway inbox replay --all --route R [--group G] [--from T] [--to T] [--key K] --why TEXT
       onceway inbox routes [--json]
       onceway inbox pause --route R --why TEXT
       onceway inbox resume --route R --why TEXT

Reads the inbox of the configured store, while gateways run. retry and discard change waiting, held and dead messages only.
replay is for delivered messages whose requests are kept (inbox.keepDelivered).
Each change leaves an audit row: who, when, why.

  list     list messages, the oldest first
  show     print all details of one message, of its deliveries and of its consumer's last answer, without bodies and credentials.
           With --json also the first bytes of the answer to each delivery
  retry    deliver the message again at once, with its full number of attempts. In an ordered group it waits for its turn
  discard  never deliver the message. Its group continues
  replay   deliver a delivered message once more, with the header Onceway-Replay. With --all in the order of acceptance, in steps
  routes   list the routes with an inbox: depth, age, and whether it is paused
  pause    go on accepting, and deliver nothing. Deliveries in flight go on
  resume   deliver again

  --all            change every message that the filter finds. retry and discard require --state, replay --route
  --route R        only messages of this route, or of a target's inbox: orders::billing, orders::dead-letter
  --group G        only messages of this group: the value that inbox.order names. It needs --route
  --key K          only messages of this key
  --state S        waiting, delivering, delivered, held, dead or discarded
  --older-than T   only messages accepted longer ago than this: 90s, 15m, 2h, 7d
  --from T         only messages accepted then or later: a time (2026-11-26T18:00:00Z), or how long ago (15m, 24h)
  --to T           only messages accepted before then
  --limit N        at most N messages, the oldest (default: ${LIST_DEFAULT}, with --all ${BULK_DEFAULT})
  --json           one JSON object per line
  --who NAME       name for the audit row (default: the user of this system)
  --why TEXT       reason for the audit row
  --config FILE    the gateway's file                   --data-dir DIR   directory of its embedded store
${REMOTE_HELP}

examples:
  onceway inbox list --state dead
  onceway inbox list --route hooks --state waiting --older-than 15m
  onceway inbox show 3q2-7wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
  onceway inbox retry --all --state dead --route hooks --why 'the consumer is mended'
  onceway inbox replay --all --route hooks --from 2026-11-26T18:00:00Z --to 2026-11-26T18:30:00Z --why 'the consumer lost them'
  onceway inbox discard 3q2-7wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA --why 'a test event'`

/** `open`: opens the stores. Absent: those of the configuration. */
export function inboxWith (open?: OpenFor): Command {
  return {
    help: HELP,
    run: runSubcommand({ name: 'inbox', subcommands: SUBCOMMANDS, options: OPTIONS, ...(open !== undefined && { open }) })
  }
}

export const inbox: Command = inboxWith()

async function listMessages (context: CommandContext): Promise<number> {
  const { options, operators } = context
  const limit = limitOf(context, LIST_DEFAULT)
  const found = await search(context, limit)
  printRows({ options, terminal: context.terminal }, found, limit, {
    title: `Messages in ${operators.where}, the oldest first:`,
    headings: MESSAGE_HEADINGS,
    cells: messageCells,
    json: (message) => JSON.stringify(message),
    none: `No such messages in ${operators.where}.`
  })
  return 0
}

async function showMessage (context: CommandContext): Promise<number> {
  const message = await find(context)
  const { options, operators, terminal } = context
  if (options.values.json === true) terminal.out(JSON.stringify(message))
  else messageLines(message, operators.where).forEach(terminal.out)
  return 0
}

async function changeMessages (context: CommandContext, change: Change): Promise<number> {
  return context.options.values.all === true ? changeAll(context, change) : changeOne(context, change)
}

async function changeOne (context: CommandContext, { name, one, done, states }: Change): Promise<number> {
  const { options, operators, terminal } = context
  const unexpected = FILTER.find((option) => textOption(options, option) !== undefined)
  if (unexpected !== undefined || options.positionals.length === 0) {
    throw new StartError(`Name one message by its id, as \`inbox list\` prints it, or ${name} all that a filter finds with --all.`, 2)
  }
  const { why } = whoAndWhy(options)
  const before = await find(context)
  const { id, state, attempt } = before
  const result = await operators.call(one, { params: { id }, body: { state, attempt, reason: why } })
  if (result instanceof OperatorProblem) {
    if (result.code === 'bad-request') must(result)
    const now = nowOf(result)
    terminal.err(`onceway: refused, nothing changed. ${now === null
      ? result.code === 'not-found' ? `There is no such message any more in ${operators.where}.` : result.detail
      : name === 'replay' || result.code === 'changed'
        ? `${result.detail} Now: ${stateText({ error: null, ...now })}.`
        : `Only a message that is ${states.join(', ').replace(/, (?=\w+$)/, ' or ')} can be changed. Now: ${stateText({ error: null, ...now })}.`}`)
    return 1
  }
  const { message: after } = result
  if (options.values.json === true) terminal.out(JSON.stringify(after))
  else terminal.out(`${before.id} ${done} Before: ${stateText(before)}. Now: ${stateText(after)}.`)
  if (name !== 'discard') await sayWhatWaits(context, new Set([after.route]))
  return 0
}

/** What was changed may wait all the same, for a reason that is not the message's. */
async function sayWhatWaits ({ operators, terminal }: CommandContext, names: ReadonlySet<string>): Promise<void> {
  const shown = names.size === 0 ? null : await operators.call('showInbox', {})
  if (shown === null || shown instanceof OperatorProblem) return
  // Without a file of the gateway nobody here knows what is delivered.
  const isKnown = shown.routes.some(({ configured }) => configured)
  for (const { route, configured, paused, waiting } of shown.routes.filter((each) => names.has(each.route))) {
    if (waiting > 0 && isKnown && !configured) terminal.err(`No route of the configuration delivers what waits in ${route}.`)
    else if (waiting > 0 && paused !== null) {
      terminal.err(`${route} is paused: what waits is not delivered until somebody resumes it, or a trial is taken.`)
    }
  }
}

/** Requires --state: a message that waits, one that may have been executed, and a dead one are different things to change. */
async function changeAll (context: CommandContext, { name, one, done }: Change): Promise<number> {
  const { options, operators, terminal } = context
  if (options.positionals.length > 0) throw new StartError('Name one message, or --all with a filter.', 2)
  const state = readMessageState(requiredOption(options, 'state'))
  if (!OPEN_STATES.includes(state)) {
    throw new StartError(`With --all, --state must be one of ${OPEN_STATES.join(', ')}. Other messages cannot be changed.`, 2)
  }
  const { why } = whoAndWhy(options)
  // A gateway sees one change after another, and cannot tell them from changes of one.
  if (name === 'discard' && must(await operators.call('whoAmI', {})).role !== 'admin') {
    throw new StartError('Discarding many messages needs the role admin.')
  }
  const limit = limitOf(context, BULK_DEFAULT)
  const { rows, notes, isCut } = await search(context, limit)
  notes.forEach(terminal.err)
  let changed = 0
  const inboxes = new Set<string>()
  for (const { id, route, state: was, attempt } of rows) {
    const result = await operators.call(one, { params: { id }, body: { state: was, attempt, reason: why } })
    // Whoever was faster has changed it, or it has gone on by itself.
    if (
      result instanceof OperatorProblem && (result.code === 'changed' || result.code === 'refused' || result.code === 'not-found')
    ) continue
    const { message } = must(result)
    terminal.out(options.values.json === true ? JSON.stringify(message) : `${id} ${done}`)
    changed++
    inboxes.add(route)
  }
  if (name !== 'discard') await sayWhatWaits(context, inboxes)
  if (changed === 0) terminal.err(`No such messages in ${operators.where}.`)
  if (isCut) {
    terminal.err(
    `The limit of ${limit} is reached. There may be more: use ${state === 'waiting' && name === 'retry' ? LARGER_LIMIT : 'the same command'}.`
    )
  }
  // A script with a mistaken name must not take it for done.
  return changed === 0 && notes.length > 0 ? 1 : 0
}

/** Between two tries of a step that finds the inbox half full. The selection ends after an hour. */
const ROOM_EVERY_MS = 2_000

/** Counted first, so that nothing that is delivered meanwhile is replayed. Then in steps, oldest first, each as the console does it. */
async function replayAll ({ options, operators, terminal }: CommandContext): Promise<number> {
  if (options.positionals.length > 0) throw new StartError('Name one message, or --all with a filter.', 2)
  const route = requiredOption(options, 'route')
  if (textOption(options, 'limit') !== undefined) throw new StartError('--limit is not for `inbox replay --all`. Take a narrower time.', 2)
  if ((textOption(options, 'state') ?? 'delivered') !== 'delivered') throw new StartError('Only delivered messages can be replayed.', 2)
  const { why } = whoAndWhy(options)
  const selection = must(await operators.call('selectMessages', { body: { ...filterOf(options), state: 'delivered' } }))
  selection.notes.forEach(terminal.err)
  let changed = 0
  let waits = false
  const reasons = new Map<string, number>()
  for (let cursor: string | null = ''; cursor !== null;) {
    const order: MessageBulkValues = { token: selection.token, action: 'replay', reason: why, ...(cursor !== '' && { cursor }) }
    const step: Outcome<MessageStepJson> = await operators.call('changeMessages', { body: order })
    if (step instanceof OperatorProblem && step.code === 'refused') {
      if (!waits) {
        terminal.err(`${changed} of ${selection.count} messages so far. Waiting for room. ${step.detail}`)
        if (await isPaused(operators, route)) terminal.err(`${route} is paused: nothing is delivered until \`onceway inbox resume\`.`)
      }
      waits = true
      await sleep(ROOM_EVERY_MS)
      continue
    }
    waits = false
    const { changed: more, refused, next } = must(step)
    changed += more
    for (const { detail } of refused) reasons.set(detail, (reasons.get(detail) ?? 0) + 1)
    cursor = next
  }
  if (options.values.json === true) terminal.out(JSON.stringify({ counted: selection.count, changed }))
  else if (selection.count > 0) terminal.out(`${changed} of ${selection.count} messages in ${operators.where} are delivered once more.`)
  if (selection.count === 0) terminal.err(`No such messages in ${operators.where}.`)
  for (const [detail, count] of reasons) terminal.err(`${count} refused: ${detail}`)
  return changed === 0 && (reasons.size > 0 || selection.notes.length > 0) ? 1 : 0
}

async function isPaused (operators: CommandContext['operators'], name: string): Promise<boolean> {
  const inbox = await operators.call('showInbox', {})
  return !(inbox instanceof OperatorProblem) && inbox.routes.some(({ route, paused }) => route === name && paused !== null)
}

async function search ({ options, operators }: CommandContext, limit: number): Promise<Awaited<ReturnType<typeof listed<MessageJson>>>> {
  const filter = filterOf(options)
  return listed(limit, async (page) => {
    const { messages: rows, ...rest } = must(await operators.call('searchMessages', { query: { ...filter, ...page, order: 'oldest' } }))
    return { rows, ...rest }
  })
}

function limitOf ({ options }: CommandContext, standard: number): number {
  return integerOption(options, 'limit', { min: 1, max: LIMIT_MAX }) ?? standard
}

function filterOf (options: CommandContext['options']): MessageFilterValues {
  const names = ['key', 'route', 'group', 'state', 'older-than', 'from', 'to']
  const [key, route, group, state, older, from, to = older] = names.map((name) => textOption(options, name))
  if (
    older !== undefined && (parseDuration(older) ?? 0) === 0
  ) throw new StartError('--older-than must be a duration: 90s, 15m, 2h, 7d.', 2)
  if (older !== undefined && to !== older) throw new StartError('--older-than and --to say the same. Give one of them.', 2)
  return {
    ...(key !== undefined && { key }),
    ...(route !== undefined && { route }),
    ...(group !== undefined && { group }),
    ...(state !== undefined && { state: readMessageState(state) }),
    ...(from !== undefined && { from }),
    ...(to !== undefined && { to })
  }
}

async function find ({ options, operators }: CommandContext): Promise<MessageDetailJson> {
  const [text] = options.positionals
  if (text === undefined) throw new StartError('Name the message by its id, as `inbox list` prints it.', 2)
  const message = await operators.call('showMessage', { params: { id: readId(text) } })
  if (!(message instanceof OperatorProblem) || message.code !== 'not-found') return must(message)
  throw new StartError(`There is no message ${text} in ${operators.where}.`)
}

const ROUTE_HEADINGS = ['ROUTE', 'WAITING', 'DELIVERING', 'HELD', 'DEAD', 'OLDEST', 'PAUSED']

async function listRoutes (context: CommandContext): Promise<number> {
  const { operators, options: { positionals } } = context
  if (positionals.length > 0) throw new StartError('`inbox routes` lists all routes.', 2)
  const { routes } = must(await operators.call('showInbox', {}))
  printRows(context, { rows: routes, notes: [], isCut: false }, routes.length, {
    title: `Inboxes in ${operators.where}:`,
    headings: ROUTE_HEADINGS,
    cells: ({ route, waiting, delivering, held, dead, oldestMs, configured, paused }) => [
      route, String(waiting), String(delivering), String(held), String(dead),
      oldestMs === null ? '' : `${Math.round(oldestMs / MS_PER_SECOND)}s`,
      [
        ...paused === null ? [] : [`since ${paused.since} by ${paused.who}`],
        ...configured ? [] : ['not configured: nothing delivers it']
      ].join('; ')
    ],
    json: (route) => JSON.stringify(route),
    none: `No route has an inbox in ${operators.where}.`
  })
  return 0
}

const MS_PER_SECOND = 1_000

async function setPaused ({ options, operators, terminal }: CommandContext, name: 'pauseRoute' | 'resumeRoute'): Promise<number> {
  if (options.positionals.length > 0) throw new StartError('Name the route with --route.', 2)
  const route = requiredOption(options, 'route')
  const { why } = whoAndWhy(options)
  const result = await operators.call(name, { params: { route }, body: { reason: why } })
  if (!(result instanceof OperatorProblem)) {
    terminal.out(`${route} in ${operators.where}: ${result.done}`)
    return 0
  }
  if (result.code === 'bad-request') must(result)
  terminal.err(`onceway: refused, nothing changed. ${result.detail}`)
  return 1
}
