/** Reads and writes plain trees of YAML or JSON by path. Ignores inherited members. */
import type { Path } from './problem.ts'

export type Tree = Record<string, unknown>

export function isTree (value: unknown): value is Tree {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The value at `path`, or undefined. */
export function valueAt (root: unknown, path: Path): unknown {
  let value = root
  for (const part of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, part)) return undefined
    value = (value as Tree)[part]
  }
  return value
}

/** Puts `value` at `path`, and creates missing maps on the way. false: a scalar is in the way. */
export function putAt (root: unknown, path: Path, value: unknown): boolean {
  const last = path.at(-1)
  if (last === undefined) return false
  let parent = root
  for (const part of path.slice(0, -1)) {
    if (!isTree(parent) && !Array.isArray(parent)) return false
    const members = parent as Tree
    // YAML reads `stores:` without a value as null.
    if (!Object.hasOwn(members, part) || members[part] === null) members[part] = {}
    parent = members[part]
  }
  if (!isTree(parent) && !Array.isArray(parent)) return false
  ;(parent as Tree)[last] = value
  return true
}

/** Removes the member at `path`. An item of a list becomes undefined, so that the others keep their indices. */
export function removeAt (root: unknown, path: Path): void {
  const last = path.at(-1)
  const parent = valueAt(root, path.slice(0, -1))
  if (last === undefined) return
  if (Array.isArray(parent) && typeof last === 'number') parent[last] = undefined
  else if (isTree(parent)) delete parent[last]
}

/** Calls `visit` for every string in the tree, depth first. */
export function eachString (root: unknown, visit: (path: Path, text: string) => void, path: Path = []): void {
  if (typeof root === 'string') visit(path, root)
  else if (Array.isArray(root)) root.forEach((item, index) => { eachString(item, visit, [...path, index]) })
  else if (isTree(root)) Object.keys(root).forEach((name) => { eachString(root[name], visit, [...path, name]) })
}
