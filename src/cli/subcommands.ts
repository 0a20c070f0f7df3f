/** What the subcommands of `onceway records` and `onceway inbox` share: options, open stores, and lists. */
import type { ParseArgsOptionsConfig } from 'node:util'
import type { Config } from '../config/config.ts'
import { configFor, refuseOtherOptions, readOptions, refuseSubcommand, warnAtLimit } from './command.ts'
import type { Command, Subcommand } from './command.ts'
import type { CommandContext, OpenStores } from './open-stores.ts'
import { idsAsHex } from './record-text.ts'
import { tableLines } from './table.ts'

export interface Subcommands<Stores> {
  /** The command's name. */
  readonly name: string
  /** By name. All of them accept an id, except `list`. */
  readonly subcommands: Readonly<Record<string, Subcommand<CommandContext<Stores>>>>
  readonly options: ParseArgsOptionsConfig
  /** Opens the stores of the configuration. */
  readonly open: (config: Config) => Promise<Stores & Pick<OpenStores, 'close'>>
}

export function runSubcommand<Stores> ({ name: command, subcommands, options: known, open }: Subcommands<Stores>): Command['run'] {
  return async ([name = '', ...args], terminal) => {
    const subcommand = Object.hasOwn(subcommands, name) ? subcommands[name] : undefined
    if (subcommand === undefined) return refuseSubcommand(name, Object.keys(subcommands))
    const options = readOptions(idsAsHex(args), known, name === 'list' ? 0 : 1)
    refuseOtherOptions(options, subcommand.options, `${command} ${name}`)
    const config = configFor(options, terminal.env)
    const stores = await open(config)
    try {
      return await subcommand.run({ options, config, stores, terminal })
    } finally {
      await stores.close()
    }
  }
}

export interface Listing<Row> {
  readonly title: string
  readonly headings: readonly string[]
  readonly cells: (row: Row) => readonly string[]
  readonly json: (row: Row) => string
  /** Message on stderr if there are no rows. */
  readonly none: string
}

/** Prints a table, or with --json one object per line. */
export function printRows<Row> (
  { options, terminal }: Pick<CommandContext, 'options' | 'terminal'>,
  found: readonly Row[],
  filter: { readonly limit: number },
  { title, headings, cells, json, none }: Listing<Row>
): void {
  if (options.values.json === true) found.forEach((row) => { terminal.out(json(row)) })
  else if (found.length > 0) tableLines(title, headings, found.map(cells)).forEach(terminal.out)
  if (found.length === 0) terminal.err(none)
  warnAtLimit(terminal, found.length, filter)
}
