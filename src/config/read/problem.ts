/**
 * What is wrong with a configuration: one problem a mistake, all of them at once, each with its place. A problem never
 * holds a value that may be secret, only where it stands.
 */
import { StartError } from '../../ports/errors.ts'

export interface ConfigProblem {
  /** The file, or the environment variable that the value came from. */
  readonly file: string
  /** Counted from 1; null: the place has none (an environment variable, a flag). */
  readonly line: number | null
  readonly column: number | null
  /** `routes[0].idempotency.lease`; empty: the file as a whole. */
  readonly path: string
  readonly message: string
}

/** Thrown with every problem that was found. Exit code 2. */
export class ConfigInvalid extends StartError {
  readonly problems: readonly ConfigProblem[]

  constructor (problems: readonly ConfigProblem[]) {
    super(problems.map(problemLine).join('\n'), 2)
    this.name = 'ConfigInvalid'
    this.problems = problems
  }
}

/** A place in the configuration: names of members and indices of items. */
export type Path = ReadonlyArray<string | number>

/** A mistake before its place in the file is looked up. `at`: point at the name of the member or at its value. */
export interface Mistake { readonly path: Path, readonly at: 'key' | 'value', readonly message: string }

export function mistake (path: Path, message: string, at: Mistake['at'] = 'value'): Mistake {
  return { path, at, message }
}

/** What a text of the configuration means, or why it means nothing: the rest of a sentence that begins with its place. */
export type Read<T> = { readonly value: T } | { readonly wrong: string }

/** ['routes', 0, 'match'] -> `routes[0].match`. */
export function pathText (path: Path): string {
  return path.map((part, index) => typeof part === 'number' ? `[${part}]` : `${index === 0 ? '' : '.'}${part}`).join('')
}

/** Longer is told by its beginning. */
const SHOWN_MAX = 60
// eslint-disable-next-line no-control-regex -- these are what is escaped, and marks that turn the order of a line around
const NOT_PRINTED = /[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ue000-\ue07f]/g

/** As a terminal may have it: cut, and with every control character escaped. */
export function printable (text: string): string {
  const shown = Array.from(text)
  const escaped = shown
    .slice(0, SHOWN_MAX)
    .join('')
    .replace(NOT_PRINTED, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
  return shown.length > SHOWN_MAX ? `${escaped}…` : escaped
}

/** As {@link pathText}. What stands behind a colon in a name is a value whose space was forgotten (`{token:abc}`), and may be a secret. */
export function shownPath (path: Path): string {
  return pathText(path.map((part) => typeof part === 'number' ? part : printable(part.replace(/(?<=.:).+$/s, '…'))))
}

/** `onceway.yaml:12:9: routes[0].idempotency.lease: …`, as compilers write it, so that editors can jump there. */
export function problemLine ({ file, line, column, path, message }: ConfigProblem): string {
  const place = line === null ? file : `${file}:${line}:${column ?? 1}`
  return `${place}: ${path === '' ? '' : `${path}: `}${message}`
}
