/**
 * Reads the client's key from the raw header lines. The quoted form (a structured-field string, as the IETF draft requires) and the bare
 * form (what every SDK sends) are the same key. It never repairs a malformed key and never repeats one.
 */
import { spelledName } from '../headers/fields.ts'
import type { KeyPolicy } from '../policy/policy.ts'
import type { RawHeaders } from '../record/record.ts'
import { headerLines, trimOws } from '../headers/lines.ts'

export type KeyResult =
  | { readonly kind: 'key', readonly key: string }
  | { readonly kind: 'absent' }
  /** `detail`: one sentence for the client, without the key. */
  | { readonly kind: 'invalid', readonly detail: string }

/** Most vendors allow 255, and a UUID has 36. Counted after decoding. */
export const KEY_CHARS_MAX = 255

/** `header`: lower case. */
export type KeyHeader = Pick<KeyPolicy, 'header' | 'syntax'>

/** Reads Node's flat raw header list: a joined or mapped view would hide a second line. */
export function parseKey (rawHeaders: RawHeaders, policy: KeyHeader): KeyResult {
  const lines = headerLines(rawHeaders, policy.header)
  const line = lines[0]
  if (line === undefined) return { kind: 'absent' }
  if (lines.length > 1) return invalid(`The request has ${lines.length} ${spelledName(policy.header)} header lines; send exactly one.`)
  const value = trimOws(line)
  if (value === '') return invalid(`The ${spelledName(policy.header)} header is empty.`)
  if (value.startsWith('"')) return bounded(parseQuoted(value), policy, QUOTED_ADVICE)
  if (policy.syntax === 'strict') return invalid(`This route takes ${spelledName(policy.header)} only as a quoted structured-field string.`)
  if (value.includes(',')) return invalid(`The ${spelledName(policy.header)} header ${COMMA_ADVICE}`)
  return bounded(BARE.test(value) ? value : null, policy, BARE_ADVICE)
}

const BARE = /^[\x21-\x7e]+$/
const BARE_ADVICE = 'is not a key: use printable ASCII without spaces.'
/** A hop may join two lines into one (RFC 9110 5.2), with or without a blank. So `a,b` may be one key or two. */
const COMMA_ADVICE = 'has a comma outside of quotation marks: two keys that were joined on the way look like that. Send one key; one that has a comma is sent in quotation marks.'
const QUOTED_ADVICE = 'starts with a quotation mark and is not a structured-field string (RFC 9651).'

/** The key of a value in the quoted form. null: it is not in that form. */
export function unquotedKey (value: string): string | null {
  return value.startsWith('"') ? parseQuoted(value) : null
}

function bounded (key: string | null, policy: KeyHeader, advice: string): KeyResult {
  if (key === null) return invalid(`The ${spelledName(policy.header)} header ${advice}`)
  if (key === '') return invalid(`The ${spelledName(policy.header)} header holds an empty string.`)
  if (key.length > KEY_CHARS_MAX) return invalid(`The ${spelledName(policy.header)} header is longer than ${KEY_CHARS_MAX} characters.`)
  return { kind: 'key', key }
}

function invalid (detail: string): KeyResult {
  return { kind: 'invalid', detail }
}

/** sf-string (RFC 9651 4.2.5), then parameters, then the end. Returns the decoded string or null. */
function parseQuoted (value: string): string | null {
  let key = ''
  for (let at = 1; at < value.length; at++) {
    const char = value.charAt(at)
    if (char === '"') return endsInParameters(value, at + 1) ? key : null
    if (char < ' ' || char > '~') return null
    if (char !== '\\') { key += char; continue }
    const escaped = value.charAt(++at)
    if (escaped !== '"' && escaped !== '\\') return null
    key += escaped
  }
  return null
}

/** One parameter with any bare item (RFC 9651 4.2.3.2). Each alternative starts differently, so one pass is enough. */
const PARAMETER = new RegExp(';[ ]*[a-z*][a-z0-9_.*-]*(?:=(?:' + [
  '"(?:[\\x20\\x21\\x23-\\x5b\\x5d-\\x7e]|\\\\["\\\\])*"', // string
  '-?[0-9]{1,12}\\.[0-9]{1,3}', // decimal
  '@?-?[0-9]{1,15}', // integer, date
  '\\?[01]', // boolean
  ':[A-Za-z0-9+/=]*:', // bytes
  '%"(?:[\\x20\\x21\\x23\\x24\\x26-\\x7e]|%[0-9a-f]{2})*"', // display string
  "[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]*" // token
].join('|') + '))?', 'y')

function endsInParameters (value: string, from: number): boolean {
  let at = from
  while (at < value.length) {
    PARAMETER.lastIndex = at
    if (!PARAMETER.test(value)) return false
    at = PARAMETER.lastIndex
  }
  return true
}
