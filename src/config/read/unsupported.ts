/**
 * What the design has and this version does not: found before the schema is asked, so that a file for a later version is
 * told so instead of getting "unknown key". Everything found is taken out of the tree.
 */
import { mistake } from './problem.ts'
import type { Mistake, Path } from './problem.ts'
import { removeAt, valueAt } from './tree.ts'

const MESSAGE = 'is not in this version'

interface Unsupported {
  readonly path: ReadonlyArray<string>
  /** Is this value of a later version? Not given: any value. */
  readonly when?: (value: unknown) => boolean
  readonly instead?: string
}

const IDEMPOTENCY = ['routes', '*', 'idempotency'] as const

const UNSUPPORTED: readonly Unsupported[] = [
  { path: ['drop'] },
  { path: [...IDEMPOTENCY, 'mode'], when: isOneOf('observe'), instead: 'write enforce, drop or inbox' },
  { path: [...IDEMPOTENCY, 'scope'], when: isUnsupportedScope, instead: 'use header:, cookie:, jwt: or const: parts' }
]

/** Finds and removes, in place. */
export function takeUnsupported (tree: unknown): Mistake[] {
  return UNSUPPORTED.flatMap(({ path, when, instead }) =>
    placesOf(tree, path).filter((place) => when?.(valueAt(tree, place)) ?? true).map((place) => {
      removeAt(tree, place)
      return mistake(place, `${MESSAGE}${instead === undefined ? '' : `: ${instead}`}`, 'key')
    }))
}

/** Every place that the pattern names and that is there; `*` is any item of a list. */
function placesOf (tree: unknown, pattern: readonly string[], path: Path = []): Path[] {
  const [part, ...rest] = pattern
  if (part === undefined) return valueAt(tree, path) === undefined ? [] : [path]
  if (part !== '*') return placesOf(tree, rest, [...path, part])
  const list = valueAt(tree, path)
  return Array.isArray(list) ? list.flatMap((_, index) => placesOf(tree, rest, [...path, index])) : []
}

function isOneOf (...values: readonly unknown[]): (value: unknown) => boolean {
  return (value) => values.includes(value)
}

function isUnsupportedScope (value: unknown): boolean {
  return Array.isArray(value) ? value.some(isUnsupportedScope) : typeof value === 'string' && /^(forwardAuth:|clientCert)/.test(value)
}
