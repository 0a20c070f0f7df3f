/**
 * `onceway records`: what an operator may see and do. Every change is a compare-and-set on the owner and attempt that
 * the operator was shown, and leaves an audit row; what the protocol refuses, the command refuses, and says what stands there.
 */
import type { RecordDetail } from '../core/record/record.ts'
import { storeText } from '../config/compare/store-text.ts'
import { StartError } from '../ports/errors.ts'
import type { RecordFilter } from '../ports/records.ts'
import { CONFIG_OPTIONS, textOption, wholeNumber } from './command.ts'
import type { Command, Subcommand } from './command.ts'
import { keyHashesOf } from './key-hashes.ts'
import { openStores } from './open-stores.ts'
import type { CommandContext } from './open-stores.ts'
import { showAudit } from './record-audit.ts'
import { deleteRecord, releaseRecord, resolveRecord } from './record-changes.ts'
import { readId, readState, recordCells, recordJson, recordLines, RECORD_HEADINGS } from './record-text.ts'
import { runSubcommand, tellFound } from './subcommands.ts'

const LIMIT_DEFAULT = 50
/** A terminal is no export: more than this is asked for with a narrower filter. */
const LIMIT_MAX = 10_000

const OPTIONS = {
  ...CONFIG_OPTIONS,
  key: { type: 'string' },
  route: { type: 'string' },
  state: { type: 'string' },
  limit: { type: 'string' },
  json: { type: 'boolean' },
  owner: { type: 'string' },
  attempt: { type: 'string' },
  status: { type: 'string' },
  'body-file': { type: 'string' },
  header: { type: 'string', multiple: true },
  consumed: { type: 'boolean' },
  retention: { type: 'string' },
  who: { type: 'string' },
  why: { type: 'string' }
} as const

const CHANGE = ['owner', 'attempt', 'who', 'why']

const SUBCOMMANDS: Readonly<Record<string, Subcommand<CommandContext>>> = {
  list: { run: listRecords, takes: ['key', 'route', 'state', 'limit', 'json'] },
  show: { run: showRecord, takes: ['json'] },
  resolve: {
    run: async (context) => resolveRecord(context, await find(context)),
    takes: [...CHANGE, 'status', 'header', 'body-file', 'consumed', 'retention']
  },
  release: { run: async (context) => releaseRecord(context, await find(context)), takes: [...CHANGE, 'retention'] },
  audit: { run: async (context) => showAudit(context, { standard: LIMIT_DEFAULT, max: LIMIT_MAX }), takes: ['limit', 'json'] },
  delete: { run: async (context) => deleteRecord(context, await find(context)), takes: CHANGE }
}

export const records: Command = {
  help: `usage: onceway records list [--key K] [--route R] [--state S] [--limit N] [--json]
       onceway records show ID [--json]
       onceway records resolve ID --owner O --attempt N --status S [--header 'Name: value']... [--body-file F] --why TEXT
       onceway records resolve ID --owner O --attempt N --status S --consumed --why TEXT
       onceway records release ID --owner O --attempt N --why TEXT
       onceway records delete ID --owner O --attempt N --why TEXT
       onceway records audit [ID] [--limit N] [--json]

Looks into the configured stores, beside running gateways. resolve, release and delete change a record only if it still
has the owner and attempt that show printed, and leave an audit row: who, when, why.

  list     the newest records first
  show     everything known of one record (never its body)
  resolve  the outcome of an indeterminate record is known after all: retries get this answer (--consumed: only its status)
  release  an indeterminate record was not processed: its key may run again. Refused until the first sending is certainly over
  delete   a settled record ends two leases from now, and its key may run again; the command waits one lease to clear Redis
  audit    who resolved, released or deleted which record, when and why: the newest first, of one record or of all

  --key K          only records of this key             --route R        only records of this route
  --state S        claimed, completed, consumed, released or indeterminate
  --limit N        at most N rows (default: ${LIMIT_DEFAULT})     --json           a JSON object a line
  --retention T    how long a resolved or released record is kept (default: the route's, else 24h)
  --who NAME       who did it (default: the user of this system)
  --why TEXT       why
  --config FILE    the gateway's file                   --data-dir DIR   where its embedded store is

examples:
  onceway records list --state indeterminate
  onceway records list --key order-1 --route charges
  onceway records show 3q2-7wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
  onceway records resolve 3q2-7wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA --owner 00112233445566778899aabbccddeeff --attempt 1 \\
    --status 201 --header 'Content-Type: application/json' --body-file answer.json --why 'found in the ledger'`,
  run: runSubcommand({ name: 'records', subcommands: SUBCOMMANDS, options: OPTIONS, open: openStores })
}

async function listRecords (context: CommandContext): Promise<number> {
  const where = storeText(context.config)
  const filter = await filterOf(context)
  const found = await context.stores.records.list(filter)
  const title = `Records in ${where}, the newest first:`
  tellFound(context, found, filter, {
    title,
    headings: RECORD_HEADINGS,
    cells: recordCells,
    json: recordJson,
    none: `No such records in ${where}.`
  })
  return 0
}

async function filterOf ({ options, stores, terminal }: CommandContext): Promise<RecordFilter> {
  const [key, route, state] = [textOption(options, 'key'), textOption(options, 'route'), textOption(options, 'state')]
  return {
    ...(key !== undefined && { keyHashes: await keyHashesOf(key, stores, terminal) }),
    ...(route !== undefined && { route }),
    ...(state !== undefined && { state: readState(state) }),
    limit: wholeNumber(options, 'limit', { min: 1, max: LIMIT_MAX }) ?? LIMIT_DEFAULT
  }
}

async function showRecord (context: CommandContext): Promise<number> {
  const record = await find(context)
  const { options, terminal } = context
  if (options.values.json === true) terminal.out(recordJson(record))
  else recordLines(record, storeText(context.config)).forEach(terminal.out)
  return 0
}

async function find ({ options, stores, config }: CommandContext): Promise<RecordDetail> {
  const [text] = options.positionals
  if (text === undefined) throw new StartError('Say which record: its id, as `records list` prints it.', 2)
  const [record] = await stores.records.list({ id: readId(text), limit: 1 })
  if (record === undefined) throw new StartError(`There is no record ${text} in ${storeText(config)}.`)
  return record
}
