/**
 * Parses the text of a configuration file into a plain tree, with the line and column of every node. Strict YAML 1.2: no tags, no merge
 * keys, no duplicate members, few aliases.
 */
import { LineCounter, isAlias, isMap, isScalar, isSeq, parseDocument } from 'yaml'
import type { Document } from 'yaml'
import type { ConfigProblem, Path } from './problem.ts'
import { unveil, veil } from './interpolate.ts'

/** A larger file is not a configuration. */
export const FILE_BYTES_MAX = 1024 * 1024
/** Most aliases that are resolved: enough for shared blocks, too few for a "billion laughs" attack. */
const ALIASES_MAX = 100

export interface Place { readonly line: number, readonly column: number }

export interface Source {
  readonly file: string
  /** Its variables are still veiled (interpolate.ts). undefined: the text is not YAML. */
  readonly tree: unknown
  readonly problems: readonly ConfigProblem[]
  /** The place of a path. If nothing is there, the place of its nearest parent. null: not from a file. */
  readonly locate: (path: Path, at: 'key' | 'value') => Place | null
}

/** `file`: its name in problems. */
export function readSource (file: string, text: string): Source {
  const lines = new LineCounter()
  const document = parseDocument(veil(text), {
    lineCounter: lines, prettyErrors: false, stringKeys: true, resolveKnownTags: false, merge: false, logLevel: 'silent'
  })
  const problems = [...document.errors, ...document.warnings].map(({ pos, message }) => {
    const { line, col } = lines.linePos(pos[0])
    return { file, line, column: col, path: '', message: withoutSource(unveil(message)) }
  })
  const locate = (path: Path, at: 'key' | 'value') => place(lines, offsetOf(document, path, at))
  if (problems.length > 0) return { file, tree: undefined, problems, locate }
  try {
    const tree: unknown = document.toJS({ maxAliasCount: ALIASES_MAX })
    if (isCyclic(tree)) throw new Error('an alias stands inside what it refers to')
    return { file, tree, problems, locate }
  } catch (error) {
    const message = error instanceof Error ? withoutSource(unveil(error.message)) : 'cannot be read'
    return { file, tree: undefined, problems: [{ file, line: 1, column: 1, path: '', message }], locate }
  }
}

/** Removes quoted source from a parser's message. A word that it could not read may be a password that begins with ! or *. */
function withoutSource (message: string): string {
  const cut = message.replace(/(?<=\S):\s.*$/s, '').replace(/^(Verbatim tags|The .* tag has no suffix).*$/s, 'Unresolved tag')
  return /^Unresolved (tag|alias)/.test(cut) ? `${cut}; quote a value that begins with ! or *` : cut
}

/** A tree that does not come from a file. */
export function treeSource (name: string, tree: unknown): Source {
  return { file: name, tree, problems: [], locate: () => null }
}

function isCyclic (tree: unknown, above: readonly unknown[] = []): boolean {
  if (typeof tree !== 'object' || tree === null) return false
  return above.includes(tree) || Object.values(tree).some((child) => isCyclic(child, [...above, tree]))
}

function place (lines: LineCounter, offset: number): Place {
  const { line, col } = lines.linePos(offset)
  return { line, column: col }
}

/** Follows the path as far as the document goes. */
function offsetOf (document: Document, path: Path, at: 'key' | 'value'): number {
  let node: unknown = document.contents
  let offset = rangeStart(node) ?? 0
  for (const part of path) {
    if (isAlias(node)) node = node.resolve(document)
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => isScalar(key) && String(key.value) === part)
      if (pair === undefined) return offset
      node = pair.value
      const ofKey = rangeStart(pair.key) ?? offset
      // For a map or a list, the place of its name. The first line inside it would look like a mistake of its first member.
      offset = at === 'value' && isScalar(node) ? rangeStart(node) ?? ofKey : ofKey
    } else if (isSeq(node) && typeof part === 'number') {
      node = node.items[part]
      offset = rangeStart(node) ?? offset
    } else return offset
  }
  return offset
}

function rangeStart (node: unknown): number | null {
  const { range } = (node ?? {}) as { range?: [number, number, number] | null }
  return range?.[0] ?? null
}
