/**
 * docs/reference/log-events.md: the table of src/ports/log-events.ts, with the levels, messages and fields of the calls in src that write
 * the lines.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { LOG_EVENTS } from '../src/ports/log-events.ts'

const SRC = fileURLToPath(new URL('../src/', import.meta.url))
const LEVELS = ['error', 'warn', 'info', 'debug'] as const
type Level = typeof LEVELS[number]

export interface LogCall {
  readonly event: string
  readonly level: Level
  /** null: the sources do not have the text in one place. */
  readonly messages: ReadonlyArray<string | null>
  /** As far as the call itself shows them. */
  readonly fields: readonly string[]
}

const HEAD = `# Log events

<!-- Made by "npm run generate" from src; do not edit. -->

The log is one JSON object a line, on stdout. Every line has an \`event\`. This page says what each event means, and what to do.

\`\`\`json
{"level":"warn","time":"2026-11-21T10:15:02.123Z","service":"onceway","version":"0.1.0","instance":"gateway-1-7","event":"lease-lost","record":"Zk3V…","route":"payments","attempt":1,"sent":true,"msg":"lease lost while the execution runs"}
\`\`\`

Filter and alert by \`event\`. The text of \`msg\` is for people.

\`\`\`sh
# one event, without the lines at the start that are no JSON
jq -cR 'fromjson? | select(.event == "lease-lost")' gateway.log

# everything that is worth a look
jq -cR 'fromjson? | select(.level == "error" or .level == "warn")' gateway.log

# what became of requests, by outcome
jq -rR 'fromjson? | select(.event == "request") | .outcome' gateway.log | sort | uniq -c
\`\`\`

- **Every line** has \`level\`, \`time\`, \`service\`, \`version\`, \`instance\`, \`event\` and \`msg\`. An event has more fields, listed below. A field without a value is left out.
- **Levels.** [\`log.level\`](configuration.md) is the lowest level that is written. A \`…\` in a message stands for a text that differs.
- **Secrets.** No line has a key, a credential, a body or a query string. The field \`record\` is the id for \`onceway records show\` and \`onceway inbox show\`.
- **Alerts** are better made from metrics: [alerts](../guides/alerts.md). The log says which request, route or process it was.
`

export function logEventsPage (
  calls: readonly LogCall[] = logCalls(),
  events: Readonly<Record<string, { readonly means: string, readonly do: string }>> = LOG_EVENTS
): string {
  const used = Map.groupBy(calls, ({ event }) => event)
  const names = Object.keys(events).sort()
  const unused = names.filter((name) => !used.has(name))
  const unknown = [...used.keys()].filter((name) => !(name in events))
  if (unused.length + unknown.length > 0) {
    throw new Error(`src/ports/log-events.ts lacks ${unknown.join(', ') || 'none'}, and no line of src has ${unused.join(', ') || 'none'}`)
  }
  const sections = names.map((name) => section(name, events[name] as { means: string, do: string }, used.get(name) as LogCall[]))
  return [HEAD, byLevel(calls), ...sections].join('\n')
}

function byLevel (calls: readonly LogCall[]): string {
  const rows = LEVELS.map((level) => {
    const names = Array.from(new Set(calls.filter((call) => call.level === level).map(({ event }) => event))).sort()
    return `| \`${level}\` | ${names.map((name) => `[${name}](#${name})`).join(' · ')} |`
  })
  return `| level | events |\n|---|---|\n${rows.join('\n')}\n`
}

function section (name: string, { means, do: action }: { means: string, do: string }, calls: readonly LogCall[]): string {
  const lines = new Set(LEVELS.flatMap((level) => calls.filter((call) => call.level === level)).flatMap(({ level, messages }) =>
    messages.map((message) => `* \`${level}\`: ${message === null ? 'a sentence that differs' : message}`)))
  const fields = new Set(calls.flatMap((call) => call.fields))
  return `${[
    `## ${name}`,
    means,
    `**Do:** ${action}`,
    [...lines].join('\n'),
    ...fields.size === 0 ? [] : [`Fields: ${Array.from(fields, (field) => `\`${field}\``).join(', ')}`]
  ].join('\n\n')}\n`
}

// ---------------------------------------------------------------- the calls

/** @throws if a call's event is not written out where the line is written */
export function logCalls (sources: readonly ts.SourceFile[] = productSources()): LogCall[] {
  return sources.flatMap((source) => {
    const found: LogCall[] = []
    const visit = (node: ts.Node): void => {
      if (ts.isCallExpression(node)) found.push(...callOf(node, source, sources))
      ts.forEachChild(node, visit)
    }
    visit(source)
    return found
  })
}

function productSources (): ts.SourceFile[] {
  return readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts')).sort()
    .map((file) => ts.createSourceFile(file, readFileSync(join(SRC, file), 'utf8'), ts.ScriptTarget.Latest, true))
}

