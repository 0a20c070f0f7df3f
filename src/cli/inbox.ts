/**
 * `onceway inbox`: lists messages, retries or discards those that are not in flight. A change is for one id or for all that a filter
 * finds. Every change leaves an audit row.
 */
import type { MessageDetail, MessageState } from '../core/inbox/message.ts'
import type { Config } from '../config/config.ts'
import { storeText } from '../config/derived.ts'
import { parseDuration } from '../config/read/units.ts'
import { StartError } from '../ports/errors.ts'
import type { InboxStore, MessageAudit, MessageFilter } from '../ports/inbox.ts'
import { CONFIG_OPTIONS, requiredOption, warnAtLimit, textOption, LARGER_LIMIT, whoAndWhy, integerOption } from './command.ts'
import type { Command, Subcommand } from './command.ts'
import { MESSAGE_HEADINGS, messageCells, messageJson, messageLines, readMessageState, stateText } from './message-text.ts'
import { keyHashesOf } from './key-hashes.ts'
import { openStores } from './open-stores.ts'
import type { CommandContext, OpenStores } from './open-stores.ts'
import { readId } from './record-text.ts'
import { runSubcommand, printRows } from './subcommands.ts'

const LIST_DEFAULT = 50
/** Most messages that one transaction changes. The same command again changes the rest. */
const BULK_DEFAULT = 1_000
const LIMIT_MAX = 10_000

const OPTIONS = {
  ...CONFIG_OPTIONS,
  key: { type: 'string' },
  route: { type: 'string' },
  state: { type: 'string' },
  'older-than': { type: 'string' },
  limit: { type: 'string' },
  all: { type: 'boolean' },
  json: { type: 'boolean' },
  who: { type: 'string' },
  why: { type: 'string' }
} as const

type InboxContext = CommandContext<Pick<OpenStores, 'inbox' | 'records' | 'secrets'>>

/** A change of messages that are not being delivered. */
interface Change {
  readonly name: 'retry' | 'discard'
  readonly done: string
  readonly of: (inbox: InboxStore) => (filter: MessageFilter, audit: MessageAudit) => Promise<MessageDetail[]>
}

const RETRY: Change = { name: 'retry', done: 'waits again.', of: (inbox) => async (filter, audit) => inbox.retry(filter, audit) }
const DISCARD: Change = { name: 'discard', done: 'is discarded.', of: (inbox) => async (filter, audit) => inbox.discard(filter, audit) }
/** States in which a message can be changed. */
const OPEN_STATES: readonly MessageState[] = ['waiting', 'held', 'dead']

const FILTER = ['route', 'state', 'key', 'older-than', 'limit'] as const
const CHANGE = [...FILTER, 'all', 'json', 'who', 'why']

const SUBCOMMANDS: Readonly<Record<string, Subcommand<InboxContext>>> = {
  list: { run: listMessages, options: [...FILTER, 'json'] },
  show: { run: showMessage, options: ['json'] },
  retry: { run: async (context) => changeMessages(context, RETRY), options: CHANGE },
  discard: { run: async (context) => changeMessages(context, DISCARD), options: CHANGE }
}

const HELP = `usage: onceway inbox list [--route R] [--state S] [--key K] [--older-than T] [--limit N] [--json]
       onceway inbox show ID [--json]
       onceway inbox retry ID --why TEXT
       onceway inbox retry --all --state S [--route R] [--key K] [--older-than T] [--limit N] --why TEXT
       onceway inbox discard ID --why TEXT
       onceway inbox discard --all --state S [--route R] [--key K] [--older-than T] [--limit N] --why TEXT

Reads the inbox of the configured store, while gateways run. retry and discard change waiting, held and dead messages only.
Each change leaves an audit row: who, when, why.

  list     list messages, the oldest first
  show     print all details of one message and of its consumer's last answer, without bodies and credentials
  retry    deliver the message again at once, with its full number of attempts. In an ordered group it waits for its turn
  discard  never deliver the message. Its group continues

  --all            change every message that the filter finds. Requires --state
  --route R        only messages of this route          --key K          only messages of this key
  --state S        waiting, delivering, delivered, held, dead or discarded
  --older-than T   only messages accepted longer ago than this: 90s, 15m, 2h, 7d
  --limit N        at most N messages, the oldest (default: ${LIST_DEFAULT}, with --all ${BULK_DEFAULT})
  --json           one JSON object per line
  --who NAME       name for the audit row (default: the user of this system)
  --why TEXT       reason for the audit row
  --config FILE    the gateway's file                   --data-dir DIR   directory of its embedded store

examples:
  onceway inbox list --state dead
  onceway inbox list --route hooks --state waiting --older-than 15m
  onceway inbox show 3q2-7wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
  onceway inbox retry --all --state dead --route hooks --why 'the consumer is mended'
  onceway inbox discard 3q2-7wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA --why 'a test event'`

