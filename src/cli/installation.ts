/** `onceway installation new`: gives a half of a split cell an id of its own, before gateways serve from it. */
import { StartError } from '../ports/errors.ts'
import { newInstallation } from '../store/postgres/installation.ts'
import type { NewInstallation } from '../store/postgres/installation.ts'
import { withPostgres } from '../store/postgres/open.ts'
import { CONFIG_OPTIONS, configFor, readOptions, refuseSubcommand } from './command.ts'
import type { Command, Terminal } from './command.ts'
import { counted } from './table.ts'

const OPTIONS = { ...CONFIG_OPTIONS, yes: { type: 'boolean' } } as const

export const installation: Command = {
  help: `usage: onceway installation new [--yes] [--config FILE] [--data-dir DIR]

Run this once in Postgres after a standby was promoted to be a cell of its own, before gateways serve from it. Both halves of
the cell have the same installation id until then, and must not share a Redis. This one gets a new id. Records stay valid:
a retry gets its replay, and what was in flight becomes unknown after its lease.

Refuses while gateways are connected, up to a minute after the last one has ended, and if an inbox has open messages, because
both halves would deliver them. Do not run it after a failover: there the promoted standby is the same cell. Without --yes the
command only shows what it would do.

  --yes            do it
  --config FILE    the gateway's file                   --data-dir DIR   of an embedded store, which cannot be split

example:
  onceway installation new --config half.yaml --yes`,
  run: runInstallation
}

async function runInstallation ([name = '', ...args]: readonly string[], terminal: Terminal): Promise<number> {
  if (name !== 'new') return refuseSubcommand(name, ['new'])
  const options = readOptions(args, OPTIONS)
  const { stores: { postgres } } = configFor(options, terminal.env)
  if (postgres === null) throw new StartError('An embedded store has no standby, so it cannot be split. Use Postgres.', 2)
  const dryRun = options.values.yes !== true
  return print(await withPostgres(postgres, (client) => newInstallation(client, postgres.schema, dryRun)), dryRun, terminal)
}

function print (result: NewInstallation, dryRun: boolean, { out, err }: Terminal): number {
  switch (result.kind) {
    case 'standby': return refuse('this server is a standby. Promote it first.', err)
    case 'served':
      return refuse(`somebody serves from this database, or has within a minute: ${result.by.join(', ')}. Stop every gateway of it, wait a minute, then run this again.`, err)
    case 'open-messages':
      return refuse(`${counted(result.messages, 'open message')} would be delivered by both halves. Let the inboxes run empty before the standby is promoted.`, err)
    case 'drawn':
      out(`The installation ${result.was} ${dryRun ? 'would get' : 'has'} ${dryRun ? 'a new id' : `the id ${result.is} now`}. Redis begins empty for it.`)
      if (result.claimed > 0) out(`${counted(result.claimed, 'record')} in flight ${dryRun ? 'would become' : 'becomes'} unknown when the lease is over. It is not sent again.`)
      if (!dryRun) return 0
      err('onceway: nothing was changed; add --yes to do it.')
      return 1
  }
}

function refuse (why: string, err: (line: string) => void): number {
  err(`onceway: refused, nothing changed: ${why}`)
  return 1
}
