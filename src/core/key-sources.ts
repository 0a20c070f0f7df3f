/**
 * Where the key of a request is: a header, the query, a value of its body, several of them put together, or its content. The
 * sources of a route are tried in their order; the first that yields wins. Pure; never echoes a value.
 */
import { canonicalJson } from './canonical-json.ts'
import { framedDigest } from './digest.ts'
import { findValues, scalarText } from './json-pointer.ts'
import type { Found, Pointer } from './json-pointer.ts'
import { KEY_CHARS_MAX, parseKey } from './key.ts'
import type { KeyResult } from './key.ts'
import { headerLines } from './lines.ts'
import type { KeyPolicy, RouteMatch } from './policy.ts'
import type { RawHeaders } from './record.ts'

export type KeySource =
  /** Lower case. The key as it comes, in either of its two spellings (key.ts). */
  | { readonly kind: 'header', readonly name: string }
  | { readonly kind: 'query', readonly name: string }
  | { readonly kind: 'json', readonly pointer: Pointer, readonly written: string }
  | { readonly kind: 'template', readonly parts: readonly KeyPart[] }
  | { readonly kind: 'hash', readonly of: 'body' | ReadonlyArray<{ readonly pointer: Pointer, readonly written: string }> }

export type KeyPart =
  | { readonly kind: 'text', readonly text: string }
  | { readonly kind: 'header', readonly name: string }
  | { readonly kind: 'query', readonly name: string }
  | { readonly kind: 'path', readonly name: string }
  | { readonly kind: 'json', readonly pointer: Pointer, readonly written: string }
  /** The gateway's own, in UTC. */
  | { readonly kind: 'date', readonly by: 'day' | 'hour' }

export interface Keyed {
  readonly rawHeaders: RawHeaders
  readonly target: string
  /** For `{path:…}`. */
  readonly match: Pick<RouteMatch, 'path'>
  readonly nowMs: () => number
}

export type FoundKey =
  | (KeyResult & { readonly source?: KeySource })
  /** None of the head's: one of the body's is next, and the body has not been read. */
  | { readonly kind: 'body' }
  /** What the key is to be made of is not there. `detail` names it, never its value. */
  | { readonly kind: 'missing', readonly detail: string }

/** Several values in one, and what frames them. */
export const DERIVED_CHARS_MAX = 1_024

/** `body` null: it has not been read yet. */
export function findKey (policy: KeyPolicy, keyed: Keyed, body: Buffer | null): FoundKey {
  // Nearly every route has one header; nothing is made for it.
  if (policy.sources.length === 1 && policy.sources[0]?.kind === 'header') return parseKey(keyed.rawHeaders, policy)
  let missing: FoundKey | null = null
  const values = lazily(() => valuesOf(policy, body))
  for (const source of policy.sources) {
    if (body === null && asksBody(source)) return { kind: 'body' }
    const found = fromSource(source, policy, keyed, body, values)
    if (found.kind === 'missing') missing ??= found
    else if (found.kind !== 'absent') return found.kind === 'key' ? { ...found, source } : found
  }
  return missing ?? { kind: 'absent' }
}

/** By pointer: the body is searched once for all that any source asks of it. */
type Values = () => ReadonlyMap<Pointer, Found>

function valuesOf ({ sources }: KeyPolicy, body: Buffer | null): ReadonlyMap<Pointer, Found> {
  const pointers = sources.flatMap(pointersOf)
  const found = body === null ? [] : findValues(body, pointers)
  return new Map(pointers.map((pointer, index) => [pointer, found[index] ?? { kind: 'none' }]))
}

function pointersOf (source: KeySource): Pointer[] {
  switch (source.kind) {
    case 'json': return [source.pointer]
    case 'hash': return source.of === 'body' ? [] : source.of.map(({ pointer }) => pointer)
    case 'template': return source.parts.flatMap(part => part.kind === 'json' ? [part.pointer] : [])
    case 'header':
    case 'query': return []
  }
}

function asksBody (source: KeySource): boolean {
  return source.kind === 'json' || source.kind === 'hash' || (source.kind === 'template' && source.parts.some(({ kind }) => kind === 'json'))
}

function fromSource (source: KeySource, policy: KeyPolicy, keyed: Keyed, body: Buffer | null, values: Values): FoundKey {
  switch (source.kind) {
    case 'header': return parseKey(keyed.rawHeaders, { header: source.name, syntax: policy.syntax })
    case 'query': return fromQuery(source.name, keyed.target)
    case 'json': return fromValue(valueText(values(), source), `the body's value at ${source.written}`)
    case 'template': return fromTemplate(source.parts, keyed, values)
    case 'hash': return fromContent(source.of, body ?? Buffer.alloc(0), values)
  }
}

// ---------------------------------------------------------------- one value

type Value =
  | { readonly kind: 'value', readonly text: string }
  | { readonly kind: 'none' }
  /** There, and of no use: a document, or too long, or there twice. */
  | { readonly kind: 'unfit', readonly why: string }

const NONE: Value = { kind: 'none' }

function fromValue (value: Value, what: string): FoundKey {
  if (value.kind === 'none') return missing(`The key is to be ${what}, which is not there.`)
  return value.kind === 'unfit' ? invalid(what, value.why) : { kind: 'key', key: value.text }
}

function missing (detail: string): FoundKey {
  return { kind: 'missing', detail }
}

function invalid (what: string, why: string): FoundKey {
  return { kind: 'invalid', detail: `The key is to be ${what}, which ${why}.` }
}

