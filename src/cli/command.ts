/** What a command is, and the words that all of them share. */
import { statSync } from 'node:fs'
import { userInfo } from 'node:os'
import { parseArgs } from 'node:util'
import type { ParseArgsOptionsConfig } from 'node:util'
import { defaultConfig, loadConfig } from '../config/load.ts'
import type { Config } from '../config/config.ts'
import type { Environment } from '../config/read/interpolate.ts'
import { didYouMean } from '../config/read/nearest.ts'
import { StartError } from '../ports/errors.ts'

/** Where a command writes and what it reads from; tests bring their own. */
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

/** @throws StartError (exit 2) for an option that there is not, or one without its value. */
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

/** `npm start --upstream URL`, without the `--` between them: npm takes the option for its own, and passes the URL on. */
function upstreamMeant (message: string, options: ParseArgsOptionsConfig): string {
  const [, url] = /^Unexpected argument '(https?:\/\/[^']*)'/.exec(message) ?? []
  return url === undefined || !Object.hasOwn(options, 'upstream')
    ? ''
    : `; did you mean --upstream ${url}? With npm: npm start -- --upstream ${url}`
}

/** @throws StartError (exit 2) for a subcommand that is missing, or that there is not. */
export function sayWhat (name: string, names: readonly string[]): never {
  const what = `Say what to do: ${names.join(', ').replace(/, (?=[^,]*$)/, names.length > 2 ? ', ' : ' or ')}.`
  throw new StartError(name === '' ? what : `There is no ${JSON.stringify(name)} here${didYouMean(name, names) || '.'} ${what}`, 2)
}

/** One of a command's. */
export interface Subcommand<Context> {
  readonly run: (context: Context) => Promise<number>
  /** Options beside {@link CONFIG_OPTIONS}. */
  readonly takes: readonly string[]
}

/** @throws StartError (exit 2) for an option that is another subcommand's: whoever gives it expects something of it. */
export function onlyTaken ({ values }: Options, takes: readonly string[], name: string): void {
  const stray = Object.keys(values).find((option) => !takes.includes(option) && !Object.hasOwn(CONFIG_OPTIONS, option))
  if (stray !== undefined) throw new StartError(`--${stray} is not for ${name}.`, 2)
}

export const WIDER = 'a larger --limit or a narrower filter'

/** On the terminal's side channel: what is read by programs stays as it is. `by`: what shows the rest. */
export function tellWhereCutOff ({ err }: Terminal, found: number, { limit }: { readonly limit: number }, by = WIDER): void {
  if (found === limit) err(`As many as --limit says (${limit}); there may be more, for ${by}.`)
}

export function textOption ({ values }: Options, name: string): string | undefined {
  const value = values[name]
  return typeof value === 'string' ? value : undefined
}

export function required (options: Options, name: string): string {
  const value = textOption(options, name)
  if (value === undefined || value.trim() === '') throw new StartError(`--${name} is needed.`, 2)
  return value
}

const AUDIT_TEXT_MAX = 512

/** What an audit row says of whoever changes something. */
export function whoAndWhy (options: Options): { readonly who: string, readonly why: string } {
  const who = textOption(options, 'who') === undefined ? userInfo().username : required(options, 'who')
  const why = required(options, 'why')
  if (who.length > AUDIT_TEXT_MAX || why.length > AUDIT_TEXT_MAX) {
    throw new StartError(`--who and --why have at most ${AUDIT_TEXT_MAX} characters.`, 2)
  }
  return { who, why }
}

export function wholeNumber (options: Options, name: string, { min, max }: { min: number, max: number }): number | undefined {
  const text = textOption(options, name)
  if (text === undefined) return undefined
  const value = /^[0-9]{1,10}$/.test(text) ? Number(text) : Number.NaN
  if (!(value >= min && value <= max)) throw new StartError(`--${name} must be a whole number between ${min} and ${max}.`, 2)
  return value
}

/**
 * `--config`, which must be there, else ONCEWAY_CONFIG, which counts where it is there: an image names the place, and
 * who runs it may mount a file.
 */
export function configFile (options: Options, env: Environment): string | undefined {
  const named = env.ONCEWAY_CONFIG
  return textOption(options, 'config') ?? (named !== undefined && named !== '' && isThere(named) ? named : undefined)
}

/** What cannot be looked at may be there, and rules that somebody wrote are never passed over: reading it says why it cannot be had. */
function isThere (file: string): boolean {
  try {
    return statSync(file, { throwIfNoEntry: false }) !== undefined
  } catch {
    return true
  }
}

/** For commands that need the stores or the admin port and no upstream: the file's, or what the environment says. */
export function configFor (options: Options, env: Environment): Config {
  const file = configFile(options, env)
  const dataDir = textOption(options, 'data-dir')
  if (file !== undefined) return loadConfig(file, { env, flags: { dataDir } })
  return defaultConfig({ upstreamUrl: 'http://127.0.0.1', dataDir, env })
}

/** The options that {@link configFor} reads. */
export const CONFIG_OPTIONS = { config: { type: 'string' }, 'data-dir': { type: 'string' } } as const
