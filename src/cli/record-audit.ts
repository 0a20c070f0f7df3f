/** `onceway records audit`: lists who changed a record by hand, when, and why. */
import type { AuditRow } from '../core/record/audit.ts'
import type { Config } from '../config/config.ts'
import { storeText } from '../config/derived.ts'
import { readAuditOf } from '../store/postgres/audit.ts'
import { migrate } from '../store/postgres/migrate.ts'
import { withPostgres } from '../store/postgres/open.ts'
import { readAuditIn } from '../store/sqlite/audit.ts'
import { integerOption } from './command.ts'
import type { CommandContext } from './open-stores.ts'
import { ownerText, readId, timeText } from './record-text.ts'
import { printRows } from './subcommands.ts'

// eslint-disable-next-line no-control-regex -- these are what is replaced: --who and --why are any text
const NOT_SHOWN = /[\x00-\x1f\x7f-\x9f]/g

const HEADINGS = ['AT', 'ACTION', 'RECORD', 'ROUTE', 'STATE', 'ATTEMPT', 'WHO', 'WHY']

export async function showAudit (context: CommandContext, limits: { readonly standard: number, readonly max: number }): Promise<number> {
  const { options, config } = context
  const store = storeText(config)
  const [text] = options.positionals
  const filter = {
    ...(text !== undefined && { id: readId(text) }),
    limit: integerOption(options, 'limit', { min: 1, max: limits.max }) ?? limits.standard
  }
  const found = await readAudit(config, filter)
  printRows(context, found, filter, {
    title: `Changes by hand in ${store}, the newest first:`,
    headings: HEADINGS,
    cells: cellsOf,
    json: auditJson,
    none: `No changes by hand${text === undefined ? '' : ' of this record'} in ${store}.`
  })
  return 0
}

async function readAudit (
  { stores: { postgres }, dataDir }: Config,
  filter: { readonly id?: Buffer, readonly limit: number }
): Promise<AuditRow[]> {
  if (postgres === null) return readAuditIn(dataDir, filter)
  return withPostgres(postgres, async (client) => {
    await migrate(client, { schema: postgres.schema, mode: 'check' })
    return readAuditOf(client, postgres.schema, filter)
  })
}

function cellsOf ({ atMs, action, id, route, state, attempt, who, why }: AuditRow): string[] {
  return [
    timeText(atMs),
    action,
    id.toString('base64url'),
    route,
    state,
    String(attempt),
    who.replace(NOT_SHOWN, '?'),
    why.replace(NOT_SHOWN, '?')
  ]
}

function auditJson ({ atMs, action, id, owner, attempt, route, state, who, why }: AuditRow): string {
  return JSON.stringify({
    at: timeText(atMs),
    action,
    id: id.toString('base64url'),
    owner: ownerText(owner),
    attempt,
    route,
    state,
    who,
    why
  })
}
