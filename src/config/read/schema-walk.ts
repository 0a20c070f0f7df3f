/** Finding one's way in the schema: what stands at a path, which scalars there are, what a text means there. */
import type { Path } from './problem.ts'
import type { SchemaNode } from './schema-words.ts'
import { valueAt } from './tree.ts'
import type { Tree } from './tree.ts'

/** The schema of what stands at `path`, or null. In a union the first branch that knows the rest of the path. */
export function schemaAt (node: SchemaNode, path: Path): SchemaNode | null {
  const [part, ...rest] = path
  if (part === undefined) return node
  for (const branch of node.anyOf ?? []) {
    const found = schemaAt(branch, path)
    if (found !== null) return found
  }
  const child = typeof part === 'number' ? node.items : node.properties?.[part] ?? patternChild(node)
  return child === undefined ? null : schemaAt(child, rest)
}

/** Every scalar that a document like `tree` has or could have: with its path (items of lists left out). */
export function scalarPaths (node: SchemaNode, tree: unknown, path: Path = []): Array<{ path: Path, schema: SchemaNode }> {
  if (isScalarSchema(node)) return [{ path, schema: node }]
  const fixed = Object.entries(node.properties ?? {})
  const pattern = patternChild(node)
  const here = valueAt(tree, path)
  const named: Array<[string, SchemaNode]> = pattern === undefined || typeof here !== 'object' || here === null
    ? []
    : Object.keys(here as Tree).map((name) => [name, pattern])
  return [...fixed, ...named].flatMap(([name, child]) => scalarPaths(child, tree, [...path, name]))
}

/** A text from the environment as the type that the schema wants; as it is when it cannot be one, for the validator to say so. */
export function coerce (schema: SchemaNode | null, text: string): unknown {
  if (schema === null) return text
  if (schema.anyOf !== undefined) return schema.anyOf.map((branch) => coerce(branch, text)).find((value) => value !== text) ?? text
  const numeric = schema.type === 'integer' || schema.type === 'number' || typeof schema.const === 'number'
  if (numeric && /^-?[0-9]{1,15}$/.test(text)) return Number(text)
  if (schema.type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true'
  return text
}

/** The one schema of a map's members, whatever their names. */
export function patternChild (node: SchemaNode): SchemaNode | undefined {
  return Object.values(node.patternProperties ?? {})[0]
}

function isScalarSchema (node: SchemaNode): boolean {
  if (node.anyOf !== undefined) return node.anyOf.every(isScalarSchema)
  return node.enum !== undefined || ['string', 'integer', 'number', 'boolean'].includes(node.type ?? '')
}
