/** The schema as tables for docs/reference/configuration.md, and as JSON Schema for editors. scripts/generate.ts writes both. */
import { isDeepStrictEqual } from 'node:util'
import { FINGERPRINT_DEFAULTS, RELAY_DEFAULTS } from './routes/schema.ts'
import { fileSchema } from './schema.ts'
import type { SchemaNode } from './read/schema-words.ts'
import { patternChild } from './read/schema-walk.ts'
import { isTree, valueAt } from './read/tree.ts'

/** A URN, so that no editor tries to fetch it. */
const SCHEMA_ID = 'urn:onceway:configuration:1'
/** A reference that interpolate.ts replaces, anywhere in a text: `"${PORT:-8080}"`, `"${DELAY}s"`. */
const REFERENCE = {
  type: 'string',
  pattern: '\\$\\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\\}',
  // eslint-disable-next-line no-template-curly-in-string -- the file's
  description: 'A text with ${NAME} or ${NAME:-default}, replaced from the environment.'
} as const
const TO_REFERENCE = { $ref: '#/$defs/reference' } as SchemaNode

/** The JSON Schema (2020-12) of a configuration file. Every scalar may be a reference to the environment. */
export function schemaText (): string {
  return `${JSON.stringify({ $schema: 'https://json-schema.org/draft/2020-12/schema', $id: SCHEMA_ID, ...written(fileSchema()), $defs: { reference: REFERENCE } }, null, 2)}\n`
}

function written ({ mask, ...node }: SchemaNode): SchemaNode {
  const each = (nodes: Readonly<Record<string, SchemaNode>>): Record<string, SchemaNode> =>
    Object.fromEntries(Object.entries(nodes).map(([name, child]) => [name, written(child)]))
  if (!isContainerNode(node)) return mask === 'value' ? { ...withReference(node), writeOnly: true } : withReference(node)
  return {
    ...node,
    ...(node.properties && { properties: each(node.properties) }),
    ...(node.patternProperties && { patternProperties: each(node.patternProperties) }),
    ...(node.items && { items: written(node.items) }),
    ...(node.anyOf && {
      anyOf: [
        ...node.anyOf.map((branch) => isContainerNode(branch) ? written(branch) : branch),
        ...(node.anyOf.some(refusesReference) ? [TO_REFERENCE] : [])
      ]
    })
  }
}

function isContainerNode ({ type, anyOf }: SchemaNode): boolean {
  return type === 'object' || type === 'array' || anyOf !== undefined
}

/** A scalar whose schema refuses a reference. */
function refusesReference (node: SchemaNode): boolean {
  const isAnyText = node.type === 'string' &&
    node.const === undefined &&
    node.enum === undefined &&
    node.pattern === undefined &&
    node.maxLength === undefined &&
    (node.minLength ?? 0) <= 1
  return !isContainerNode(node) && !isAnyText
}

/** Description and default stay outside of `anyOf`, where editors look for them. */
function withReference (node: SchemaNode): SchemaNode {
  if (!refusesReference(node)) return node
  const { description, default: value, ...rest } = node
  return { ...(description !== undefined && { description }), ...(value !== undefined && { default: value }), anyOf: [rest, TO_REFERENCE] }
}

/** docs/reference/configuration.md: the head, the example, then one table for each part of the file. */
export function referenceText (head: string, example: string): string {
  const sections = Object.entries(fileSchema().properties ?? {}).map(([name, node]) => section(name, node))
  return `<!-- Made by "npm run generate" from the schema; do not edit. -->\n\n${head}\`\`\`yaml\n${example}\`\`\`\n\n${topTable()}\n${sections.filter((text) => text !== '').join('\n')}`
}

const TABLE_HEAD = '| path | type | default | what it does |\n|---|---|---|---|\n'

function topTable (): string {
  const scalars = Object.entries(fileSchema().properties ?? {}).filter(([, node]) => !isContainer(node))
  return `## At the top\n\n${TABLE_HEAD}${scalars.map(([name, node]) => row(name, node, fileSchema(), name)).join('')}`
}

