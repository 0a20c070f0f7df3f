/**
 * What is wrong with a configuration: one problem a mistake, all of them at once, each with its place. A problem never
 * holds a value that may be secret, only where it stands.
 */
import { StartError } from '../errors.ts'

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

/** ['routes', 0, 'match'] -> `routes[0].match`. */
export function pathText (path: Path): string {
  return path.map((part, index) => typeof part === 'number' ? `[${part}]` : `${index === 0 ? '' : '.'}${part}`).join('')
}

/** `onceway.yaml:12:9: routes[0].idempotency.lease: …`, as compilers write it, so that editors can jump there. */
export function problemLine ({ file, line, column, path, message }: ConfigProblem): string {
  const place = line === null ? file : `${file}:${line}:${column ?? 1}`
  return `${place}: ${path === '' ? '' : `${path}: `}${message}`
}
