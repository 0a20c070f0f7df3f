/**
 * Replaces `${NAME}` and `${NAME:-default}` in the scalars of a configuration. This happens after parsing, so that no value can add
 * members. `$${NAME}` yields `${NAME}`. A variable that is not set and has no default is a mistake. It is never an empty text, because a
 * forgotten database URL must not silently select the embedded store.
 */
import { mistake, pathText } from './problem.ts'
import type { Mistake, Path } from './problem.ts'
import { eachString, isTree, putAt, removeAt } from './tree.ts'

/** Start of a private area of Unicode. A character `c` is veiled as VEIL + c. The length stays the same, and so do lines and columns. */
const VEIL = 0xE000
const ASCII_END = 0x80
const VARIABLE = /\$\{[^}\n]*\}/g
const VEILED = /\uE024\uE07B[^\uE07D]*\uE07D/g
const NAME_AND_DEFAULT = /^\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?\}$/

/** Hides variables from the YAML parser, which would read `{ url: ${URL} }` as a map in a map. */
export function veil (text: string): string {
  return text.replace(VARIABLE, (variable) => shift(variable, (code) => code < ASCII_END ? code + VEIL : code))
}

export function unveil (text: string): string {
  return shift(text, (code) => code >= VEIL && code < VEIL + ASCII_END ? code - VEIL : code)
}

/** Replaces every variable in the tree, in place. An empty result is removed, because empty means unset. */
export function interpolate (tree: unknown, env: Environment, replaced: (path: Path, text: string) => unknown): Mistake[] {
  const mistakes = veiledKeys(tree)
  eachString(tree, (path, text) => {
    if (text.search(VEILED) === -1) return
    const value = expand(text, env, (message) => mistakes.push(mistake(path, message)))
    if (value === '') removeAt(tree, path)
    else putAt(tree, path, replaced(path, value))
  })
  return mistakes
}

function expand (text: string, env: Environment, wrong: (message: string) => void): string {
  return text.replace(VEILED, (veiled, offset: number) => {
    const variable = unveil(veiled)
    if (text[offset - 1] === '$') return variable
    const [, name, otherwise] = NAME_AND_DEFAULT.exec(variable) ?? []
    if (name === undefined) wrong('a variable is written $' + '{NAME} or $' + '{NAME:-default}; names have letters, digits and _')
    const value = name === undefined ? '' : env[name] ?? ''
    if (value === '' && otherwise === undefined && name !== undefined) {
      wrong(`the environment variable ${name} is not set (\${${name}:-default} would allow that)`)
    }
    return value === '' ? otherwise ?? '' : value
  }).replace(/\$\$\{/g, '${')
}

function veiledKeys (tree: unknown, path: Path = []): Mistake[] {
  if (typeof tree !== 'object' || tree === null) return []
  return Object.entries(tree).flatMap(([name, child]) => {
    const here = isTree(tree) && name.search(VEILED) !== -1
    const step = Array.isArray(tree) ? Number(name) : name
    return [
      ...(here ? [mistake(path, `variables are not replaced in names of members (${pathText([unveil(name)])})`)] : []),
      ...veiledKeys(child, [...path, step])
    ]
  })
}

function shift (text: string, move: (code: number) => number): string {
  return Array.from(text, (char) => char.length > 1 ? char : String.fromCharCode(move(char.charCodeAt(0)))).join('')
}

/** The process's environment, or a test's. */
export type Environment = Readonly<Record<string, string | undefined>>
