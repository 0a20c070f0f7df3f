/**
 * Finds the key of a request: in a header, the query, a value of the body, a combination of values, or the content. The sources of a route
 * are tried in order, and the first key wins. Pure. It never repeats a value.
 */
import { canonicalJson } from '../json/canonical.ts'
import { framedDigest } from '../record/digest.ts'
import { spelledName } from '../headers/fields.ts'
import { findValues } from '../json/pointer.ts'
import type { Pointer } from '../json/pointer.ts'
import { parseKey } from './key.ts'
import type { KeyInput, KeyPart, KeySource, MissingKey, CustomKey, Preset, SourcedKey, Value, Values } from '../policy/key-source.ts'
import { bodyValue, headerText, keyOfParts, keyOfValue, pathValue, queryValue } from './values.ts'
import type { KeyPolicy } from '../policy/policy.ts'

export type FoundKey =
  | (SourcedKey & { readonly source?: KeySource })
  /** No key in the head. The next source needs the body, which has not been read. */
  | { readonly kind: 'body' }
  /** Not guarded, because the preset says so. */
  | { readonly kind: 'passes', readonly preset: string, readonly why: string }

/** `body` null: it has not been read yet. */
export function findKey (policy: KeyPolicy, input: KeyInput, body: Buffer | null): FoundKey {
  // Nearly every route has one header source. This path allocates nothing.
  if (policy.sources.length === 1 && policy.sources[0]?.kind === 'header') return parseKey(input.rawHeaders, policy)
  let missing: MissingKey | null = null
  const values = lazily(() => valuesOf(policy, body))
  for (const source of policy.sources) {
    const why = source.kind === 'preset' ? passReason(source.preset, input, body === null ? null : values) : null
    if (why !== null) return { kind: 'passes', preset: keySourceText(source), why }
    for (const key of source.kind === 'preset' ? source.preset.keys : [source]) {
      if (body === null && needsBody(key, input)) return { kind: 'body' }
      const found = fromSource(key, policy, input, body, values)
      if (found.kind === 'missing') missing ??= found
      else if (found.kind !== 'absent') return found.kind === 'key' ? { kind: 'key', key: qualifiedKey(source, found.key), source } : found
    }
  }
  return missing ?? { kind: 'absent' }
}

/** An event's id belongs to its sender: another sender on the same route may draw the same one. */
function qualifiedKey (source: KeySource, key: string): string {
  return isClientsKey(source) || source.kind !== 'preset' ? key : `${source.preset.name}:${key}`
}

/** Whether the key is the client's own, sent anew with every retry. Other keys are derived from the request. */
export function isClientsKey (source: KeySource): boolean {
  return source.kind === 'header' || (source.kind === 'preset' && source.preset.scope === 'credential')
}

/** Every header field that the key is made of, in lower case. None of them may be removed on the way. */
export function headersRead (source: KeySource | CustomKey): readonly string[] {
  switch (source.kind) {
    case 'header': return [source.name]
    case 'custom': return source.headers
    case 'preset': return source.preset.keys.flatMap(headersRead)
    case 'template': return source.parts.flatMap((part) => part.kind === 'header' ? [part.name] : [])
    case 'json':
    case 'hash':
    case 'query': return []
  }
}

/** Header fields that decide whether a request is guarded at all, in lower case. */
export function headersPassing (source: KeySource): readonly string[] {
  return source.kind === 'preset' ? source.preset.passes?.headers ?? [] : []
}

/** Some of its keys are in bodies, so each of several events in one request may have its own. */
export function readsBody (source: KeySource): boolean {
  return source.kind === 'hash' || pointersOf(source).length > 0
}

function passReason ({ passes }: Preset, input: KeyInput, values: (() => Values) | null): string | null {
  return passes?.ofHead?.(input) ?? (values === null ? null : passes?.ofBody?.why(values(), input) ?? null)
}

function valuesOf ({ sources }: KeyPolicy, body: Buffer | null): Values {
  const pointers = sources.flatMap(pointersOf)
  const found = body === null ? [] : findValues(body, pointers)
  return new Map(pointers.map((pointer, index) => [pointer, found[index] ?? { kind: 'none' }]))
}

function pointersOf (source: KeySource | CustomKey): readonly Pointer[] {
  switch (source.kind) {
    case 'json': return [source.pointer]
    case 'hash': return source.of === 'body' ? [] : source.of.map(({ pointer }) => pointer)
    case 'template': return source.parts.flatMap((part) => part.kind === 'json' ? [part.pointer] : [])
    case 'custom': return source.pointers
    case 'preset': return [...source.preset.keys.flatMap(pointersOf), ...source.preset.passes?.ofBody?.pointers ?? []]
    case 'header':
    case 'query': return []
  }
}

