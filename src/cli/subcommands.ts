/** What the subcommands of `onceway records`, `onceway inbox` and `onceway audit` share: options, who is asked, and lists. */
import type { ParseArgsOptionsConfig } from 'node:util'
import type { OperatorProblem } from '../operator/shared/problem.ts'
import { LARGER_LIMIT, refuseOtherOptions, readOptions, refuseSubcommand } from './command.ts'
import type { Command, Options, Subcommand, Terminal } from './command.ts'
import { openOperators, REMOTE_OPTIONS } from './operators.ts'
import type { OpenFor, Operators } from './operators.ts'
import { idsAsHex } from './record-text.ts'
import { tableLines } from './table.ts'
import { shownBy } from './terminal-text.ts'

export interface CommandContext {
  readonly options: Options
  readonly operators: Operators
  readonly terminal: Terminal
}

export interface Subcommands {
  /** The command's name. */
  readonly name: string
  /** By name. All of them accept an id, except `list`. */
  readonly subcommands: Readonly<Record<string, Subcommand<CommandContext>>>
  readonly options: ParseArgsOptionsConfig
  /** Opens the stores. Absent: those of the configuration. */
  readonly open?: OpenFor
}

export function runSubcommand ({ name: command, subcommands, options: known, open }: Subcommands): Command['run'] {
  return async ([name = '', ...args], terminal) => {
    const subcommand = Object.hasOwn(subcommands, name) ? subcommands[name] : undefined
    if (subcommand === undefined) return refuseSubcommand(name, Object.keys(subcommands))
    const options = readOptions(idsAsHex(args), known, name === 'list' ? 0 : 1)
    refuseOtherOptions(options, [...subcommand.options, ...Object.keys(REMOTE_OPTIONS)], `${command} ${name}`)
    const operators = await openOperators(options, terminal, open)
    try {
      return await subcommand.run({ options, operators, terminal: shownBy(terminal) })
    } finally {
      await operators.close()
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

export interface Listed<Row> { readonly rows: readonly Row[], readonly notes: readonly string[], readonly isCut: boolean }

/** Prints a table, or with --json one object per line. Notes go to stderr, so that stdout stays readable for programs. */
export function printRows<Row> (
  { options, terminal }: Pick<CommandContext, 'options' | 'terminal'>,
  { rows, notes, isCut }: Listed<Row>,
  limit: number,
  { title, headings, cells, json, none }: Listing<Row>
): void {
  if (options.values.json === true) rows.forEach((row) => { terminal.out(json(row)) })
  else if (rows.length > 0) tableLines(title, headings, rows.map(cells)).forEach(terminal.out)
  notes.forEach(terminal.err)
  if (rows.length === 0) terminal.err(none)
  if (isCut) terminal.err(`The limit of ${limit} is reached. There may be more: use ${LARGER_LIMIT}.`)
}

/** How a record or message stands now, after a change was refused: as the problem says. */
export interface RefusedNow { readonly state: string, readonly owner?: string, readonly attempt: number }

export function nowOf ({ members }: OperatorProblem): RefusedNow | null {
  return (members.now ?? null) as RefusedNow | null
}
