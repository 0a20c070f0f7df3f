/**
 * The canonical form of a JSON text (RFC 8785), so that two spellings of one value are one request. A scanner of its own,
 * because JSON.parse forgets what must not be forgotten: repeated members, and digits that a double cannot hold. A text
 * with either has no canonical form here; nothing is ever rounded or dropped to get one. What the caller leaves out is read
 * over, whatever it holds.
 */
import { JsonCursor, NoJson } from './json-cursor.ts'
import type { PointerTree } from './json-pointer.ts'

/** Canonicalising 1 MB takes 45 ms of the event loop, this about 10; larger bodies are compared as bytes. */
export const JSON_BYTES_MAX = 256 * 1024
/** Far beyond any API's documents, far below the stack. */
export const JSON_DEPTH_MAX = 128

/**
 * The canonical text, or null: not JSON, not UTF-8, too large, too deep, or not one value to every reader. `without`: members
 * and items that are left out; whether they are there is left out with them.
 */
export function canonicalJson (body: Buffer, without: PointerTree | null = null): string | null {
  if (body.length === 0 || body.length > JSON_BYTES_MAX) return null
  const text = utf8Text(body)
  return text === null ? null : canonicalText(text, without)
}

/** The same of a text that is known to be UTF-8. */
export function canonicalText (text: string, without: PointerTree | null = null): string | null {
  try {
    return new Scanner(text).document(without)
  } catch (cause) {
    if (cause instanceof NotCanonical || cause instanceof SyntaxError || cause instanceof NoJson) return null
    throw cause
  }
}

/** `fatal` throws on invalid UTF-8; a byte order mark stays in the text and is no JSON. */
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function utf8Text (body: Buffer): string | null {
  try {
    return UTF8.decode(body)
  } catch {
    return null
  }
}

/** Leaves the scanner from any depth; never leaves this file. */
class NotCanonical extends Error {}

const SPACE = /[ \t\n\r]*/y
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y
const LITERAL = /true|false|null/y

/** One pass over the text. Every method starts at `at` and leaves it behind what it read. */
class Scanner {
  private readonly text: string
  private at = 0
  private depth = 0

  constructor (text: string) {
    this.text = text
  }

  document (without: PointerTree | null): string {
    const value = this.value(without)
    if (this.at !== this.text.length) throw new NotCanonical()
    return value
  }

  /** A value with the space around it. */
  private value (without: PointerTree | null): string {
    this.read(SPACE)
    const value = this.bareValue(without)
    this.read(SPACE)
    return value
  }

  private bareValue (without: PointerTree | null): string {
    switch (this.text.charAt(this.at)) {
      case '{': return this.nested('}', () => this.object(without))
      case '[': return this.nested(']', () => this.array(without))
      case '"': return JSON.stringify(this.string())
      case 't': case 'f': case 'n': return this.read(LITERAL)
      default: return canonicalNumber(this.read(NUMBER))
    }
  }

  private nested (close: string, inside: () => string): string {
    if (++this.depth > JSON_DEPTH_MAX) throw new NotCanonical()
    this.at++
    this.read(SPACE)
    const text = this.skips(close) ? '' : inside()
    this.depth--
    return close === '}' ? `{${text}}` : `[${text}]`
  }

  private array (without: PointerTree | null): string {
    const items: string[] = []
    let index = 0
    do {
      const item = this.kept(without?.below.get(String(index++)))
      if (item !== null) items.push(item)
    } while (this.skips(','))
    this.expect(']')
    return items.join(',')
  }

  /** A value, or null: it is left out. Nobody looks at it, so it may hold what has no canonical form. */
  private kept (place: PointerTree | undefined): string | null {
    if (place === undefined) return this.value(null)
    if (!place.here) return this.value(place)
    const cursor = new JsonCursor(this.text)
    cursor.at = this.at
    cursor.value()
    this.at = cursor.at
    return null
  }

  /** Members in the order of their names' UTF-16 code units (RFC 8785 3.2.3), which is how `<` compares. */
  private object (without: PointerTree | null): string {
    const members = new Map<string, string | null>()
    do {
      this.read(SPACE)
      const name = this.string()
      if (members.has(name)) throw new NotCanonical()
      this.read(SPACE)
      this.expect(':')
      members.set(name, this.kept(without?.below.get(name)))
    } while (this.skips(','))
    this.expect('}')
    const names = [...members.keys()].filter((name) => members.get(name) !== null).sort((a, b) => a < b ? -1 : 1)
    return names.map((name) => `${JSON.stringify(name)}:${members.get(name) ?? ''}`).join(',')
  }

  /** JSON.parse decodes the literal and refuses what is none; a lone surrogate has no UTF-8 and so no canonical form. */
  private string (): string {
    const end = this.stringEnd()
    const parsed: unknown = JSON.parse(this.text.slice(this.at, end))
    if (typeof parsed !== 'string' || !parsed.isWellFormed()) throw new NotCanonical()
    this.at = end
    return parsed
  }

  private stringEnd (): number {
    if (this.text.charAt(this.at) !== '"') throw new NotCanonical()
    for (let at = this.at + 1; at < this.text.length; at++) {
      const char = this.text.charAt(at)
      if (char === '"') return at + 1
      if (char === '\\') at++
    }
    throw new NotCanonical()
  }

  private read (pattern: RegExp): string {
    pattern.lastIndex = this.at
    const match = pattern.exec(this.text)
    if (match === null) throw new NotCanonical()
    this.at = pattern.lastIndex
    return match[0]
  }

  private skips (char: string): boolean {
    if (this.text.charAt(this.at) !== char) return false
    this.at++
    return true
  }

  private expect (char: string): void {
    if (!this.skips(char)) throw new NotCanonical()
  }
}

/**
 * The number as ECMAScript writes it (RFC 8785 3.2.2.3), if that is the same number. A reader with exact decimals would
 * tell 0.10000000000000000001 from 0.1, and one with 64-bit integers 2^53 + 1 from 2^53: those have no canonical form.
 */
function canonicalNumber (literal: string): string {
  const value = Number(literal)
  if (!Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value))) throw new NotCanonical()
  const text = String(value)
  if (text !== literal && decimal(text) !== decimal(literal)) throw new NotCanonical()
  return text
}

/** A decimal's one spelling: its digits without zeros at either end, and the power of ten of the last. Zero has no sign. */
function decimal (literal: string): string {
  const [mantissa = '', exponent = '0'] = literal.toLowerCase().split('e')
  const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.')
  const digits = (whole + fraction).replace(/^0+/, '')
  const significant = trimZeros(digits)
  if (significant === '') return '0'
  const power = Number(exponent) - fraction.length + (digits.length - significant.length)
  return `${literal.startsWith('-') ? '-' : ''}${significant}e${power}`
}

/** A loop, because /0+$/ looks at every run of zeros again from each of its digits. */
function trimZeros (digits: string): string {
  let end = digits.length
  while (end > 0 && digits.charAt(end - 1) === '0') end--
  return digits.slice(0, end)
}
