/** Parses key sources (`header:NAME`, `json:/pointer`, `template:…`) into their policies. */
import { readPointer } from '../../core/json/pointer.ts'
import type { KeyPart, KeySource } from '../../core/policy/key-source.ts'
import { keySourceText } from '../../core/key/sources.ts'
import { PRESETS } from '../../core/key/presets.ts'
import { didYouMean } from '../read/nearest.ts'
import { printable } from '../read/problem.ts'
import type { Read } from '../read/problem.ts'
import { isToken } from './header-names.ts'

export const DEFAULT_KEY_HEADER = 'idempotency-key'
/** Most values in a template or a hash. Each of them is read from every request. */
const PARTS_MAX = 16
const KINDS = ['header', 'query', 'json', 'template', 'hash'] as const
const SOURCES = `write header:NAME, query:NAME, json:/pointer, template:…, hash:body, hash:/pointer,/pointer, or a sender: ${[...PRESETS.keys()].join(', ')}`

export function readKeySources (written: string | readonly string[]): Read<readonly KeySource[]> {
  const read = [written].flat().map(readSource)
  const wrong = read.flatMap((source) => 'wrong' in source ? [source.wrong] : [])
  if (wrong.length > 0) return { wrong: wrong.join('; ') }
  const sources = read.flatMap((source) => 'value' in source ? [source.value] : [])
  // hash:body yields a key for every request with a body, so later sources would never be used.
  const last = sources.findIndex((source) => source.kind === 'hash' && source.of === 'body')
  if (last !== -1 && last < sources.length - 1) return { wrong: 'has sources after hash:body, which always yields a key' }
  const names = sources.map(keySourceText)
  const again = names.find((name, index) => names.indexOf(name) < index)
  return again === undefined ? { value: sources } : { wrong: `has ${again} twice` }
}

/** The header of the client's own key: that of the first `header:` source. In lower case. */
export function keyHeaderOf (sources: readonly KeySource[]): string {
  return sources.find((source) => source.kind === 'header')?.name ?? DEFAULT_KEY_HEADER
}

function readSource (text: string): Read<KeySource> {
  const preset = PRESETS.get(text)
  if (preset !== undefined) return { value: { kind: 'preset', preset } }
  const [, kind, rest = ''] = /^([a-z]+):(.*)$/s.exec(text) ?? []
  switch (kind) {
    case 'header': return isToken(rest) ? { value: { kind, name: rest.toLowerCase() } } : { wrong: `${text} names no header` }
    case 'query':
      return rest !== '' && rest.length <= NAME_MAX ? { value: { kind, name: rest } } : { wrong: `${text} names nothing in the query` }
    case 'json': return readJsonSource(rest)
    case 'template': return readTemplate(rest)
    case 'hash': return readHash(rest)
    default: return { wrong: `"${printable(text)}" is no key source; ${SOURCES}${didYouMean(kind ?? text, kind === undefined ? [...KINDS, ...PRESETS.keys()] : KINDS)}` }
  }
}

const NAME_MAX = 128

function readJsonSource (written: string): Read<Extract<KeySource, { kind: 'json' }>> {
  const pointer = readPointer(written)
  return pointer === null
    ? { wrong: `json:${written} is no JSON pointer; write json:/name or json:/list/0` }
    : { value: { kind: 'json', pointer, written } }
}

function readHash (rest: string): Read<KeySource> {
  if (rest === 'body') return { value: { kind: 'hash', of: 'body' } }
  const read = rest.split(',').map((written) => readJsonSource(written.trim()))
  const wrong = read.flatMap((part) => 'wrong' in part ? [part.wrong] : [])
  if (wrong.length > 0) return { wrong: `hash:${rest} is neither hash:body nor a list of JSON pointers` }
  if (read.length > PARTS_MAX) return { wrong: `hash: takes at most ${PARTS_MAX} pointers` }
  return {
    value: {
      kind: 'hash',
      of: read.flatMap((part) => 'value' in part ? [{ pointer: part.value.pointer, written: part.value.written }] : [])
    }
  }
}

function readTemplate (text: string): Read<KeySource> {
  const read = Array.from(text.matchAll(/\{[^{}]*\}|[^{}]+|[{}]/g), ([piece]) => readPart(piece))
  const wrong = read.flatMap((part) => 'wrong' in part ? [part.wrong] : [])
  if (wrong.length > 0) return { wrong: `the template ${wrong.join('; ')}` }
  const parts = read.flatMap((part) => 'value' in part ? [part.value] : [])
  const named = parts.filter(({ kind }) => kind !== 'text')
  if (named.length > PARTS_MAX) return { wrong: `the template takes at most ${PARTS_MAX} placeholders` }
  return named.some(({ kind }) => kind !== 'date')
    ? { value: { kind: 'template', parts } }
    : { wrong: 'the template is the same for every request; add a placeholder for a value of the request' }
}

function readPart (piece: string): Read<KeyPart> {
  if (piece === '{' || piece === '}') return { wrong: 'has a brace outside of a placeholder' }
  if (!piece.startsWith('{')) return { value: { kind: 'text', text: piece } }
  const [, kind, rest = ''] = /^\{([a-z]+):(.*)\}$/s.exec(piece) ?? []
  switch (kind) {
    case 'header': return isToken(rest) ? { value: { kind, name: rest.toLowerCase() } } : { wrong: `has ${piece}, which names no header` }
    case 'query':
    case 'path':
      return rest !== '' && rest.length <= NAME_MAX ? { value: { kind, name: rest } } : { wrong: `has ${piece}, which names nothing` }
    case 'json': {
      const source = readJsonSource(rest)
      return 'wrong' in source ? { wrong: `has ${piece}, which is no JSON pointer` } : { value: source.value }
    }
    case 'date':
      return rest === 'day' || rest === 'hour' ? { value: { kind, by: rest } } : { wrong: `has ${piece}; write {date:day} or {date:hour}` }
    default: return { wrong: `has ${piece}; write {header:NAME}, {query:NAME}, {path:NAME}, {json:/pointer} or {date:day}` }
  }
}
