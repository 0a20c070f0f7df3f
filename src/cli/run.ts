/** Finds the command that the words name, runs it, and turns what goes wrong into a sentence and an exit code. */
import { errorStack, StartError, StoreUnavailable } from '../ports/errors.ts'
import { didYouMean } from '../config/read/nearest.ts'
import type { Command, Terminal } from './command.ts'

/** Loaded when called: `version` needs no database driver. */
const COMMANDS: Readonly<Record<string, { summary: string, load: () => Promise<Command> }>> = {
  serve: { summary: 'run the gateway', load: async () => (await import('./serve.ts')).serve },
  check: { summary: 'check a configuration and tell every mistake', load: async () => (await import('./check.ts')).checkCommand },
  schema: { summary: 'print the JSON Schema of the configuration, for editors', load: async () => (await import('./schema.ts')).schema },
  migrate: { summary: 'prepare the database for this version', load: async () => (await import('./migrate.ts')).migrate },
  demo: {
    summary: 'watch it work: a gateway, a toy upstream and a client that retries',
    load: async () => (await import('./demo.ts')).demo
  },
  records: { summary: 'list, show, resolve, release or delete records', load: async () => (await import('./records.ts')).records },
  inbox: { summary: 'list, show, retry or discard messages of inboxes', load: async () => (await import('./inbox.ts')).inbox },
  epoch: {
    summary: 'after a backup was restored: what it cannot know becomes unknown',
    load: async () => (await import('./epoch.ts')).epoch
  },
  ids: { summary: 'by which scheme the ids of records are made; upgrade it', load: async () => (await import('./ids.ts')).ids },
  clock: {
    summary: 'whether the time of the store is believed; confirm that it is right',
    load: async () => (await import('./clock.ts')).clock
  },
  healthcheck: { summary: 'ask a running gateway whether it is ready', load: async () => (await import('./healthcheck.ts')).healthcheck },
  version: { summary: 'print the version', load: async () => (await import('./version.ts')).version }
}

const HELP = `onceway - an idempotency-key gateway

usage: onceway COMMAND [OPTIONS]

commands:
${Object.entries(COMMANDS).map(([name, { summary }]) => `  ${name.padEnd(12)} ${summary}`).join('\n')}

onceway COMMAND --help says more about each.

examples:
  onceway serve --upstream http://127.0.0.1:3000     guard every POST and PATCH that carries an Idempotency-Key
  onceway serve --config onceway.yaml                guard as the file says
  onceway check onceway.yaml --print                 is the file right, and what does it mean?
  onceway records list --state indeterminate         whose outcome is not known?
  onceway inbox list --state dead                    what was given up?

exit codes: 0 ok, 1 failed, 2 wrong usage or configuration`

/** `argv`: the words behind the program's name. */
export async function run (argv: readonly string[], terminal: Terminal): Promise<number> {
  const [name, ...args] = argv
  if (name === undefined || name === 'help' || name === '--help' || name === '-h') return tell(HELP, terminal, name === undefined ? 2 : 0)
  const entry = Object.hasOwn(COMMANDS, name === '--version' ? 'version' : name)
    ? COMMANDS[name === '--version' ? 'version' : name]
    : undefined
  if (entry === undefined) return tellUnknown(name, terminal)
  const command = await entry.load()
  if (args.some((arg) => arg === '--help' || arg === '-h')) return tell(command.help, terminal, 0)
  try {
    return await command.run(args, terminal)
  } catch (error) {
    return tellError(error, name, terminal)
  }
}

function tell (text: string, { out, err }: Terminal, exitCode: number): number {
  (exitCode === 0 ? out : err)(text)
  return exitCode
}

function tellUnknown (name: string, { err }: Terminal): number {
  err(`onceway: there is no command ${JSON.stringify(name)}${didYouMean(name, Object.keys(COMMANDS))}`)
  err('onceway --help lists the commands.')
  return 2
}

/** What was foreseen is one sentence; anything else is a bug of ours and comes with its stack. */
function tellError (error: unknown, name: string, { err }: Terminal): number {
  if (error instanceof StartError) {
    err(`onceway: ${error.message}`)
    if (error.exitCode === 2 && error.name === 'StartError') err(`onceway ${name} --help says how it is used.`)
    return error.exitCode
  }
  err(`onceway: ${error instanceof StoreUnavailable ? error.message : errorStack(error)}`)
  return 1
}
