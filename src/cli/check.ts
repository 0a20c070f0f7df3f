/** `onceway check`: reports all mistakes of a configuration, prints it in full, or shows what a change would orphan. */
import { orphans } from '../config/compare/orphaned-records.ts'
import type { Config } from '../config/config.ts'
import { dropWarnings } from '../config/routes/drop.ts'
import { load } from '../config/load.ts'
import { printConfig } from '../config/print.ts'
import { ConfigInvalid, problemLine } from '../config/read/problem.ts'
import { routeWarnings } from '../config/warnings.ts'
import { scopeSentences } from '../config/routes/scope-words.ts'
import { configFile, readOptions, textOption } from './command.ts'
import type { Command, Terminal } from './command.ts'
import { StartError } from '../ports/errors.ts'
import { counted } from './table.ts'

const DEFAULT_FILE = 'onceway.yaml'

export const checkCommand: Command = {
  help: `usage: onceway check [FILE] [--print] [--against OLD.yaml]

Checks a configuration. Reports every mistake with file, line, column and path. Exit 2 if there is one.

  FILE                the configuration (default: ${DEFAULT_FILE}); also as --config FILE
  --print             print the effective configuration: defaults and environment filled in, secrets masked
  --against OLD.yaml  list the records that a change from OLD.yaml to this file would orphan. Exit 1 if there are any

examples:
  onceway check onceway.yaml
  onceway check onceway.yaml --print
  onceway check new.yaml --against onceway.yaml`,
  run: (args, terminal) => Promise.resolve(checkFile(args, terminal))
}

function checkFile (args: readonly string[], terminal: Terminal): number {
  const options = readOptions(args, { config: { type: 'string' }, print: { type: 'boolean' }, against: { type: 'string' } }, 1)
  const [named] = options.positionals
  if (named !== undefined && textOption(options, 'config') !== undefined) {
    throw new StartError('Name the file once: as FILE or as --config FILE.', 2)
  }
  const file = named ?? configFile(options, terminal.env) ?? DEFAULT_FILE
  const loaded = tryLoad(file, terminal)
  if (loaded === null) return 2
  const oldFile = textOption(options, 'against')
  if (options.values.print === true) terminal.out(printConfig(loaded.effective).trimEnd())
  else terminal.out(`${file} is right: ${counted(loaded.config.routes.length, 'route')}, ${loaded.config.routes.filter(({ idempotency }) => idempotency !== null).length} of them guarded.`)
  if (options.values.print !== true) scopeSentences(loaded.config.routes).forEach(terminal.out)
  warningsFor(loaded.config).forEach(terminal.err)
  if (oldFile === undefined) return 0
  const old = tryLoad(oldFile, terminal)
  if (old === null) return 2
  const sentences = orphans(old.config, loaded.config)
  sentences.forEach(terminal.out)
  if (sentences.length === 0) terminal.out(`No records of ${oldFile} would be orphaned.`)
  return sentences.length === 0 ? 0 : 1
}

function warningsFor (config: Config): string[] {
  return [...dropWarnings(config.routes), ...routeWarnings(config), ...config.warnings, ...secretWarnings(config)]
}

/** Only for Postgres: the embedded store creates a secret itself. */
function secretWarnings ({ secrets, stores: { postgres } }: Config): string[] {
  if (postgres === null || secrets.length > 0) return []
  return ['There is no secret, so ids are plain hashes. Anyone with a copy of the database can search it for weak keys and credentials. Set secretFile, the same in every gateway (docs/concepts/identity.md, The secret).']
}

function tryLoad (file: string, { env, err }: Terminal): ReturnType<typeof load> | null {
  try {
    return load(file, { env })
  } catch (error) {
    if (!(error instanceof ConfigInvalid)) throw error
    error.problems.forEach((problem) => { err(problemLine(problem)) })
    err(`${error.problems.length === 1 ? 'One mistake' : `${error.problems.length} mistakes`} in ${file}.`)
    return null
  }
}
