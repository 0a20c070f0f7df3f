/**
 * Reads Node's flat raw header list [name, value, name, value, …]. Only the flat list shows what came: the mapped views join, drop or
 * overwrite repeated lines. Never changes a value.
 */
import type { RawHeaders } from '../record/record.ts'

/** Every line's value of one field, in order. `lowerName` in lower case. */
export function headerLines (raw: RawHeaders, lowerName: string): string[] {
  const lines: string[] = []
  for (let at = 0; at + 1 < raw.length; at += 2) {
    if (isNamed(raw[at], lowerName)) lines.push(raw[at + 1] ?? '')
  }
  return lines
}

/** How many lines one field has. `lowerName` in lower case. */
export function countLines (raw: RawHeaders, lowerName: string): number {
  let count = 0
  for (let at = 0; at + 1 < raw.length; at += 2) if (isNamed(raw[at], lowerName)) count++
  return count
}

/** The first line's value of one field, or null. `lowerName` in lower case. */
export function headerValue (raw: RawHeaders, lowerName: string): string | null {
  for (let at = 0; at + 1 < raw.length; at += 2) {
    if (isNamed(raw[at], lowerName)) return raw[at + 1] ?? null
  }
  return null
}

/** Compares lengths first: this runs on every line, several times a request, and most names differ in length. */
function isNamed (name: string | undefined, lowerName: string): boolean {
  return name?.length === lowerName.length && name.toLowerCase() === lowerName
}

/** The list as pairs. A last name without a value is not a line. */
export function * pairs (raw: RawHeaders): Generator<[name: string, value: string]> {
  for (let at = 0; at + 1 < raw.length; at += 2) yield [raw[at] ?? '', raw[at + 1] ?? '']
}

/**
 * Optional whitespace around a field value is a space or a tab (RFC 9110 5.6.3). trim() would remove more: a byte 0xA0 is half of a letter,
 * and part of a secret.
 */
export function trimOws (value: string): string {
  let start = 0
  let end = value.length
  while (start < end && isOws(value.charCodeAt(start))) start++
  while (end > start && isOws(value.charCodeAt(end - 1))) end--
  return value.slice(start, end)
}

function isOws (code: number): boolean {
  return code === 0x20 || code === 0x09
}

/** The list without these fields. */
export function withoutFields (raw: RawHeaders, names: readonly string[]): string[] {
  if (names.length === 0) return [...raw]
  const lower = new Set(names.map((name) => name.toLowerCase()))
  const left: string[] = []
  for (const [name, value] of pairs(raw)) if (!lower.has(name.toLowerCase())) left.push(name, value)
  return left
}

/** Path and query of a request target. A client of a proxy writes scheme and host before them (RFC 9112 3.2.2). */
export function originForm (target: string): string {
  if (target.startsWith('/')) return target
  const from = ABSOLUTE.exec(target)?.[0].length
  if (from === undefined) return target
  const rest = target.slice(from)
  return rest.startsWith('/') ? rest : `/${rest}`
}

/** The host in such a target. null: it has none. */
export function authorityOf (target: string): string | null {
  return target.startsWith('/') ? null : ABSOLUTE.exec(target)?.[1] ?? null
}

const ABSOLUTE = /^[A-Za-z][A-Za-z0-9+.-]*:\/\/([^/?#]*)/
