/** Mistakes and problems of a configuration. A problem is a mistake with its place. It never shows a value that may be a secret. */
import { StartError } from '../../ports/errors.ts'

export interface ConfigProblem {
  /** The file, the environment variable or the flag that the value came from. */
  readonly file: string
  /** From 1. null: a variable or a flag has no line. */
  readonly line: number | null
  readonly column: number | null
  /** `routes[0].idempotency.lease`. Empty: the whole file. */
  readonly path: string
  readonly message: string
}

/** Has every problem of a configuration. Exit code 2. */
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

/** A mistake before its place is looked up. `at`: whether the place is that of the member's name or of its value. */
export interface Mistake { readonly path: Path, readonly at: 'key' | 'value', readonly message: string }

export function mistake (path: Path, message: string, at: Mistake['at'] = 'value'): Mistake {
  return { path, at, message }
}

/** The meaning of a text, or why it is wrong. `wrong` continues a sentence that begins with the path. */
export type Read<T> = { readonly value: T } | { readonly wrong: string }

/** ['routes', 0, 'match'] -> `routes[0].match`. */
export function pathText (path: Path): string {
  return path.map((part, index) => typeof part === 'number' ? `[${part}]` : `${index === 0 ? '' : '.'}${part}`).join('')
}

/** Longer texts are cut. */
const SHOWN_MAX = 60
// eslint-disable-next-line no-control-regex -- control characters, and marks that reverse the direction of text
const NOT_PRINTED = /[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ue000-\ue07f]/g

/** A text that is safe for a terminal: cut, and with every control character escaped. */
export function printable (text: string): string {
  const shown = Array.from(text)
  const escaped = shown
    .slice(0, SHOWN_MAX)
    .join('')
    .replace(NOT_PRINTED, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
  return shown.length > SHOWN_MAX ? `${escaped}…` : escaped
}

/** As {@link pathText}. Text after a colon in a name is cut. It is a value without its space (`{token:abc}`), and may be a secret. */
export function shownPath (path: Path): string {
  return pathText(path.map((part) => typeof part === 'number' ? part : printable(part.replace(/(?<=.:).+$/s, '…'))))
}

/** `onceway.yaml:12:9: routes[0].idempotency.lease: …`, the format of compilers, so that editors can jump there. */
export function problemLine ({ file, line, column, path, message }: ConfigProblem): string {
  const place = line === null ? file : `${file}:${line}:${column ?? 1}`
  return `${place}: ${path === '' ? '' : `${path}: `}${message}`
}
