/**
 * The schema's word on a tree: every mistake in a person's words, unknown members with the name that was probably meant,
 * and the tree with its defaults filled in. Rules that the schema cannot say are check.ts's.
 */
import { Ajv } from 'ajv'
import type { ErrorObject, ValidateFunction } from 'ajv'
import { mistake } from './problem.ts'
import type { Mistake, Path } from './problem.ts'
import { fileSchema } from './schema.ts'
import type { SchemaNode } from './schema.ts'
import { patternChild, schemaAt } from './schema-walk.ts'
import { removeAt, valueAt } from './tree.ts'
import { DURATION_HINT, DURATION_PATTERN, SIZE_HINT, SIZE_PATTERN } from './units.ts'

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
    default: return mistake(path, wrongValue(error))
  }
}

function unknownMember (path: Path, name: string): string {
  const schema = schemaAt(fileSchema(), path)
  if (schema !== null && patternChild(schema) !== undefined) return 'is no name that can stand here'
  if (/.:./.test(name)) return 'is not known; write a space behind the colon'
  const near = nearest(name, Object.keys(schema?.properties ?? {}))
  return `is not known${near === null ? '' : `; did you mean ${near}?`}`
}

function wrongValue ({ keyword, parentSchema, params, message, data }: ErrorObject): string {
  const { enum: values, pattern, type, const: only, anyOf } = (parentSchema ?? {}) as SchemaNode
  if (keyword === 'enum') return `must be one of ${values?.join(', ') ?? ''}${hint(data, values)}`
  if (keyword === 'const') return `must be ${String(only)}`
  if (keyword === 'anyOf') return `must be ${anyOf?.map(kindOf).join(' or ') ?? 'something else'}`
  if (keyword === 'type' && pattern === DURATION_PATTERN) return `is no duration; ${DURATION_HINT}`
  if (keyword === 'type' && pattern === SIZE_PATTERN) return `is no size; ${SIZE_HINT}`
  if (keyword === 'type') return `must be ${kindOf({ type: type ?? String((params as { type: unknown }).type) })}`
  if (keyword === 'pattern' && pattern === DURATION_PATTERN) return `is no duration; ${DURATION_HINT}`
  if (keyword === 'pattern' && pattern === SIZE_PATTERN) return `is no size; ${SIZE_HINT}`
  if (keyword === 'pattern') return `must match ${pattern ?? ''}`
  return message ?? 'is wrong'
}

function hint (data: unknown, values: readonly unknown[] = []): string {
  const near = typeof data === 'string' ? nearest(data, values.map(String)) : null
  return near === null ? '' : `; did you mean ${near}?`
}

function kindOf ({ type, const: only }: SchemaNode): string {
  const words: Record<string, string> = { string: 'a text', integer: 'a whole number', number: 'a number', boolean: 'true or false', array: 'a list', object: 'a map' }
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
    const inside = errors.filter((error) => error !== union && error.schemaPath.startsWith(`${union.schemaPath}/`) && error.instancePath.startsWith(union.instancePath))
    const branchOf = (error: ErrorObject) => error.schemaPath.slice(union.schemaPath.length + 1).split('/')[0]
    const wrongKind = (error: ErrorObject) => error.instancePath === union.instancePath && ['type', 'const'].includes(error.keyword)
    const unfit = new Set(inside.filter(wrongKind).map(branchOf))
    const told = inside.filter((error) => !unfit.has(branchOf(error)))
    inside.filter((error) => !told.includes(error)).forEach((error) => dropped.add(error))
    if (told.length > 0) dropped.add(union)
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

/** The candidate that differs least, if it differs little: a third of its letters at most. */
export function nearest (name: string, candidates: readonly string[]): string | null {
  const plain = (text: string) => text.toLowerCase().replaceAll(/[-_]/g, '')
  const near = candidates.map((candidate) => ({ candidate, distance: distance(plain(name), plain(candidate)) }))
    .filter(({ candidate, distance }) => distance <= Math.max(1, Math.floor(candidate.length / 3)))
    .sort((a, b) => a.distance - b.distance)
  return near[0]?.candidate ?? null
}

/** Levenshtein's, row by row; names are short. */
function distance (from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (let i = 0; i < Math.min(from.length, 64); i++) {
    const next = [i + 1]
    for (let j = 0; j < to.length; j++) {
      next.push(Math.min((row[j] ?? 0) + (from[i] === to[j] ? 0 : 1), (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1))
    }
    row = next
  }
  return row[to.length] ?? 0
}
