/**
 * One value of a request for a key: present, absent, or unusable. The sources of keys and the presets share it. It never repairs a value,
 * and never repeats one.
 */
import { scalarText } from '../json/pointer.ts'
import type { Pointer } from '../json/pointer.ts'
import { KEY_CHARS_MAX } from './key.ts'
import type { InvalidKey, KeyInput, MadeKey, MissingKey, Value, Values } from '../policy/key-source.ts'
import { headerLines, originForm } from '../headers/lines.ts'
import type { RawHeaders } from '../record/record.ts'

const NONE: Value = { kind: 'none' }
const TWICE: Value = { kind: 'unfit', why: 'is there more than once' }

/** For several values in one key, with their frames. */
export const DERIVED_CHARS_MAX = 1_024

/** `what` names the value in a sentence to the client. */
export function keyOfValue (value: Value, what: string): MadeKey | MissingKey | InvalidKey {
  if (value.kind === 'none') return { kind: 'missing', detail: `The key is to be ${what}, which is not there.` }
  return value.kind === 'unfit' ? invalidKey(what, value.why) : { kind: 'key', key: value.text }
}

/** The length comes before every value: `a|bc` and `ab|c` are two keys, whatever text is between the values. */
export function keyOfParts (
  parts: ReadonlyArray<string | { readonly value: Value, readonly what: string }>
): MadeKey | MissingKey | InvalidKey {
  let key = ''
  for (const part of parts) {
    if (typeof part === 'string') {
      key += part
      continue
    }
    const { value, what } = part
    if (value.kind === 'none') return { kind: 'missing', detail: `A part of the key is to be ${what}, which is not there.` }
    if (value.kind === 'unfit') return invalidKey(what, value.why)
    key += framed(value.text)
  }
  return key.length > DERIVED_CHARS_MAX
    ? invalidKey('put together of several values', `is longer than ${DERIVED_CHARS_MAX} characters`)
    : { kind: 'key', key }
}

export function framed (text: string): string {
  return `${text.length}:${text}`
}

export function invalidKey (what: string, why: string): InvalidKey {
  return { kind: 'invalid', detail: `The key is to be ${what}, which ${why}.` }
}

export function fitted (text: string): Value {
  if (text === '') return NONE
  if (text.length > KEY_CHARS_MAX) return { kind: 'unfit', why: `is longer than ${KEY_CHARS_MAX} characters` }
  return text.isWellFormed() && !CONTROL.test(text)
    ? { kind: 'value', text }
    : { kind: 'unfit', why: 'has characters that no key may have' }
}

/** Control characters of both halves of Latin-1, and characters that end a line or change its direction: keys are shown on terminals. */
// eslint-disable-next-line no-control-regex -- these are what is looked for
const CONTROL = /[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]/

export function bodyValue (values: Values, pointer: Pointer): Value {
  const found = values.get(pointer) ?? { kind: 'none' }
  if (found.kind === 'ambiguous') return TWICE
  if (found.kind === 'none' || found.source === 'null') return NONE
  const text = scalarText(found.source)
  return text === null ? { kind: 'unfit', why: 'is no string, integer or boolean' } : fitted(text)
}

export function queryValue (name: string, target: string): Value {
  const at = target.indexOf('?')
  const pairs = at === -1 ? [] : target.slice(at + 1).split('&').map((pair) => pair.replaceAll('+', ' '))
  const values = pairs.filter((pair) => unescaped(pair.split('=', 1)[0] ?? '') === name)
  if (values.length > 1) return TWICE
  return values[0] === undefined ? NONE : percentDecoded(values[0].slice(values[0].split('=', 1)[0]?.length).slice(1))
}

function unescaped (text: string): string | null {
  try {
    return decodeURIComponent(text)
  } catch {
    return null
  }
}

/** `decode`: reads the only line, trimmed. */
export function headerText (name: string, rawHeaders: RawHeaders, decode: (line: string) => Value = fitted): Value {
  const lines = headerLines(rawHeaders, name)
  if (lines.length > 1) return TWICE
  return lines[0] === undefined ? NONE : decode(lines[0].trim())
}

/** The segment of the target where the route's path has `:name`. */
export function pathValue (name: string, { target, match }: KeyInput): Value {
  const at = match.path.split('/').indexOf(`:${name}`)
  const segment = at === -1
    ? undefined
    : (originForm(target).split('?')[0] ?? '').split('/').filter((part, index) => part !== '' || index === 0)[at]
  if (segment === undefined) return NONE
  return percentDecoded(segment)
}

/** One round of decoding. */
export function percentDecoded (text: string): Value {
  try {
    return fitted(decodeURIComponent(text))
  } catch {
    return { kind: 'unfit', why: 'is not percent-encoded UTF-8' }
  }
}