/** `open`: opens the stores of the configuration. */
export function inboxWith (open: (config: Config) => Promise<InboxContext['stores'] & Pick<OpenStores, 'close'>>): Command {
  return {
    help: HELP,
    run: runSubcommand({ name: 'inbox', subcommands: SUBCOMMANDS, options: OPTIONS, open })
  }
}

export const inbox: Command = inboxWith(openStores)

async function listMessages (context: InboxContext): Promise<number> {
  const store = storeText(context.config)
  const filter = await filterOf(context, LIST_DEFAULT)
  const found = await context.stores.inbox.list(filter)
  const title = `Messages in ${store}, the oldest first:`
  printRows(context, found, filter, {
    title,
    headings: MESSAGE_HEADINGS,
    cells: messageCells,
    json: messageJson,
    none: `No such messages in ${store}.`
  })
  return 0
}

async function showMessage (context: InboxContext): Promise<number> {
  const message = await find(context)
  const { options, terminal } = context
  if (options.values.json === true) terminal.out(messageJson(message))
  else messageLines(message, storeText(context.config)).forEach(terminal.out)
  return 0
}

async function changeMessages (context: InboxContext, change: Change): Promise<number> {
  return context.options.values.all === true ? changeAll(context, change) : changeOne(context, change)
}

async function changeOne (context: InboxContext, { name, done, of }: Change): Promise<number> {
  const { options, config, stores: { inbox }, terminal } = context
  const unexpected = FILTER.find((option) => textOption(options, option) !== undefined)
  if (unexpected !== undefined || options.positionals.length === 0) {
    throw new StartError(`Name one message by its id, as \`inbox list\` prints it, or ${name} all that a filter finds with --all.`, 2)
  }
  const audit = whoAndWhy(options)
  const before = await find(context)
  const [after] = await of(inbox)({ id: before.id, limit: 1 }, audit)
  if (after === undefined) {
    const [now] = await inbox.list({ id: before.id, limit: 1 })
    terminal.err(`onceway: refused, nothing changed. ${now === undefined ? `There is no such message any more in ${storeText(config)}.` : `Only a message that is ${OPEN_STATES.join(', ').replace(/, (?=\w+$)/, ' or ')} can be changed. Now: ${stateText(now)}.`}`)
    return 1
  }
  if (options.values.json === true) terminal.out(messageJson(after))
  else terminal.out(`${after.id.toString('base64url')} ${done} Before: ${stateText(before)}. Now: ${stateText(after)}.`)
  return 0
}

/** Requires --state: a message that waits, one that may have been executed, and a dead one are different things to change. */
async function changeAll (context: InboxContext, { name, done, of }: Change): Promise<number> {
  const { options, stores: { inbox }, terminal } = context
  if (options.positionals.length > 0) throw new StartError('Name one message, or --all with a filter.', 2)
  const state = readMessageState(requiredOption(options, 'state'))
  if (!OPEN_STATES.includes(state)) {
    throw new StartError(`With --all, --state must be one of ${OPEN_STATES.join(', ')}. Other messages cannot be changed.`, 2)
  }
  const filter = await filterOf(context, BULK_DEFAULT)
  const changed = await of(inbox)(filter, whoAndWhy(options))
  changed.forEach((message) => {
    terminal.out(options.values.json === true ? messageJson(message) : `${message.id.toString('base64url')} ${done}`)
  })
  if (changed.length === 0) terminal.err(`No such messages in ${storeText(context.config)}.`)
  warnAtLimit(terminal, changed.length, filter, state === 'waiting' && name === 'retry' ? LARGER_LIMIT : 'the same command')
  return 0
}

async function filterOf ({ options, stores, terminal }: InboxContext, limit: number): Promise<MessageFilter> {
  const [key, route, state, older] = [
    textOption(options, 'key'),
    textOption(options, 'route'),
    textOption(options, 'state'),
    textOption(options, 'older-than')
  ]
  return {
    ...(key !== undefined && { keyHashes: await keyHashesOf(key, stores, terminal) }),
    ...(route !== undefined && { route }),
    ...(state !== undefined && { state: readMessageState(state) }),
    ...(older !== undefined && { olderMs: readAge(older) }),
    limit: integerOption(options, 'limit', { min: 1, max: LIMIT_MAX }) ?? limit
  }
}

function readAge (text: string): number {
  const ms = parseDuration(text)
  if (ms === null || ms === 0) throw new StartError('--older-than must be a duration: 15m, 2h, 7d.', 2)
  return ms
}

async function find ({ options, config, stores: { inbox } }: InboxContext): Promise<MessageDetail> {
  const [text] = options.positionals
  if (text === undefined) throw new StartError('Name the message by its id, as `inbox list` prints it.', 2)
  const [message] = await inbox.list({ id: readId(text, 'message'), limit: 1 })
  if (message === undefined) throw new StartError(`There is no message ${text} in ${storeText(config)}.`)
  return message
}
