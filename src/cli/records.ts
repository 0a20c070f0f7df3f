/**
 * `onceway records`: lists records, and lets an operator change one. Every change is a compare-and-set on the owner and attempt that
 * `show` printed, and leaves an audit row. If the protocol refuses a change, the command prints the record's current state.
 */
import type { RecordFilterValues, RecordJson } from '../operator/records/schemas.ts'
import { StartError } from '../ports/errors.ts'
import { CONFIG_OPTIONS, textOption, integerOption } from './command.ts'
import type { Command, Subcommand } from './command.ts'
import { AUDIT_LIMITS, showAudit } from './audit.ts'
import { listed, must, REMOTE_HELP, REMOTE_OPTIONS } from './operators.ts'
import { deleteRecord, probeRecord, releaseRecord, resolveRecord } from './record-changes.ts'
import { readId, readState, recordCells, recordLines, RECORD_HEADINGS } from './record-text.ts'
import { runSubcommand, printRows } from './subcommands.ts'
import type { CommandContext } from './subcommands.ts'

const { standard: LIMIT_DEFAULT, max: LIMIT_MAX } = AUDIT_LIMITS

const OPTIONS = {
  ...CONFIG_OPTIONS,
  ...REMOTE_OPTIONS,
  key: { type: 'string' },
  route: { type: 'string' },
  state: { type: 'string' },
  'request-id': { type: 'string' },
  path: { type: 'string' },
  from: { type: 'string' },
  to: { type: 'string' },
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
const FILTER = ['key', 'route', 'state', 'request-id', 'path', 'from', 'to', 'limit', 'json']

const SUBCOMMANDS: Readonly<Record<string, Subcommand<CommandContext>>> = {
  list: { run: listRecords, options: FILTER },
  show: { run: printRecord, options: ['json'] },
  resolve: {
    run: async (context) => resolveRecord(context, await find(context)),
    options: [...CHANGE, 'status', 'header', 'body-file', 'consumed', 'retention']
  },
  release: { run: async (context) => releaseRecord(context, await find(context)), options: [...CHANGE, 'retention'] },
  probe: { run: async (context) => probeRecord(context, await find(context)), options: CHANGE },
  audit: { run: showAudit, options: ['limit', 'json'] },
  delete: { run: async (context) => deleteRecord(context, await find(context)), options: CHANGE }
}

export const records: Command = {
  help: `usage: onceway records list [--key K] [--route R] [--state S] [--request-id ID] [--path P] [--from T] [--to T] [--limit N] [--json]
       onceway records show ID [--json]
       onceway records resolve ID --owner O --attempt N --status S [--header 'Name: value']... [--body-file F] --why TEXT
       onceway records resolve ID --owner O --attempt N --status S --consumed --why TEXT
       onceway records release ID --owner O --attempt N --why TEXT
       onceway records probe ID --owner O --attempt N --why TEXT
       onceway records delete ID --owner O --attempt N --why TEXT
       onceway records audit [ID] [--limit N] [--json]

Reads the configured stores, while gateways run. resolve, release, probe and delete change a record only if it still has the
owner and attempt that show printed. Each change leaves an audit row: who, when, why.

  list     list records, the newest first
  show     print all details of one record, without its body
  resolve  the request of an indeterminate record was executed: retries get this answer (--consumed: only its status)
  release  the request of an indeterminate record was not executed: its key can run again. Refused until the first sending is over
  probe    ask the upstream now what became of the request (unknown: probe)
  delete   a settled record ends two leases from now. Then its key can run again. The command waits one lease to clear Redis
  audit    list who changed records, the newest first, for one record or all

  --key K          only records of this key             --route R        only records of this route
  --state S        claimed, completed, consumed, released or indeterminate
  --request-id ID  only the record that the request with this X-Request-Id claimed
  --path P         only this path, or what begins with it (/v1/charges*)
  --from T         claimed then or later: a time (2026-11-26T18:00:00Z), or how long ago (15m, 24h)
  --to T           claimed before then
  --limit N        at most N rows (default: ${LIMIT_DEFAULT})     --json           one JSON object per line
  --retention T    how long a resolved or released record is kept (default: the route's, else 24h, and
                   never shorter than as an unknown outcome)
  --who NAME       name for the audit row (default: the user of this system)
  --why TEXT       reason for the audit row
  --config FILE    the gateway's file                   --data-dir DIR   directory of its embedded store
${REMOTE_HELP}

examples:
  onceway records list --state indeterminate
  onceway records list --key order-1 --route charges
  onceway records show 3q2-7wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
  onceway records resolve 3q2-7wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA --owner 00112233445566778899aabbccddeeff --attempt 1 \\
    --status 201 --header 'Content-Type: application/json' --body-file answer.json --why 'found in the ledger'`,
  run: runSubcommand({ name: 'records', subcommands: SUBCOMMANDS, options: OPTIONS })
}

async function listRecords (context: CommandContext): Promise<number> {
  const { options, operators } = context
  const limit = integerOption(options, 'limit', { min: 1, max: LIMIT_MAX }) ?? LIMIT_DEFAULT
  const filter = filterOf(context)
  const found = await listed(limit, async (page) => {
    const { records: rows, ...rest } = must(await operators.call('searchRecords', { query: { ...filter, ...page } }))
    return { rows, ...rest }
  })
  printRows(context, found, limit, {
    title: `Records in ${operators.where}, the newest first:`,
    headings: RECORD_HEADINGS,
    cells: recordCells,
    json: (record) => JSON.stringify(record),
    none: `No such records in ${operators.where}.`
  })
  return 0
}

function filterOf ({ options }: CommandContext): RecordFilterValues {
  const text = (name: string): string | undefined => textOption(options, name)
  const state = text('state')
  const values = {
    key: text('key'),
    route: text('route'),
    requestId: text('request-id'),
    path: text('path'),
    from: text('from'),
    to: text('to')
  }
  return {
    ...Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)),
    ...(state !== undefined && { state: readState(state) })
  }
}

async function printRecord (context: CommandContext): Promise<number> {
  const record = await find(context)
  const { options, operators, terminal } = context
  if (options.values.json === true) terminal.out(JSON.stringify(record))
  else recordLines(record, operators.where).forEach(terminal.out)
  return 0
}

async function find ({ options, operators }: CommandContext): Promise<RecordJson> {
  const [text] = options.positionals
  if (text === undefined) throw new StartError('Name the record by its id, as `records list` prints it.', 2)
  const id = readId(text)
  const record = await operators.call('showRecord', { params: { id } })
  if (!('code' in record) || record.code !== 'not-found') return must(record)
  throw new StartError(`There is no record ${text} in ${operators.where}.`)
}
