/** How the console writes what others sent, times, durations, sizes and counts. */
import type { VNode } from 'preact'
import { bdi, time } from './elements.ts'

/** Controls, and what turns, hides or joins the text around it. Line ends and tabs are kept where lines are shown. */
// eslint-disable-next-line no-control-regex -- these are what is made visible
const UNSEEN = /[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu
const KEPT_IN_LINES: ReadonlySet<string> = new Set(['\n', '\t'])

/** Text of clients, upstreams and operators, with every character that nobody would see written as its number. */
export function visible (text: string, { lines = false } = {}): string {
  return text.toWellFormed().replace(UNSEEN, (character) => lines && KEPT_IN_LINES.has(character) ? character : numberOf(character))
}

const HEX = 16
const HEX_DIGITS_MIN = 4

function numberOf (character: string): string {
  return `[U+${(character.codePointAt(0) ?? 0).toString(HEX).toUpperCase().padStart(HEX_DIGITS_MIN, '0')}]`
}

/** The same as an element that no direction of writing leaves. In a table, a short one stays in one line. */
export function said (text: string): VNode {
  const shown = visible(text)
  return bdi({ class: shown.length <= SHORT_CHARS ? 'said short' : 'said' }, shown)
}

/** The names of most routes and people. */
const SHORT_CHARS = 24

/** In UTC. The page's script writes it in the reader's zone. */
export function moment (iso: string): VNode {
  return time({ datetime: iso }, utcOf(iso))
}

export function momentOr (iso: string | null, otherwise: string): VNode | string {
  return iso === null ? otherwise : moment(iso)
}

/** 2026-11-26 18:54:03 UTC */
export function utcOf (iso: string): string {
  return iso.replace('T', ' ').replace(/(?:\.\d+)?Z$/, ' UTC')
}

const SECOND_MS = 1_000
const MINUTE_MS = 60 * SECOND_MS
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
const UNITS: ReadonlyArray<readonly [name: string, ms: number]> = [
  ['d', DAY_MS], ['h', HOUR_MS], ['min', MINUTE_MS], ['s', SECOND_MS], ['ms', 1]
]

/** Its two largest units: `3 h 12 min`. */
export function duration (ms: number): string {
  const whole = Math.max(0, Math.round(ms))
  const at = UNITS.findIndex(([, unitMs]) => whole >= unitMs)
  const [name, unitMs] = UNITS[at] ?? ['ms', 1]
  const [nextName, nextMs] = UNITS[at + 1] ?? ['', 0]
  const rest = nextName === '' || nextName === 'ms' ? 0 : Math.floor(whole % unitMs / nextMs)
  return `${Math.floor(whole / unitMs)} ${name}${rest > 0 ? ` ${rest} ${nextName}` : ''}`
}

const KIB = 1024
const SIZES = ['B', 'KiB', 'MiB', 'GiB', 'TiB']

export function bytes (count: number): string {
  const at = count < 1 ? 0 : Math.min(SIZES.length - 1, Math.floor(Math.log(count) / Math.log(KIB)))
  return `${at === 0 ? count : (count / KIB ** at).toFixed(1)} ${SIZES[at]}`
}

export function counted (count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString('en')} ${count === 1 ? one : many}`
}

/** The beginning of an id, for lists. The link behind it has all of it. */
export function shortId (id: string): string {
  return `${id.slice(0, ID_CHARS)}…`
}

const ID_CHARS = 10