type PlainSource = Exclude<KeySource, { kind: 'preset' }> | CustomKey

function needsBody (source: PlainSource, input: KeyInput): boolean {
  switch (source.kind) {
    case 'json':
    case 'hash': return true
    case 'template': return source.parts.some(({ kind }) => kind === 'json')
    case 'custom': return source.needsBody(input)
    case 'header':
    case 'query': return false
  }
}

function fromSource (source: PlainSource, policy: KeyPolicy, input: KeyInput, body: Buffer | null, values: () => Values): SourcedKey {
  switch (source.kind) {
    case 'header': return parseKey(input.rawHeaders, { header: source.name, syntax: policy.syntax })
    case 'query': return fromQuery(source.name, input.target)
    case 'json': return keyOfValue(bodyValue(values(), source.pointer), `the body's value at ${source.written}`)
    case 'template': return fromTemplate(source.parts, input, values)
    case 'hash': return fromContent(source.of, body ?? Buffer.alloc(0), values)
    case 'custom': return source.find(input, values, policy.windowMs)
  }
}

function fromQuery (name: string, target: string): SourcedKey {
  const value = queryValue(name, target)
  return value.kind === 'none' ? { kind: 'absent' } : keyOfValue(value, `the query's ${name}`)
}

// ---------------------------------------------------------------- several

function fromTemplate (parts: readonly KeyPart[], input: KeyInput, values: () => Values): SourcedKey {
  return keyOfParts(parts.map((part) => part.kind === 'text' ? part.text : { value: partValue(part, input, values), what: partText(part) }))
}

function partValue (part: Exclude<KeyPart, { kind: 'text' }>, input: KeyInput, values: () => Values): Value {
  switch (part.kind) {
    case 'header': return headerText(part.name, input.rawHeaders)
    case 'query': return queryValue(part.name, input.target)
    case 'path': return pathValue(part.name, input)
    case 'json': return bodyValue(values(), part.pointer)
    case 'date':
      return {
        kind: 'value',
        text: new Date(input.nowMs()).toISOString().slice(0, part.by === 'day' ? 'yyyy-mm-dd'.length : 'yyyy-mm-ddThh'.length)
      }
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

/** Values are compared as JSON (RFC 8785), bodies byte for byte, as SQS FIFO does. */
function fromContent (of: Extract<KeySource, { kind: 'hash' }>['of'], body: Buffer, values: () => Values): SourcedKey {
  if (of === 'body') return { kind: 'key', key: `sha256:${framedDigest([body]).toString('base64url')}` }
  const texts: string[] = []
  for (const { pointer, written } of of) {
    const found = values().get(pointer)
    const text = found?.kind === 'value' ? canonicalJson(Buffer.from(found.source)) : null
    if (text === null) {
      return {
        kind: 'missing',
        detail: `The key is to be made of the body's value at ${written}, which is not there, or is not one value to every reader.`
      }
    }
    texts.push(text)
  }
  return { kind: 'key', key: `sha256:${framedDigest(texts).toString('base64url')}` }
}

function lazily<Value> (make: () => Value): () => Value {
  let made: { readonly value: Value } | null = null
  return () => (made ??= { value: make() }).value
}

/** For the client of a route that requires a key: where the route looked for it. It has names of the route, never a value. */
export function noKeyDetail (sources: readonly KeySource[], found: Extract<SourcedKey, { kind: 'absent' | 'missing' }>): string {
  if (found.kind === 'absent') return `The request has no ${sources.flatMap(placesOf).join(' and no ')}.`
  // A client that left out a part of the key may have meant to send it in a header or the query.
  const places = sources.filter(({ kind }) => kind === 'header' || kind === 'query').flatMap(placesOf)
  return places.length === 0 ? found.detail : `${found.detail} The request has no ${places.join(' and no ')} either.`
}

function placesOf (source: KeySource): readonly string[] {
  switch (source.kind) {
    case 'header': return [`${spelledName(source.name)} header`]
    case 'query': return [`${source.name} in its query`]
    case 'preset': return presetPlaces(source.preset)
    case 'json':
    case 'template':
    case 'hash': return [`key from ${keySourceText(source)}`]
  }
}

/** The first field of each key: without it the request is not from this sender. */
function presetPlaces ({ name, keys }: Preset): readonly string[] {
  const headers = keys.flatMap((key) => headersRead(key).slice(0, 1))
  return headers.length === 0 ? [`key from ${name}`] : headers.map((header) => `${spelledName(header)} header (${name})`)
}

/** As the configuration spells it. */
export function keySourceText (source: KeySource): string {
  switch (source.kind) {
    case 'header':
    case 'query': return `${source.kind}:${source.name}`
    case 'json': return `json:${source.written}`
    case 'preset': return source.preset.name
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
