/**
 * `onceway epoch`: said once after a backup was restored, before gateways serve from it. What the backup cannot know any
 * more becomes indeterminate instead of being executed again, in one transaction, with who and why.
 */
import type { Config } from '../config/config.ts'
import type { EpochOrder, EpochResult } from '../core/record/epoch.ts'
import { bumpEpochOf } from '../store/postgres/epoch.ts'
import { migrate } from '../store/postgres/migrate.ts'
import { withPostgres } from '../store/postgres/open.ts'
import { bumpEpochIn } from '../store/sqlite/epoch.ts'
import { CONFIG_OPTIONS, configFor, readOptions, sayWhat, whoAndWhy } from './command.ts'
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

After a backup of the database was restored, and before gateways serve from it. What was claimed or free when the backup
was taken may have been sent since: those records become indeterminate, so that no retry is executed again. They are kept
as long as each route's unknownRetention says; \`onceway records\` resolves or releases them. Answers that the backup has
stay. Messages of an inbox that were open are delivered again, under numbers that no consumer has seen; where the route says
\`unknown: hold\` they are held. Without --yes it says what it would do, and changes nothing.

  --yes            do it
  --force          although claims hold leases that are not over: a gateway still serves, or the backup is a moment old
  --who NAME       who did it (default: the user of this system)
  --why TEXT       why
  --config FILE    the gateway's file                   --data-dir DIR   where its embedded store is

examples:
  onceway epoch bump --config onceway.yaml --why 'restored the backup of 03:00'
  onceway epoch bump --config onceway.yaml --why 'restored the backup of 03:00' --yes`,
  run: runEpoch
}

async function runEpoch ([name = '', ...args]: readonly string[], terminal: Terminal): Promise<number> {
  if (name !== 'bump') return sayWhat(name, ['bump'])
  const options = readOptions(args, OPTIONS)
  const order = orderOf(options)
  const config = configFor(options, terminal.env)
  return tell(await bump(config, order), order, config, terminal)
}

function orderOf (options: Options): EpochOrder {
  return { ...whoAndWhy(options), force: options.values.force === true, dryRun: options.values.yes !== true }
}

/** A backup may be older than this release: it is migrated as a gateway would migrate it. */
async function bump ({ stores: { postgres }, dataDir }: Config, order: EpochOrder): Promise<EpochResult> {
  if (postgres === null) return bumpEpochIn(dataDir, order)
  return withPostgres(postgres, async (client) => {
    await migrate(client, { schema: postgres.schema, mode: postgres.migrate })
    return bumpEpochOf(client, postgres.schema, order)
  })
}

function tell (result: EpochResult, { dryRun }: EpochOrder, { stores }: Config, { out, err }: Terminal): number {
  if (result.kind === 'live') {
    err(`onceway: refused, nothing changed. ${counted(result.leases, 'lease')} of claims or workers ${result.leases === 1 ? 'is' : 'are'} not over: stop every gateway that serves from this database; the lease of one that is gone ends in ${Math.max(1, Math.ceil(result.endInMs / 1000))} s at the latest. --force does it all the same.`)
    return 1
  }
  const { claimed, released, messages: { held, again } } = result
  out(dryRun ? `Epoch ${result.epoch} would begin.` : `Epoch ${result.epoch} has begun.`)
  out(`${counted(claimed + released, 'record')} ${dryRun ? 'would become' : claimed + released === 1 ? 'is now' : 'are now'} indeterminate: ${claimed} claimed and ${released} released when the backup was taken.`)
  if (held + again > 0) out(`Of ${counted(held + again, 'open message')}, ${held} ${dryRun ? 'would be' : 'are'} held, ${again} ${dryRun ? 'would be' : 'are'} delivered again, each with a number of its own.`)
  out('What it cannot know: keys that were first used after the backup have no record here, and a retry of one is executed. Your server can refuse it by Onceway-Key.')
  if (stores.redis !== null) out(`Redis may hold answers from before. They ${dryRun ? 'would belong' : 'belong'} to an earlier generation and ${dryRun ? 'would not be' : 'are not'} replayed.`)
  if (!dryRun) return 0
  err('onceway: nothing was changed; add --yes to do it.')
  return 1
}
