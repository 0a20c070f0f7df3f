/** The shape of a command, and the options that commands share. */
import { statSync } from 'node:fs'
import { userInfo } from 'node:os'
import { parseArgs } from 'node:util'
import type { ParseArgsOptionsConfig } from 'node:util'
import { defaultConfig, loadConfig } from '../config/load.ts'
import type { Config } from '../config/config.ts'
import type { Environment } from '../config/read/interpolate.ts'
import { didYouMean } from '../config/read/nearest.ts'
import { StartError } from '../ports/errors.ts'

/** Output and environment of a command. Tests pass their own. */
export interface Terminal {
  readonly env: Environment
  readonly out: (line: string) => void
  readonly err: (line: string) => void
}

export interface Command {
  /** The whole of `--help`: usage, options, examples. */
  readonly help: string
  /** The exit code: 0 ok, 1 runtime, 2 usage or configuration. */
  readonly run: (args: readonly string[], terminal: Terminal) => Promise<number>
}

export interface Options {
  readonly values: Readonly<Record<string, string | boolean | ReadonlyArray<string | boolean> | undefined>>
  readonly positionals: readonly string[]
}

/** @throws StartError (exit 2) for an unknown option, a missing value, or too many arguments. */
export function readOptions (args: readonly string[], options: ParseArgsOptionsConfig, positionalsMax = 0): Options {
  try {
    const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: positionalsMax > 0, strict: true })
    const extra = positionals[positionalsMax]
    if (extra !== undefined) throw new StartError(`${JSON.stringify(extra)} is one argument too many.`, 2)
    return { values, positionals }
  } catch (error) {
    if (error instanceof StartError) throw error
    const [message = 'wrong usage'] = (error as Error).message.split(/\. (To specify|This command)/)
    const [, option] = /^Unknown option '--([^']+)'/.exec(message) ?? []
    const meant = option === undefined
      ? upstreamMeant(message, options)
      : didYouMean(option, Object.keys(options)).replace('mean ', 'mean --')
    throw new StartError(`${message.replace(/\.$/, '')}${meant === '' ? '.' : meant}`, 2, error)
  }
}

/** Detects `npm start --upstream URL` without `--` before the option. npm then removes the option and passes the URL alone. */
function upstreamMeant (message: string, options: ParseArgsOptionsConfig): string {
  const [, url] = /^Unexpected argument '(https?:\/\/[^']*)'/.exec(message) ?? []
  return url === undefined || !Object.hasOwn(options, 'upstream')
    ? ''
    : `; did you mean --upstream ${url}? With npm: npm start -- --upstream ${url}`
}

/** @throws StartError (exit 2): the subcommand is missing (`name` is empty, or an option) or unknown. */
export function refuseSubcommand (name: string, names: readonly string[]): never {
  const what = `Name a subcommand: ${names.join(', ').replace(/, (?=[^,]*$)/, names.length > 2 ? ', ' : ' or ')}.`
  if (name.startsWith('-')) throw new StartError(`A subcommand comes before the options. ${what}`, 2)
  throw new StartError(name === '' ? what : `There is no ${JSON.stringify(name)} here${didYouMean(name, names) || '.'} ${what}`, 2)
}

export interface Subcommand<Context> {
  readonly run: (context: Context) => Promise<number>
  /** Names of its options, without those of {@link CONFIG_OPTIONS}. */
  readonly options: readonly string[]
}

/** @throws StartError (exit 2) for an option of another subcommand. Ignoring it would surprise the operator. */
export function refuseOtherOptions ({ values }: Options, options: readonly string[], name: string): void {
  const unexpected = Object.keys(values).find((option) => !options.includes(option) && !Object.hasOwn(CONFIG_OPTIONS, option))
  if (unexpected !== undefined) throw new StartError(`--${unexpected} is not for ${name}.`, 2)
}

export const LARGER_LIMIT = 'a larger --limit or a narrower filter'

export function textOption ({ values }: Options, name: string): string | undefined {
  const value = values[name]
  return typeof value === 'string' ? value : undefined
}

export function requiredOption (options: Options, name: string): string {
  const value = textOption(options, name)
  if (value === undefined || value.trim() === '') throw new StartError(`--${name} is needed.`, 2)
  return value
}

const AUDIT_TEXT_MAX = 512

/** Name and reason for an audit row. */
export function whoAndWhy (options: Options): { readonly who: string, readonly why: string } {
  const who = textOption(options, 'who') === undefined ? userName() : requiredOption(options, 'who')
  const why = requiredOption(options, 'why')
  if (who.length > AUDIT_TEXT_MAX || why.length > AUDIT_TEXT_MAX) {
    throw new StartError(`--who and --why have at most ${AUDIT_TEXT_MAX} characters.`, 2)
  }
  return { who, why }
}

/** A container's user may have no entry in the passwd file. */
export function userName (): string {
  try {
    return userInfo().username
  } catch (error) {
    throw new StartError('--who NAME is needed: the user of this process has no name.', 2, error)
  }
}

export function integerOption (options: Options, name: string, { min, max }: { min: number, max: number }): number | undefined {
  const text = textOption(options, name)
  if (text === undefined) return undefined
  const value = /^[0-9]{1,10}$/.test(text) ? Number(text) : Number.NaN
  if (!(value >= min && value <= max)) throw new StartError(`--${name} must be a whole number between ${min} and ${max}.`, 2)
  return value
}

/**
 * The file of `--config`, else of ONCEWAY_CONFIG. The file of --config must exist. That of ONCEWAY_CONFIG need not, because an image sets
 * the variable and the operator may mount a file there.
 */
export function configFile (options: Options, env: Environment): string | undefined {
  const named = env.ONCEWAY_CONFIG
  return textOption(options, 'config') ?? (named !== undefined && named !== '' && exists(named) ? named : undefined)
}

/** A file that cannot be inspected counts as existing, so that its rules are never ignored. Reading it reports the error. */
function exists (file: string): boolean {
  try {
    return statSync(file, { throwIfNoEntry: false }) !== undefined
  } catch {
    return true
  }
}

/** The configuration for commands that need the stores or the admin port, but no upstream. */
export function configFor (options: Options, env: Environment): Config {
  const file = configFile(options, env)
  const dataDir = textOption(options, 'data-dir')
  if (file !== undefined) return loadConfig(file, { env, flags: { dataDir } })
  return defaultConfig({ upstreamUrl: 'http://127.0.0.1', dataDir, env })
}

/** The options that {@link configFor} reads. */
export const CONFIG_OPTIONS = { config: { type: 'string' }, 'data-dir': { type: 'string' } } as const
