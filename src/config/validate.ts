/**
 * The schema's word on a tree: every mistake in a person's words, unknown members with the name that was probably meant,
 * and the tree with its defaults filled in. Rules that the schema cannot say are check.ts's.
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

/** What is compiled runs once or twice in a process: to make it quicker takes longer than it does. */
const COMPILED_FAST = { code: { optimize: false }, validateSchema: false } as const
/** strict: false — defaults beside anyOf are read by the docs, not by Ajv, which would refuse the schema for them. */
const OPTIONS = { allErrors: true, useDefaults: true, verbose: true, strict: false, ...COMPILED_FAST } as const

let compiled: ValidateFunction | undefined

/** Fills defaults into `tree`, in place, and tells what is wrong with it. */
export function validate (tree: unknown): Mistake[] {
  compiled ??= new Ajv(OPTIONS).compile(fileSchema())
  compiled(tree)
  const errors = withoutOtherBranches(compiled.errors ?? [])
  return errors.map((error) => asMistake(error, tree))
}

/**
 * The tree without what is wrong in it, defaults in its place, so that check.ts can look at the rest in the same run.
 * `broken`: what is still wrong then (something required is missing).
 */
export function repair (tree: unknown, mistakes: readonly Mistake[]): { broken: Path[] } {
  for (const { path } of mistakes) if (path.length > 0) removeAt(tree, removable(path))
  return { broken: validate(tree).map(({ path }) => path) }
}

/** Of a list inside a route the whole list goes, so that its default comes and the route is sound again; other lists keep their places. */
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
  if (schema !== null && patternChild(schema) !== undefined) return 'is no name that can stand here'
  if (/.:./.test(name)) return 'is not known; write a space behind the colon'
  return `is not known${didYouMean(name, Object.keys(schema?.properties ?? {}))}`
}

/** The value that is wrong comes first, where no secret can stand. */
function wrongValue (error: ErrorObject, path: Path): string {
  const value = valueText(error.data, path)
  return value === null ? wrongness(error, null) : `${value} ${wrongness(error, String(error.data))}`
}

/** null: it is not to be shown, or is more than a word. */
function valueText (data: unknown, path: Path): string | null {
  const schema = schemaAt(fileSchema(), path)
  if (schema === null || holdsSecret(schema) || (typeof data === 'object' && data !== null)) return null
  return typeof data === 'string' ? `"${printable(data)}"` : String(data)
}

/** `shown`: the value, if it may be. */
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
 * Of a union, Ajv tells the mistakes of every branch. Only the branch whose type the value has is worth telling; without
 * one, only the union itself.
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

/** A JSON pointer as a path; steps into lists become numbers. */
function pathOf (pointer: string, tree: unknown): Path {
  const path: Array<string | number> = []
  for (const part of pointer.split('/').slice(1)) {
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~')
    path.push(Array.isArray(valueAt(tree, path)) ? Number(name) : name)
  }
  return path
}
