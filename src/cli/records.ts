/**
 * `onceway records`: lists records, and lets an operator change one. Every change is a compare-and-set on the owner and attempt that
 * `show` printed, and leaves an audit row. If the protocol refuses a change, the command prints the record's current state.
 */
import type { RecordDetail } from '../core/record/record.ts'
import { storeText } from '../config/derived.ts'
import { StartError } from '../ports/errors.ts'
import type { RecordFilter } from '../ports/records.ts'
import { CONFIG_OPTIONS, textOption, integerOption } from './command.ts'
import type { Command, Subcommand } from './command.ts'
import { keyHashesOf } from './key-hashes.ts'
import { openStores } from './open-stores.ts'
import type { CommandContext } from './open-stores.ts'
import { showAudit } from './record-audit.ts'
import { deleteRecord, releaseRecord, resolveRecord } from './record-changes.ts'
import { readId, readState, recordCells, recordJson, recordLines, RECORD_HEADINGS } from './record-text.ts'
import { runSubcommand, printRows } from './subcommands.ts'

const LIMIT_DEFAULT = 50
/** The command is not for exports. Use a narrower filter for more. */
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
  list: { run: listRecords, options: ['key', 'route', 'state', 'limit', 'json'] },
  show: { run: showRecord, options: ['json'] },
  resolve: {
    run: async (context) => resolveRecord(context, await find(context)),
    options: [...CHANGE, 'status', 'header', 'body-file', 'consumed', 'retention']
  },
  release: { run: async (context) => releaseRecord(context, await find(context)), options: [...CHANGE, 'retention'] },
  audit: { run: async (context) => showAudit(context, { standard: LIMIT_DEFAULT, max: LIMIT_MAX }), options: ['limit', 'json'] },
  delete: { run: async (context) => deleteRecord(context, await find(context)), options: CHANGE }
}

export const records: Command = {
  help: `usage: onceway records list [--key K] [--route R] [--state S] [--limit N] [--json]
       onceway records show ID [--json]
       onceway records resolve ID --owner O --attempt N --status S [--header 'Name: value']... [--body-file F] --why TEXT
       onceway records resolve ID --owner O --attempt N --status S --consumed --why TEXT
       onceway records release ID --owner O --attempt N --why TEXT
       onceway records delete ID --owner O --attempt N --why TEXT
       onceway records audit [ID] [--limit N] [--json]

Reads the configured stores, while gateways run. resolve, release and delete change a record only if it still has the owner
and attempt that show printed. Each change leaves an audit row: who, when, why.

  list     list records, the newest first
  show     print all details of one record, without its body
  resolve  the request of an indeterminate record was executed: retries get this answer (--consumed: only its status)
  release  the request of an indeterminate record was not executed: its key can run again. Refused until the first sending is over
  delete   a settled record ends two leases from now. Then its key can run again. The command waits one lease to clear Redis
  audit    list who resolved, released or deleted records, the newest first, for one record or all

  --key K          only records of this key             --route R        only records of this route
  --state S        claimed, completed, consumed, released or indeterminate
  --limit N        at most N rows (default: ${LIMIT_DEFAULT})     --json           one JSON object per line
  --retention T    how long a resolved or released record is kept (default: the route's, else 24h)
  --who NAME       name for the audit row (default: the user of this system)
  --why TEXT       reason for the audit row
  --config FILE    the gateway's file                   --data-dir DIR   directory of its embedded store

examples:
  onceway records list --state indeterminate
  onceway records list --key order-1 --route charges
  onceway records show 3q2-7wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
  onceway records resolve 3q2-7wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA --owner 00112233445566778899aabbccddeeff --attempt 1 \\
    --status 201 --header 'Content-Type: application/json' --body-file answer.json --why 'found in the ledger'`,
  run: runSubcommand({ name: 'records', subcommands: SUBCOMMANDS, options: OPTIONS, open: openStores })
}

async function listRecords (context: CommandContext): Promise<number> {
  const store = storeText(context.config)
  const filter = await filterOf(context)
  const found = await context.stores.records.list(filter)
  const title = `Records in ${store}, the newest first:`
  printRows(context, found, filter, {
    title,
    headings: RECORD_HEADINGS,
    cells: recordCells,
    json: recordJson,
    none: `No such records in ${store}.`
  })
  return 0
}

async function filterOf ({ options, stores, terminal }: CommandContext): Promise<RecordFilter> {
  const [key, route, state] = [textOption(options, 'key'), textOption(options, 'route'), textOption(options, 'state')]
  return {
    ...(key !== undefined && { keyHashes: await keyHashesOf(key, stores, terminal) }),
    ...(route !== undefined && { route }),
    ...(state !== undefined && { state: readState(state) }),
    limit: integerOption(options, 'limit', { min: 1, max: LIMIT_MAX }) ?? LIMIT_DEFAULT
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
  if (text === undefined) throw new StartError('Name the record by its id, as `records list` prints it.', 2)
  const [record] = await stores.records.list({ id: readId(text), limit: 1 })
  if (record === undefined) throw new StartError(`There is no record ${text} in ${storeText(config)}.`)
  return record
}
