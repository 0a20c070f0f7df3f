/**
 * The canonical form of a JSON text (RFC 8785), so that two spellings of one value are one request. JSON.parse is not enough: it loses
 * repeated members, and digits that a double cannot hold. A text with either has no canonical form here. Nothing is ever rounded or
 * dropped. Parts that the caller leaves out are skipped, whatever they hold.
 */
import { JsonCursor, NoJson } from './cursor.ts'
import type { PointerTree } from './pointer.ts'

/** Canonicalising 1 MB takes 45 ms of the event loop, this about 10. Larger bodies are compared as bytes. */
export const JSON_BYTES_MAX = 256 * 1024

/**
 * The canonical text, or null: not JSON, not UTF-8, too large, too deep, or not the same value to every reader. `without`: members and
 * items that are left out. Whether they are present does not count either.
 */
export function canonicalJson (body: Buffer, without: PointerTree | null = null): string | null {
  if (body.length === 0 || body.length > JSON_BYTES_MAX) return null
  return canonicalOf(() => JsonCursor.of(body), without)
}

/** The same for a text that is known to be UTF-8. */
export function canonicalText (text: string, without: PointerTree | null = null): string | null {
  return canonicalOf(() => new JsonCursor(text), without)
}

function canonicalOf (cursor: () => JsonCursor, without: PointerTree | null): string | null {
  try {
    return new Canonical(cursor()).document(without)
  } catch (cause) {
    if (cause instanceof NotCanonical || cause instanceof NoJson) return null
    throw cause
  }
}

/** It is JSON, but not the same value to every reader. Ends the reading from any depth, and never leaves this file. */
class NotCanonical extends Error {}

/** Every method starts at the cursor, and moves it behind what it read. */
class Canonical {
  readonly #cursor: JsonCursor

  constructor (cursor: JsonCursor) {
    this.#cursor = cursor
  }

  document (without: PointerTree | null): string {
    let text = ''
    this.#cursor.document(() => { text = this.#value(without) })
    return text
  }

  #value (without: PointerTree | null): string {
    switch (this.#cursor.peek()) {
      case '{': return this.#object(without)
      case '[': return this.#array(without)
      case '"': return canonicalString(this.#source())
      case 't': case 'f': case 'n': return this.#source()
      default: return canonicalNumber(this.#source())
    }
  }

  /** The source text of the value. */
  #source (): string {
    const from = this.#cursor.at
    this.#cursor.skip()
    return this.#cursor.text.slice(from, this.#cursor.at)
  }

  #array (without: PointerTree | null): string {
    const items: string[] = []
    this.#cursor.items((index) => {
      const item = this.#kept(without?.below.get(String(index)))
      if (item !== null) items.push(item)
    })
    return `[${items.join(',')}]`
  }

  /** Members in the order of their names' UTF-16 code units (RFC 8785 3.2.3), which is how `<` compares. */
  #object (without: PointerTree | null): string {
    const members = new Map<string, string | null>()
    this.#cursor.members((name) => {
      if (members.has(name) || !name.isWellFormed()) throw new NotCanonical()
      members.set(name, this.#kept(without?.below.get(name)))
    })
    const names = [...members.keys()].filter((name) => members.get(name) !== null).sort((a, b) => a < b ? -1 : 1)
    return `{${names.map((name) => `${JSON.stringify(name)}:${members.get(name) ?? ''}`).join(',')}}`
  }

  /**
   * The canonical value. null: it is left out. A value that is left out may hold anything without a canonical form, and has a depth of its
   * own.
   */
  #kept (place: PointerTree | undefined): string | null {
    if (place === undefined) return this.#value(null)
    if (!place.here) return this.#value(place)
    const over = new JsonCursor(this.#cursor.text, this.#cursor.at)
    over.skip()
    this.#cursor.at = over.at
    return null
  }
}

/** A lone surrogate has no UTF-8, and so no canonical form. */
function canonicalString (literal: string): string {
  const text = JSON.parse(literal) as string
  if (!text.isWellFormed()) throw new NotCanonical()
  return JSON.stringify(text)
}

/**
 * The number as ECMAScript writes it (RFC 8785 3.2.2.3), if that is the same number. A reader with exact decimals tells
 * 0.10000000000000000001 from 0.1, and one with 64-bit integers tells 2^53 + 1 from 2^53. Such numbers have no canonical form.
 */
function canonicalNumber (literal: string): string {
  const value = Number(literal)
  if (!Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value))) throw new NotCanonical()
  const text = String(value)
  if (text !== literal && decimal(text) !== decimal(literal)) throw new NotCanonical()
  return text
}

/** A decimal in one spelling: its digits without zeros at either end, and the power of ten of the last digit. Zero has no sign. */
function decimal (literal: string): string {
  const [mantissa = '', exponent = '0'] = literal.toLowerCase().split('e')
  const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.')
  const digits = (whole + fraction).replace(/^0+/, '')
  const significant = trimZeros(digits)
  if (significant === '') return '0'
  const power = Number(exponent) - fraction.length + (digits.length - significant.length)
  return `${literal.startsWith('-') ? '-' : ''}${significant}e${power}`
}

/** A loop, because /0+$/ scans every run of zeros again from each of its digits. */
function trimZeros (digits: string): string {
  let end = digits.length
  while (end > 0 && digits.charAt(end - 1) === '0') end--
  return digits.slice(0, end)
}
