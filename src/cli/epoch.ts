/**
 * `onceway epoch`: run once after a backup was restored, before gateways serve from it. Records whose outcome the backup does not know
 * become indeterminate, so that retries are not executed again. This is one transaction with an audit entry.
 */
import type { Config } from '../config/config.ts'
import type { EpochOrder, EpochResult } from '../core/record/epoch.ts'
import { bumpEpochOf } from '../store/postgres/epoch.ts'
import { migrate } from '../store/postgres/migrate.ts'
import { withPostgres } from '../store/postgres/open.ts'
import { bumpEpochIn } from '../store/sqlite/epoch.ts'
import { CONFIG_OPTIONS, configFor, readOptions, refuseSubcommand, whoAndWhy } from './command.ts'
import type { Command, Options, Terminal } from './command.ts'
import { counted } from './table.ts'

const OPTIONS = {
  ...CONFIG_OPTIONS,
  yes: { type: 'boolean' },
  force: { type: 'boolean' },
  who: { type: 'string' },
  why: { type: 'string' }
} as const

export const epoch: Command = {
  help: `usage: onceway epoch bump [--yes] [--force] [--who NAME] --why TEXT [--config FILE] [--data-dir DIR]

Run this after a backup of the database was restored, before gateways serve from it. Requests that were claimed or free when
the backup was taken may have been sent since. Their records become indeterminate, so that no retry is executed again. They
are kept for each route's unknownRetention. Use \`onceway records\` to resolve or release them. Answers in the backup stay.

Open messages of an inbox are delivered again, with attempt numbers that no consumer has seen. If the route says
\`unknown: hold\`, they are held. Without --yes the command only shows what it would do.

  --yes            do it
  --force          do it although leases of claims have not ended (a gateway still serves, or the backup is very recent)
  --who NAME       name for the audit row (default: the user of this system)
  --why TEXT       reason for the audit row
  --config FILE    the gateway's file                   --data-dir DIR   directory of its embedded store

examples:
  onceway epoch bump --config onceway.yaml --why 'restored the backup of 03:00'
  onceway epoch bump --config onceway.yaml --why 'restored the backup of 03:00' --yes`,
  run: runEpoch
}

async function runEpoch ([name = '', ...args]: readonly string[], terminal: Terminal): Promise<number> {
  if (name !== 'bump') return refuseSubcommand(name, ['bump'])
  const options = readOptions(args, OPTIONS)
  const order = orderOf(options)
  const config = configFor(options, terminal.env)
  return printResult(await bump(config, order), order, config, terminal)
}

function orderOf (options: Options): EpochOrder {
  return { ...whoAndWhy(options), force: options.values.force === true, dryRun: options.values.yes !== true }
}

/** Migrates the database first, as a gateway would: the backup may be older than this release. */
async function bump ({ stores: { postgres }, dataDir }: Config, order: EpochOrder): Promise<EpochResult> {
  if (postgres === null) return bumpEpochIn(dataDir, order)
  return withPostgres(postgres, async (client) => {
    await migrate(client, { schema: postgres.schema, mode: postgres.migrate })
    return bumpEpochOf(client, postgres.schema, order)
  })
}

function printResult (result: EpochResult, { dryRun }: EpochOrder, { stores }: Config, { out, err }: Terminal): number {
  if (result.kind === 'live') {
    err(`onceway: refused, nothing changed. ${counted(result.leases, 'lease')} of claims or workers ${result.leases === 1 ? 'has' : 'have'} not ended. Stop every gateway that serves from this database. The lease of a dead gateway ends within ${Math.max(1, Math.ceil(result.endInMs / 1000))} s. --force does it anyway.`)
    return 1
  }
  const { claimed, released, messages: { held, again } } = result
  out(dryRun ? `Epoch ${result.epoch} would begin.` : `Epoch ${result.epoch} has begun.`)
  out(`${counted(claimed + released, 'record')} ${dryRun ? 'would become' : claimed + released === 1 ? 'is now' : 'are now'} indeterminate: ${claimed} claimed and ${released} released when the backup was taken.`)
  if (held + again > 0) out(`Of ${counted(held + again, 'open message')}, ${held} ${dryRun ? 'would be' : 'are'} held, ${again} ${dryRun ? 'would be' : 'are'} delivered again, each with a new attempt number.`)
  out('Keys that were first used after the backup have no record, so a retry of one is executed. Your server can refuse it by Onceway-Key.')
  if (stores.redis !== null) out(`Redis may hold older answers. They ${dryRun ? 'would belong' : 'belong'} to an earlier generation and ${dryRun ? 'would not be' : 'are not'} replayed.`)
  if (!dryRun) return 0
  err('onceway: nothing was changed; add --yes to do it.')
  return 1
}
