/** Finds settings of later versions before the schema is applied, so that they get a better message than "is not known". */
import { mistake } from './problem.ts'
import type { Mistake, Path } from './problem.ts'
import { removeAt, valueAt } from './tree.ts'

const MESSAGE = 'is not in this version'

interface Unsupported {
  readonly path: ReadonlyArray<string>
  /** Whether this value is unsupported. Absent: any value is. */
  readonly when?: (value: unknown) => boolean
  readonly instead?: string
}

const IDEMPOTENCY = ['routes', '*', 'idempotency'] as const

const UNSUPPORTED: readonly Unsupported[] = [
  { path: ['drop'] },
  { path: [...IDEMPOTENCY, 'mode'], when: isOneOf('observe'), instead: 'write enforce, drop or inbox' },
  { path: [...IDEMPOTENCY, 'scope'], when: isUnsupportedScope, instead: 'use header:, cookie:, jwt: or const: parts' }
]

/** Removes unsupported settings from `tree`, in place, and returns a mistake for each. */
export function takeUnsupported (tree: unknown): Mistake[] {
  return UNSUPPORTED.flatMap(({ path, when, instead }) =>
    placesOf(tree, path).filter((place) => when?.(valueAt(tree, place)) ?? true).map((place) => {
      removeAt(tree, place)
      return mistake(place, `${MESSAGE}${instead === undefined ? '' : `: ${instead}`}`, 'key')
    }))
}

/** Every path in `tree` that matches the pattern. `*` is any item of a list. */
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
