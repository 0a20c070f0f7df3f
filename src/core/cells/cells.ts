/**
 * Which cell a request goes to. nginx, HAProxy and `onceway cell-of` compute the same for every value: src/cli/cells-nginx.ts and
 * src/cli/cells-haproxy.ts write these rules in the proxies' words. Pure.
 *
 * nginx has one hash whose result a configuration can use without a module: MurmurHash2, in `split_clients`, cut by percentages of two
 * decimals. So there are 1,000 slots of 0.10 %. HAProxy has no MurmurHash2, but Lua, which Debian's build and the official image have.
 */
import { trimOws } from '../headers/lines.ts'

export const SLOTS = 1_000
/** What nginx makes of 0.10 %: floor(10 * (2^32 - 1) / 10,000). The last slot has the few values that are left, too. */
export const SLOT_WIDTH = 4_294_967

/** From, to: both belong to the range. */
export type SlotRange = readonly [from: number, to: number]

export interface Cell {
  readonly name: string
  readonly slots: readonly SlotRange[]
  /** host:port of each. None: the cell is closed, and its requests get 503. */
  readonly gateways: readonly string[]
}

export type RoutedBy = 'key' | 'tenant' | 'host'

/** Each slot belongs to exactly one cell. */
export interface Cells {
  readonly by: RoutedBy
  /** Lower case. null: by host. */
  readonly header: string | null
  /** host:port or port of the proxy. */
  readonly listen: string
  readonly cells: readonly Cell[]
  /** Tenants or hosts, in lower case, that have a cell of their own choice. Never keys. */
  readonly assigned: ReadonlyMap<string, string>
}

export interface Placed {
  readonly cell: Cell
  /** What was hashed, or looked up. */
  readonly text: Buffer
  /** null: it is assigned. */
  readonly slot: number | null
}

/** `value`: of the header's first line, or the host. Empty: there is none. All requests without a value go to the cell of slot 0. */
export function cellOf (cells: Cells, value: Buffer): Placed {
  const text = textOf(cells.by, value)
  const assigned = cells.assigned.get(lowered(text).toString('latin1'))
  const slot = assigned === undefined ? slotOf(text) : null
  const cell = cells.cells.find(({ name, slots }) =>
    slot === null ? name === assigned : slots.some(([from, to]) => from <= slot && slot <= to))
  if (cell === undefined) throw new Error('a slot has no cell: the check let it pass')
  return { cell, text, slot }
}

/** The part of a value that is the same in all its spellings. */
export function textOf (by: RoutedBy, value: Buffer): Buffer {
  const text = value.toString('latin1')
  switch (by) {
    case 'key': return Buffer.from(keyText(text), 'latin1')
    case 'tenant': return Buffer.from(trimOws(text), 'latin1')
    case 'host': return Buffer.from(hostText(text), 'latin1')
  }
}

/**
 * `k`, `"k"` and `"k";p=1` are one key. In quotes a key may have `\"` and `\\`, which neither proxy can decode. So the text ends before
 * the first quotation mark or backslash of the key: it is a prefix of the decoded key, in every spelling. Blanks and commas are in quoted
 * keys only, because the gateway refuses a bare one with them.
 */
function keyText (text: string): string {
  return /^[ \t]*"([^"\\]*)["\\]/.exec(text)?.[1] ?? /^[ \t]*([^"\\ \t,]*)/.exec(text)?.[1] ?? ''
}

/** As nginx makes its $host: in lower case, without port and without a dot at the end. */
function hostText (text: string): string {
  const host = /^(?:\[[^\]]*\]|[^:]*)/.exec(lowered(Buffer.from(trimOws(text), 'latin1')).toString('latin1'))?.[0] ?? ''
  return host.endsWith('.') ? host.slice(0, -1) : host
}

/** ASCII only, as the proxies do. */
function lowered (text: Buffer): Buffer {
  return Buffer.from(text.toString('latin1').replace(/[A-Z]/g, (letter) => letter.toLowerCase()), 'latin1')
}

export function slotOf (text: Buffer): number {
  return Math.min(SLOTS - 1, Math.floor(murmurHash2(text) / SLOT_WIDTH))
}

/** MurmurHash2 of 32 bits with seed 0, as nginx has it. */
export function murmurHash2 (bytes: Buffer): number {
  const M = 0x5bd1e995
  let hash = bytes.length
  let at = 0
  for (; bytes.length - at >= 4; at += 4) {
    let word = Math.imul(bytes.readUInt32LE(at), M)
    word ^= word >>> 24
    hash = Math.imul(hash, M) ^ Math.imul(word, M)
  }
  const left = bytes.length - at
  if (left > 0) hash = Math.imul(hash ^ bytes.readUIntLE(at, left), M)
  hash = Math.imul(hash ^ (hash >>> 13), M)
  return (hash ^ (hash >>> 15)) >>> 0
}
