/**
 * `onceway audit`: lists who changed records, messages and routes by hand, when, and why. `onceway records audit` lists those of records.
 */
import type { AuditJson, AuditQueryValues } from '../operator/audit/audit.ts'
import { CONFIG_OPTIONS, integerOption, readOptions, textOption } from './command.ts'
import type { Command } from './command.ts'
import { listed, must, openOperators, REMOTE_HELP, REMOTE_OPTIONS } from './operators.ts'
import { idsAsHex, readId } from './record-text.ts'
import { printRows } from './subcommands.ts'
import type { CommandContext } from './subcommands.ts'
import { shownBy } from './terminal-text.ts'

/** Rows of a list. It is not for exports: use a narrower filter for more. */
export const AUDIT_LIMITS = { standard: 50, max: 10_000 } as const

const OPTIONS = {
  ...CONFIG_OPTIONS,
  ...REMOTE_OPTIONS,
  route: { type: 'string' },
  by: { type: 'string' },
  action: { type: 'string' },
  from: { type: 'string' },
  to: { type: 'string' },
  limit: { type: 'string' },
  json: { type: 'boolean' }
} as const

export const audit: Command = {
  help: `usage: onceway audit [ID] [--by NAME] [--action A] [--route R] [--from T] [--to T] [--limit N] [--json]

Lists every change by hand, the newest first: of records, of messages, and of routes that were paused or resumed. With an id
only those of that record and its message. The rows are never changed.

  --by NAME        only the changes of this name        --route R        only of this route
  --action A       resolve, release, delete, probe, retry, discard, replay, pause or resume
  --from T         then or later: a time (2026-11-26T18:00:00Z), or how long ago (15m, 24h)
  --to T           before then
  --limit N        at most N rows (default: ${AUDIT_LIMITS.standard})     --json           one JSON object per line
  --config FILE    the gateway's file                   --data-dir DIR   directory of its embedded store
${REMOTE_HELP}

examples:
  onceway audit
  onceway audit --by ada --from 24h --json
  onceway audit 3q2-7wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA`,
  run: async (args, terminal) => {
    const options = readOptions(idsAsHex(args), OPTIONS, 1)
    const operators = await openOperators(options, terminal)
    try {
      return await printAudit({ options, operators, terminal: shownBy(terminal) }, () => true)
    } finally {
      await operators.close()
    }
  }
}

/** `onceway records audit` */
export async function showAudit (context: CommandContext): Promise<number> {
  return printAudit(context, ({ about }) => about === 'record')
}

const HEADINGS = ['AT', 'ACTION', 'RECORD', 'ROUTE', 'STATE', 'ATTEMPT', 'WHO', 'WHY']

async function printAudit (context: CommandContext, isWanted: (entry: AuditJson) => boolean): Promise<number> {
  const { options, operators } = context
  const [text] = options.positionals
  const limit = integerOption(options, 'limit', { min: 1, max: AUDIT_LIMITS.max }) ?? AUDIT_LIMITS.standard
  const values = {
    id: text === undefined ? undefined : readId(text),
    route: textOption(options, 'route'),
    who: textOption(options, 'by'),
    action: textOption(options, 'action'),
    from: textOption(options, 'from'),
    to: textOption(options, 'to')
  }
  const query = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as AuditQueryValues
  const found = await listed(limit, async (page) => {
    const { entries, ...rest } = must(await operators.call('searchAudit', { query: { ...query, ...page } }))
    return { rows: entries.filter(isWanted), ...rest }
  })
  printRows(context, found, limit, {
    title: `Changes by hand in ${operators.where}, the newest first:`,
    headings: HEADINGS,
    cells: cellsOf,
    json: (entry) => JSON.stringify(entry),
    none: `No changes by hand${text === undefined ? '' : ' of this record'} in ${operators.where}.`
  })
  return 0
}

function cellsOf ({ at, action, id, route, state, attempt, who, why }: AuditJson): string[] {
  return [at, action, id ?? '', route, state, attempt === null ? '' : String(attempt), who, why]
}
