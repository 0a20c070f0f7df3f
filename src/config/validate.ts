/**
 * Validates a tree against the schema and fills in its defaults. Turns each error into a readable mistake, with a suggestion for unknown
 * names. Rules that the schema cannot express are in check.ts.
 */
import { Ajv } from 'ajv'
import type { ErrorObject, ValidateFunction } from 'ajv'
import { holdsSecret } from './read/mask.ts'
import { didYouMean } from './read/nearest.ts'
import { mistake, printable } from './read/problem.ts'
import type { Mistake, Path } from './read/problem.ts'
import { fileSchema } from './schema.ts'
import type { SchemaNode } from './read/schema-words.ts'
import { patternChild, schemaAt } from './read/schema-walk.ts'
import { removeAt, valueAt } from './read/tree.ts'
import { DURATION_HINT, DURATION_PATTERN, SIZE_HINT, SIZE_PATTERN, meantUnit } from './read/units.ts'

/** The compiled validator runs once or twice in a process, so optimizing it costs more than it saves. */
const COMPILED_FAST = { code: { optimize: false }, validateSchema: false } as const
/** strict: false, because Ajv refuses defaults beside `anyOf`, which the reference page needs. */
const OPTIONS = { allErrors: true, useDefaults: true, verbose: true, strict: false, ...COMPILED_FAST } as const

let compiled: ValidateFunction | undefined

/** Fills defaults into `tree`, in place, and returns its mistakes. */
export function validate (tree: unknown): Mistake[] {
  compiled ??= new Ajv(OPTIONS).compile(fileSchema())
  compiled(tree)
  const errors = withoutOtherBranches(compiled.errors ?? [])
  return errors.map((error) => asMistake(error, tree))
}

/**
 * Replaces wrong values by defaults, in place, so that check.ts can check the rest in the same run. `broken`: paths that are still wrong,
 * because something required is missing.
 */
export function repair (tree: unknown, mistakes: readonly Mistake[]): { broken: Path[] } {
  for (const { path } of mistakes) if (path.length > 0) removeAt(tree, removable(path))
  return { broken: validate(tree).map(({ path }) => path) }
}

/** For an item of a list inside a route, the whole list, so that its default applies. Other lists keep their indices. */
function removable (path: Path): Path {
  const inList = typeof path.at(-1) === 'number' && path.length > 2
  return inList && path[0] === 'routes' ? path.slice(0, -1) : path
}

function asMistake (error: ErrorObject, tree: unknown): Mistake {
  const path = pathOf(error.instancePath, tree)
  switch (error.keyword) {
    case 'required': {
      const { missingProperty } = error.params as { missingProperty: string }
      return mistake([...path, missingProperty], 'is missing', 'key')
    }
    case 'additionalProperties': {
      const { additionalProperty } = error.params as { additionalProperty: string }
      return mistake([...path, additionalProperty], unknownMember(path, additionalProperty), 'key')
    }
    default: return mistake(path, wrongValue(error, path))
  }
}

function unknownMember (path: Path, name: string): string {
  const schema = schemaAt(fileSchema(), path)
  if (schema !== null && patternChild(schema) !== undefined) return 'is not a valid name here'
  if (/.:./.test(name)) return 'is not known; write a space after the colon'
  return `is not known${didYouMean(name, Object.keys(schema?.properties ?? {}))}`
}

/** The message begins with the wrong value, unless it may be a secret. */
function wrongValue (error: ErrorObject, path: Path): string {
  const value = valueText(error.data, path)
  return value === null ? wrongness(error, null) : `${value} ${wrongness(error, String(error.data))}`
}

/** null: it may be a secret, or is a list or a map. */
function valueText (data: unknown, path: Path): string | null {
  const schema = schemaAt(fileSchema(), path)
  if (schema === null || holdsSecret(schema) || (typeof data === 'object' && data !== null)) return null
  return typeof data === 'string' ? `"${printable(data)}"` : String(data)
}

/** `shown`: the value, or null if it may be a secret. */
function wrongness ({ keyword, parentSchema, params, message }: ErrorObject, shown: string | null): string {
  const { enum: values = [], pattern, type, const: only, anyOf } = (parentSchema ?? {}) as SchemaNode
  const { limit } = params as { limit?: number }
  const meant = (candidates: readonly unknown[]): string => shown === null ? '' : didYouMean(shown, candidates.map(String))
  if (keyword === 'enum') return `must be one of ${values.join(', ')}${meant(values)}`
  if (keyword === 'const') return `must be ${String(only)}`
  if (keyword === 'anyOf') return `must be ${anyOf?.map(kindOf).join(' or ') ?? 'something else'}${meant(anyOf?.flatMap((branch) => branch.const === undefined ? [] : [branch.const]) ?? [])}`
  if ((keyword === 'type' || keyword === 'pattern') && (pattern === DURATION_PATTERN || pattern === SIZE_PATTERN)) {
    return wrongUnit(pattern, shown)
  }
  if (keyword === 'type') return `must be ${kindOf({ type: type ?? String((params as { type: unknown }).type) })}`
  if (keyword === 'pattern') return `must match ${pattern ?? ''}`
  if (keyword === 'minLength') return limit === 1 ? 'is empty' : `must have at least ${limit} characters`
  if (keyword === 'maxLength') return `must have at most ${limit} characters`
  if (keyword === 'minProperties' && limit === 1) return 'is empty'
  return message ?? 'is wrong'
}

function wrongUnit (pattern: string, shown: string | null): string {
  const meant = shown === null ? null : meantUnit(shown, pattern)
  const hint = meant === null ? '' : `; did you mean ${meant}?`
  return pattern === DURATION_PATTERN ? `is no duration; ${DURATION_HINT}${hint}` : `is no size; ${SIZE_HINT}${hint}`
}

function kindOf ({ type, const: only }: SchemaNode): string {
  const words: Record<string, string> = {
    string: 'a text',
    integer: 'a whole number',
    number: 'a number',
    boolean: 'true or false',
    array: 'a list',
    object: 'a map'
  }
  return only === undefined ? words[type ?? ''] ?? 'something else' : String(only)
}

/**
 * Ajv reports the errors of every branch of a union. Keeps only those of the branch whose type fits the value. If none fits, keeps only the
 * error of the union.
 */
function withoutOtherBranches (errors: readonly ErrorObject[]): ErrorObject[] {
  const unions = errors.filter(({ keyword }) => keyword === 'anyOf')
  const dropped = new Set<ErrorObject>()
  for (const union of unions) {
    const inside = errors.filter((error) =>
      error !== union && error.schemaPath.startsWith(`${union.schemaPath}/`) && error.instancePath.startsWith(union.instancePath))
    const branchOf = (error: ErrorObject) => error.schemaPath.slice(union.schemaPath.length + 1).split('/')[0]
    const wrongKind = (error: ErrorObject) => error.instancePath === union.instancePath && ['type', 'const'].includes(error.keyword)
    const unfit = new Set(inside.filter(wrongKind).map(branchOf))
    const kept = inside.filter((error) => !unfit.has(branchOf(error)))
    inside.filter((error) => !kept.includes(error)).forEach((error) => dropped.add(error))
    if (kept.length > 0) dropped.add(union)
  }
  return errors.filter((error) => !dropped.has(error))
}

/** A JSON pointer as a path. Indices of lists become numbers. */
function pathOf (pointer: string, tree: unknown): Path {
  const path: Array<string | number> = []
  for (const part of pointer.split('/').slice(1)) {
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~')
    path.push(Array.isArray(valueAt(tree, path)) ? Number(name) : name)
  }
  return path
}
