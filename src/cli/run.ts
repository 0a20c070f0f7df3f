/** Finds and runs the command of an argument list. Turns an error into a sentence and an exit code. */
import { errorStack, StartError, StoreUnavailable } from '../ports/errors.ts'
import { didYouMean } from '../config/read/nearest.ts'
import type { Command, Terminal } from './command.ts'
import { shownLines } from './terminal-text.ts'

/** Each command is loaded when it is called, because `version` needs no database driver. */
const COMMANDS: Readonly<Record<string, { summary: string, load: () => Promise<Command> }>> = {
  serve: { summary: 'run the gateway', load: async () => (await import('./serve.ts')).serve },
  check: { summary: 'check a configuration and report every mistake', load: async () => (await import('./check.ts')).checkCommand },
  schema: { summary: 'print the JSON Schema of the configuration, for editors', load: async () => (await import('./schema.ts')).schema },
  migrate: { summary: 'prepare the database for this version', load: async () => (await import('./migrate.ts')).migrate },
  demo: {
    summary: 'run a gateway, a toy upstream and a retrying client, and print what happens',
    load: async () => (await import('./demo.ts')).demo
  },
  records: { summary: 'list, show, resolve, release or delete records', load: async () => (await import('./records.ts')).records },
  inbox: { summary: 'list, show, retry, discard or replay messages of inboxes', load: async () => (await import('./inbox.ts')).inbox },
  audit: { summary: 'list who changed records, messages and routes by hand', load: async () => (await import('./audit.ts')).audit },
  epoch: {
    summary: 'after restoring a backup: mark outcomes that it does not know',
    load: async () => (await import('./epoch.ts')).epoch
  },
  installation: {
    summary: 'after splitting a cell: give a half an id of its own',
    load: async () => (await import('./installation.ts')).installation
  },
  ids: { summary: 'show or upgrade the scheme of record ids', load: async () => (await import('./ids.ts')).ids },
  clock: {
    summary: 'show whether the clock of the store is trusted, or confirm it',
    load: async () => (await import('./clock.ts')).clock
  },
  'cell-of': {
    summary: 'print the cell of a key or tenant, or the configuration of the proxy',
    load: async () => (await import('./cell-of.ts')).cellOfCommand
  },
  token: { summary: 'make a token for an operator', load: async () => (await import('./token.ts')).token },
  healthcheck: { summary: 'check whether a running gateway is ready', load: async () => (await import('./healthcheck.ts')).healthcheck },
  version: { summary: 'print the version', load: async () => (await import('./version.ts')).version }
}

const HELP = `onceway - an idempotency-key gateway

usage: onceway COMMAND [OPTIONS]

commands:
${Object.entries(COMMANDS).map(([name, { summary }]) => `  ${name.padEnd(12)} ${summary}`).join('\n')}

onceway COMMAND --help explains a command.

examples:
  onceway serve --upstream http://127.0.0.1:3000     guard every POST and PATCH that carries an Idempotency-Key
  onceway serve --config onceway.yaml                guard the routes of the file
  onceway check onceway.yaml --print                 check the file and print all its settings
  onceway records list --state indeterminate         list records with an unknown outcome
  onceway inbox list --state dead                    list dead messages

exit codes: 0 ok, 1 failed, 2 wrong usage or configuration`

/** `argv`: without the program's name. */
export async function run (argv: readonly string[], terminal: Terminal): Promise<number> {
  const [name, ...args] = argv
  if (name === undefined || name === 'help' || name === '--help' || name === '-h') return print(HELP, terminal, name === undefined ? 2 : 0)
  const entry = Object.hasOwn(COMMANDS, name === '--version' ? 'version' : name)
    ? COMMANDS[name === '--version' ? 'version' : name]
    : undefined
  if (entry === undefined) return printUnknownCommand(name, terminal)
  const command = await entry.load()
  if (args.some((arg) => arg === '--help' || arg === '-h')) return print(command.help, terminal, 0)
  try {
    return await command.run(args, terminal)
  } catch (error) {
    return printError(error, name, terminal)
  }
}

function print (text: string, { out, err }: Terminal, exitCode: number): number {
  (exitCode === 0 ? out : err)(text)
  return exitCode
}

function printUnknownCommand (name: string, { err }: Terminal): number {
  err(`onceway: there is no command ${JSON.stringify(name)}${didYouMean(name, Object.keys(COMMANDS))}`)
  err('onceway --help lists the commands.')
  return 2
}

/** An expected error is one sentence. Any other error is a bug, and is printed with its stack. */
function printError (error: unknown, name: string, { err }: Terminal): number {
  if (error instanceof StartError) {
    err(`onceway: ${shownLines(error.message)}`)
    if (error.exitCode === 2 && error.name === 'StartError') err(`Usage: onceway ${name} --help`)
    return error.exitCode
  }
  err(`onceway: ${shownLines(error instanceof StoreUnavailable ? error.message : errorStack(error))}`)
  return 1
}