function callOf (call: ts.CallExpression, source: ts.SourceFile, sources: readonly ts.SourceFile[]): LogCall[] {
  const { expression: callee, arguments: [first, second, ...rest] } = call
  const [third] = rest
  if (ts.isIdentifier(callee) && callee.text === 'begin' && third !== undefined && ts.isStringLiteral(third)) {
    return [handWritten(call, third.text, source)]
  }
  if (!ts.isPropertyAccessExpression(callee)) return []
  const level = LEVELS.find((each) => each === callee.name.text)
  const of = callee.expression.getText().replace(/^.*[.#]/, '')
  if (level === undefined || first === undefined || second === undefined) return []
  if (of === 'notices' && ts.isStringLiteral(first)) {
    const [, fields, message] = rest
    const names = fields === undefined ? [] : fieldsOf(fields, source)
    return [{ event: first.text, level, messages: messagesOf(message, source, sources), fields: ['route', ...names, 'unsaid'] }]
  }
  if (of !== 'log') return []
  const event = ts.isObjectLiteralExpression(first) ? first.properties.find((each) => each.name?.getText() === 'event') : undefined
  // Notices pass on the event that their callers name.
  if (event !== undefined && ts.isShorthandPropertyAssignment(event)) return []
  if (event === undefined || !ts.isPropertyAssignment(event) || !ts.isStringLiteral(event.initializer)) {
    throw new Error(`src/${source.fileName} writes a line whose event is not written out: ${call.getText()}`)
  }
  const fields = fieldsOf(first, source).filter((name) => name !== 'event')
  return [{ event: event.initializer.text, level, messages: messagesOf(second, source, sources), fields }]
}

/** A line that src/telemetry/log.ts writes as text, field by field, at level info: of `begin(into, base, 'event')`. */
function handWritten (call: ts.CallExpression, event: string, source: ts.SourceFile): LogCall {
  const texts = textsIn(functionAround(call), source)
  return {
    event,
    level: 'info',
    messages: texts.flatMap((text) => /"msg":"(.*)"\}/.exec(text)?.[1] ?? []),
    fields: texts.flatMap((text) => Array.from(text.matchAll(/"(\w+)":/g), ([, name = '']) => name)).filter((name) => name !== 'msg')
  }
}

/** The strings of a function, in their order, also those that are constants of its file. */
function textsIn (node: ts.Node | undefined, source: ts.SourceFile): string[] {
  const found: string[] = []
  const visit = (each: ts.Node): void => {
    const value = ts.isIdentifier(each) && /^[A-Z_]+$/.test(each.text) ? declared(each.text, source) : each
    if (value !== undefined && ts.isStringLiteralLike(value)) found.push(value.text)
    else ts.forEachChild(each, visit)
  }
  if (node !== undefined) visit(node)
  return found
}

/** The names of an object's members, also of those that are spread into it from an object of the same file. */
function fieldsOf (node: ts.Expression, source: ts.SourceFile): string[] {
  if (ts.isParenthesizedExpression(node)) return fieldsOf(node.expression, source)
  if (ts.isBinaryExpression(node)) return fieldsOf(node.right, source)
  if (ts.isConditionalExpression(node)) return [...fieldsOf(node.whenTrue, source), ...fieldsOf(node.whenFalse, source)]
  if (ts.isIdentifier(node)) {
    const made = declared(node.text, source)
    return made !== undefined && ts.isObjectLiteralExpression(made) ? fieldsOf(made, source) : []
  }
  if (!ts.isObjectLiteralExpression(node)) return []
  return node.properties.flatMap((each) => ts.isSpreadAssignment(each) ? fieldsOf(each.expression, source) : [each.name?.getText() ?? ''])
}

function messagesOf (node: ts.Expression | undefined, source: ts.SourceFile, sources: readonly ts.SourceFile[]): Array<string | null> {
  if (node === undefined) return [null]
  if (ts.isStringLiteralLike(node)) return [node.text]
  if (ts.isTemplateExpression(node)) return [[node.head.text, ...node.templateSpans.map(({ literal }) => literal.text)].join('…')]
  if (!ts.isIdentifier(node)) return [null]
  const constant = /^[A-Z_]+$/.test(node.text)
    ? sources.map((each) => declared(node.text, each)).find((each) => each !== undefined && ts.isStringLiteralLike(each))
    : undefined
  if (constant !== undefined) return messagesOf(constant, source, sources)
  const around = functionAround(node)
  const at = around?.parameters.findIndex(({ name }) => name.getText() === node.text) ?? -1
  return around?.name === undefined || at < 0
    ? [null]
    : callsOf(around.name.getText(), source).flatMap(({ arguments: values }) => messagesOf(values[at], source, sources))
}

function declared (name: string, source: ts.SourceFile): ts.Expression | undefined {
  let found: ts.Expression | undefined
  const visit = (node: ts.Node): void => {
    if (ts.isVariableDeclaration(node) && node.name.getText() === name) found ??= node.initializer
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

function callsOf (name: string, source: ts.SourceFile): ts.CallExpression[] {
  const found: ts.CallExpression[] = []
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && [name, `this.${name}`].includes(node.expression.getText())) found.push(node)
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

function functionAround (node: ts.Node): ts.FunctionDeclaration | ts.MethodDeclaration | undefined {
  const around = ts.findAncestor(node, (each) => ts.isFunctionDeclaration(each) || ts.isMethodDeclaration(each))
  return around as ts.FunctionDeclaration | ts.MethodDeclaration | undefined
}
