/** Finds nodes and scalars of the schema by path, and converts texts to the type of a node. */
import type { Path } from './problem.ts'
import type { SchemaNode } from './schema-words.ts'
import { valueAt } from './tree.ts'
import type { Tree } from './tree.ts'

/** The schema node at `path`, or null. In a union, that of the first branch that has the rest of the path. */
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

/** Every scalar that `tree` has or could have, with its path. Items of lists are left out. */
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

/** Converts a text of the environment to the schema's type. If it cannot, it returns the text, and the validator reports it. */
export function coerce (schema: SchemaNode | null, text: string): unknown {
  if (schema === null) return text
  if (schema.anyOf !== undefined) return schema.anyOf.map((branch) => coerce(branch, text)).find((value) => value !== text) ?? text
  const numeric = schema.type === 'integer' || schema.type === 'number' || typeof schema.const === 'number'
  if (numeric && /^-?[0-9]{1,15}$/.test(text)) return Number(text)
  if (schema.type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true'
  return text
}

/** The schema of a map's members with any name. */
export function patternChild (node: SchemaNode): SchemaNode | undefined {
  return Object.values(node.patternProperties ?? {})[0]
}

function isScalarSchema (node: SchemaNode): boolean {
  if (node.anyOf !== undefined) return node.anyOf.every(isScalarSchema)
  return node.enum !== undefined || ['string', 'integer', 'number', 'boolean'].includes(node.type ?? '')
}
