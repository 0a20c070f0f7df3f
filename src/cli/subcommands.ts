/** Commands of two words that look into the stores (`onceway records list`): what their subcommands have in common. */
import type { ParseArgsOptionsConfig } from 'node:util'
import type { Config } from '../config/config.ts'
import { configFor, onlyTaken, readOptions, sayWhat, tellWhereCutOff } from './command.ts'
import type { Command, Subcommand } from './command.ts'
import type { CommandContext, OpenStores } from './open-stores.ts'
import { idsAsHex } from './record-text.ts'
import { tableLines } from './table.ts'

export interface Subcommands<Stores> {
  /** The first word. */
  readonly name: string
  /** By the second. All of them take an id, but for `list`. */
  readonly subcommands: Readonly<Record<string, Subcommand<CommandContext<Stores>>>>
  readonly options: ParseArgsOptionsConfig
  /** The stores that the configuration names. */
  readonly open: (config: Config) => Promise<Stores & Pick<OpenStores, 'close'>>
}

export function runSubcommand<Stores> ({ name: command, subcommands, options: known, open }: Subcommands<Stores>): Command['run'] {
  return async ([name = '', ...args], terminal) => {
    const subcommand = Object.hasOwn(subcommands, name) ? subcommands[name] : undefined
    if (subcommand === undefined) return sayWhat(name, Object.keys(subcommands))
    const options = readOptions(idsAsHex(args), known, name === 'list' ? 0 : 1)
    onlyTaken(options, subcommand.takes, `${command} ${name}`)
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
  /** What is said where nothing is found. */
  readonly none: string
}

/** A table for people, or with --json an object a line. */
export function tellFound<Row> (
  { options, terminal }: Pick<CommandContext, 'options' | 'terminal'>,
  found: readonly Row[],
  filter: { readonly limit: number },
  { title, headings, cells, json, none }: Listing<Row>
): void {
  if (options.values.json === true) found.forEach((row) => { terminal.out(json(row)) })
  else if (found.length > 0) tableLines(title, headings, found.map(cells)).forEach(terminal.out)
  if (found.length === 0) terminal.err(none)
  tellWhereCutOff(terminal, found.length, filter)
}