function fitted (text: string): Value {
  if (text === '') return NONE
  if (text.length > KEY_CHARS_MAX) return { kind: 'unfit', why: `is longer than ${KEY_CHARS_MAX} characters` }
  return text.isWellFormed() && !CONTROL.test(text) ? { kind: 'value', text } : { kind: 'unfit', why: 'has characters that no key may have' }
}

// eslint-disable-next-line no-control-regex -- these are what is looked for
const CONTROL = /[\x00-\x1f\x7f]/

function valueText (values: ReadonlyMap<Pointer, Found>, { pointer }: { readonly pointer: Pointer }): Value {
  const found = values.get(pointer) ?? { kind: 'none' }
  if (found.kind === 'ambiguous') return { kind: 'unfit', why: 'is there more than once' }
  if (found.kind === 'none' || found.source === 'null') return NONE
  const text = scalarText(found.source)
  return text === null ? { kind: 'unfit', why: 'is no string, integer or boolean' } : fitted(text)
}

function fromQuery (name: string, target: string): FoundKey {
  const value = queryValue(name, target)
  return value.kind === 'none' ? { kind: 'absent' } : fromValue(value, `the query's ${name}`)
}

function queryValue (name: string, target: string): Value {
  const at = target.indexOf('?')
  const values = at === -1 ? [] : new URLSearchParams(target.slice(at + 1)).getAll(name)
  if (values.length > 1) return { kind: 'unfit', why: 'is there more than once' }
  return values[0] === undefined ? NONE : fitted(values[0])
}

function headerText (name: string, rawHeaders: RawHeaders): Value {
  const lines = headerLines(rawHeaders, name)
  if (lines.length > 1) return { kind: 'unfit', why: 'is there more than once' }
  return lines[0] === undefined ? NONE : fitted(lines[0].trim())
}

/** The segment of the target where the route's path has `:name`. */
function pathValue (name: string, { target, match }: Keyed): Value {
  const at = match.path.split('/').indexOf(`:${name}`)
  const segment = at === -1 ? undefined : (target.split('?')[0] ?? '').split('/').filter((part, index) => part !== '' || index === 0)[at]
  if (segment === undefined) return NONE
  try {
    return fitted(decodeURIComponent(segment))
  } catch {
    return { kind: 'unfit', why: 'is not percent-encoded UTF-8' }
  }
}

// ---------------------------------------------------------------- several

/** Every value behind its length: `a|bc` and `ab|c` are two keys, whatever stands between them. */
function fromTemplate (parts: readonly KeyPart[], keyed: Keyed, values: Values): FoundKey {
  let key = ''
  for (const part of parts) {
    if (part.kind === 'text') {
      key += part.text
      continue
    }
    const what = partText(part)
    const value = partValue(part, keyed, values)
    if (value.kind === 'none') return missing(`A part of the key is to be ${what}, which is not there.`)
    if (value.kind === 'unfit') return invalid(what, value.why)
    key += `${value.text.length}:${value.text}`
  }
  return key.length > DERIVED_CHARS_MAX ? invalid('put together of several values', `is longer than ${DERIVED_CHARS_MAX} characters`) : { kind: 'key', key }
}

function partValue (part: Exclude<KeyPart, { kind: 'text' }>, keyed: Keyed, values: Values): Value {
  switch (part.kind) {
    case 'header': return headerText(part.name, keyed.rawHeaders)
    case 'query': return queryValue(part.name, keyed.target)
    case 'path': return pathValue(part.name, keyed)
    case 'json': return valueText(values(), part)
    case 'date': return { kind: 'value', text: new Date(keyed.nowMs()).toISOString().slice(0, part.by === 'day' ? 'yyyy-mm-dd'.length : 'yyyy-mm-ddThh'.length) }
  }
}

function partText (part: Exclude<KeyPart, { kind: 'text' }>): string {
  switch (part.kind) {
    case 'header': return `the ${part.name} header`
    case 'query': return `the query's ${part.name}`
    case 'path': return `the path's ${part.name}`
    case 'json': return `the body's value at ${part.written}`
    case 'date': return 'the date'
  }
}

// ---------------------------------------------------------------- the content

/** Values are compared as JSON is (RFC 8785), bodies byte for byte, as SQS FIFO does. */
function fromContent (of: Extract<KeySource, { kind: 'hash' }>['of'], body: Buffer, values: Values): FoundKey {
  if (of === 'body') return { kind: 'key', key: `sha256:${framedDigest([body]).toString('base64url')}` }
  const texts: string[] = []
  for (const { pointer, written } of of) {
    const found = values().get(pointer)
    const text = found?.kind === 'value' ? canonicalJson(Buffer.from(found.source)) : null
    if (text === null) return missing(`The key is to be made of the body's value at ${written}, which is not there, or is not one value to every reader.`)
    texts.push(text)
  }
  return { kind: 'key', key: `sha256:${framedDigest(texts).toString('base64url')}` }
}

function lazily<Value> (make: () => Value): () => Value {
  let made: { readonly value: Value } | null = null
  return () => (made ??= { value: make() }).value
}

/** As it is written in the configuration. */
export function keySourceText (source: KeySource): string {
  switch (source.kind) {
    case 'header':
    case 'query': return `${source.kind}:${source.name}`
    case 'json': return `json:${source.written}`
    case 'hash': return `hash:${source.of === 'body' ? 'body' : source.of.map(({ written }) => written).join(',')}`
    case 'template': return `template:${source.parts.map(templateText).join('')}`
  }
}

function templateText (part: KeyPart): string {
  switch (part.kind) {
    case 'text': return part.text
    case 'json': return `{json:${part.written}}`
    case 'date': return `{date:${part.by}}`
    case 'header':
    case 'query':
    case 'path': return `{${part.kind}:${part.name}}`
  }
}