function section (name: string, node: SchemaNode): string {
  if (!isContainer(node)) return ''
  return `## ${name}\n\n${node.description ?? ''}\n\n${TABLE_HEAD}${rows(containerPath(name, node), node).join('')}`
}

interface Outer { readonly path: string, readonly node: SchemaNode }

/** A row for each member. The members of a container follow its row. One row stands for all that an outer container has, too. */
function rows (path: string, container: SchemaNode, outer: readonly Outer[] = []): string[] {
  const node = memberOf(container)
  const members = Object.entries(node.properties ?? {})
  const elsewhere = outer.find((each) => members.filter((member) => has(each, member)).length >= FEWEST_TOGETHER)
  const { known = [], own = [] } = Object.groupBy(members, (member) => has(elsewhere, member) ? 'known' : 'own')
  const written = own.flatMap(([name, child]) => {
    const here = `${path}.${name}`
    const inside = isContainer(child) ? rows(containerPath(here, child), child, [{ path, node }, ...outer]) : []
    return [row(here, child, node, name), ...inside]
  })
  return elsewhere === undefined
    ? written
    : [...written, `| \`${path}.…\` | | – | ${known.map(([name]) => `\`${name}\``).join(', ')}: as in \`${elsewhere.path}\` |\n`]
}

/** Of fewer, each says more by a row of its own. */
const FEWEST_TOGETHER = 3

function has (outer: Outer | undefined, [name, child]: readonly [string, SchemaNode]): boolean {
  return isDeepStrictEqual(outer?.node.properties?.[name], child)
}

function row (path: string, node: SchemaNode, parent: SchemaNode, name: string): string {
  const required = parent.required?.includes(name) ?? false
  return `| \`${path}\` | ${typeText(node)} | ${required ? 'required' : defaultText(path, node)} | ${(node.description ?? '').replaceAll('|', '\\|')} |\n`
}

function containerPath (path: string, node: SchemaNode): string {
  if (node.items !== undefined) return `${path}[]`
  return patternChild(node) === undefined ? path : `${path}.NAME`
}

function isContainer (node: SchemaNode): boolean {
  return memberOf(node).properties !== undefined
}

/** The node with the members: the item of a list, the entry of a map, the map of a union, or the map itself. */
function memberOf (node: SchemaNode): SchemaNode {
  return node.items ?? patternChild(node) ?? node.anyOf?.find(({ properties }) => properties !== undefined) ?? node
}

function typeText (node: SchemaNode): string {
  if (node.anyOf !== undefined) return node.anyOf.map(typeText).join(' or ')
  if (node.const !== undefined) return `\`${String(node.const)}\``
  if (node.enum !== undefined) return node.enum.map((value) => `\`${String(value)}\``).join(', ')
  if (node.pattern?.includes('(ms|s|m|h|d)') === true) return 'duration'
  if (node.pattern?.includes('KiB') === true) return 'size'
  const words: Record<string, string> = {
    string: 'text',
    integer: 'number',
    number: 'number',
    boolean: 'true or false',
    array: 'list',
    object: 'map'
  }
  return words[node.type ?? ''] ?? 'any'
}

function defaultText (path: string, node: SchemaNode): string {
  if (path.endsWith('.fingerprint')) return `\`${flow(FINGERPRINT_DEFAULTS.api)}\`; relay: \`${flow(FINGERPRINT_DEFAULTS.relay)}\``
  if (node.default === undefined) return '–'
  const api = `\`${flow(node.default)}\``
  const relay = valueAt(RELAY_DEFAULTS, path.replace(/^routes\[\]\.idempotency\./, '').split('.'))
  return relay === undefined || isTree(relay) ? api : `${api}; relay: \`${flow(relay)}\``
}

/** A value in YAML flow style, on one line. */
function flow (value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(flow).join(', ')}]`
  if (!isTree(value)) return String(value)
  const members = Object.entries(value).map(([name, member]) => `${name}: ${flow(member)}`)
  return members.length === 0 ? '{}' : `{ ${members.join(', ')} }`
}
