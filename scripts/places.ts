/** Where a text stands in a source: the function around it, and its whole lines. No line numbers: those change with every edit. */
import { readFileSync } from 'node:fs'
import ts from 'typescript'

export interface Code {
  readonly file: string
  /** The function, method or constant around it; null: the file itself. */
  readonly name: string | null
  /** Whole lines, without the indentation that they share. */
  readonly text: string
}

export interface Comment { readonly name: string | null, readonly text: string }

const known = new Map<string, ts.SourceFile>()

export function parsed (file: string): ts.SourceFile {
  const source = known.get(file) ?? ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest, true)
  known.set(file, source)
  return source
}

/** The lines of `file` that have `find` in them. */
export function codeOf (file: string, find: string): Code {
  const source = parsed(file)
  const whole = source.text
  const at = whole.indexOf(find)
  if (at < 0) throw new Error(`${file} has no ${find}`)
  const start = at + find.length - find.trimStart().length
  const end = at + find.trimEnd().length
  const lineStart = whole.lastIndexOf('\n', start) + 1
  const lineEnd = whole.indexOf('\n', end)
  return { file, name: nameAt(source, start, false), text: dedented(whole.slice(lineStart, lineEnd)) }
}

function dedented (text: string): string {
  const lines = text.split('\n')
  const indent = Math.min(...lines.filter((line) => line.trim() !== '').map((line) => line.length - line.trimStart().length))
  return lines.map((line) => line.slice(indent)).join('\n')
}

/** Every comment, with the name of what it is about: what follows it, or what is around it. */
export function commentsOf (source: ts.SourceFile): Comment[] {
  const ranges = new Map<number, ts.CommentRange>()
  const visit = (node: ts.Node): void => {
    const [before, behind] = [node.getFullStart(), node.getEnd()]
    for (const range of [
      ...ts.getLeadingCommentRanges(source.text, before) ?? [],
      ...ts.getTrailingCommentRanges(source.text, behind) ?? []
    ]) {
      ranges.set(range.pos, range)
    }
    for (const child of node.getChildren(source)) visit(child)
  }
  visit(source)
  return Array.from(ranges.values(), ({ pos, end }) => ({ name: nameAt(source, pos, true), text: source.text.slice(pos, end) }))
}

/** The innermost name around a position, with its class before it. `trivia`: the comments before a declaration belong to it. */
function nameAt (source: ts.SourceFile, position: number, trivia: boolean): string | null {
  let container = ''
  let name: string | null = null
  const visit = (node: ts.Node): void => {
    if (position < (trivia ? node.getFullStart() : node.getStart(source)) || position >= node.getEnd()) return
    if (ts.isClassDeclaration(node) || ts.isInterfaceDeclaration(node)) container = node.name?.text ?? ''
    else name = nameOf(node, source) ?? name
    ts.forEachChild(node, visit)
  }
  ts.forEachChild(source, visit)
  if (container === '') return name
  return name === null ? container : `${container}.${name as string}`
}

function nameOf (node: ts.Node, source: ts.SourceFile): string | null {
  if (ts.isConstructorDeclaration(node)) return 'constructor'
  if (ts.isFunctionDeclaration(node) || ts.isTypeAliasDeclaration(node)) return node.name?.text ?? null
  if (
    ts.isMethodDeclaration(node) ||
    ts.isAccessor(node) ||
    ts.isPropertyDeclaration(node) ||
    ts.isMethodSignature(node) ||
    ts.isPropertySignature(node)
  ) {
    return node.name.getText(source)
  }
  if (ts.isVariableStatement(node) && node.parent === source) {
    return node.declarationList.declarations.map((each) => each.name.getText(source)).join(', ')
  }
  return null
}
