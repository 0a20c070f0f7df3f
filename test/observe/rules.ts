/** The rules of deploy/prometheus with times and thresholds that a test can wait for. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { parse } from 'yaml'

export interface Rule { readonly alert?: string, readonly record?: string, readonly expr: string, readonly for?: string }

/** A share of a window that is shorter than this has too few samples to be one. */
const WINDOW = '[10s]'
/** What happened while a gateway could not be read is in a window that began before. */
const WINDOW_LONG = '[30s]'
/** Longer than a stall of a busy machine. */
const FOR = '3s'
/** Longer than {@link WINDOW}: as in the file, what was seen once and is over does not fire. */
const FOR_LONG = '13s'
const LONG_MINUTES = 10

/** Each is in the file so many times. Bounds of an operator's patience, and sizes. */
const SHORTER: ReadonlyArray<readonly [text: string, shorter: string, times: number]> = [
  ['(onceway_indeterminate_oldest_seconds) > 3600', '(onceway_indeterminate_oldest_seconds) > 5', 1],
  // A heartbeat comes each second, and may be one late.
  ['(onceway_store_contact_age_seconds) > 15', '(onceway_store_contact_age_seconds) > 4', 1],
  ['(onceway_inbox_oldest_seconds) > 900', '(onceway_inbox_oldest_seconds) > 5', 1],
  ['(onceway_inbox_bytes) > 0.5 * 1024 * 1024 * 1024', '(onceway_inbox_bytes) > 16 * 1024', 1],
  ['[1d] offset 30m', '[60s] offset 10s', 2]
]

export function rulesText (): string {
  return readFileSync(new URL('../../deploy/prometheus/alerts.yml', import.meta.url), 'utf8')
}

export function rulesIn (text: string): readonly Rule[] {
  const { groups } = parse(text) as { readonly groups: ReadonlyArray<{ readonly rules: readonly Rule[] }> }
  return groups.flatMap(({ rules }) => rules)
}

export function shortened (text: string): string {
  let short = text
  for (const [from, to, times] of SHORTER) {
    assert.equal(short.split(from).length - 1, times, `how often the rules have ${from}`)
    short = short.replaceAll(from, to)
  }
  short = short
    .replace(/\bfor: (\d+)m\b/g, (_all, minutes: string) => `for: ${Number(minutes) < LONG_MINUTES ? FOR : FOR_LONG}`)
    .replace(/\[(?:15m|1h)\]/g, WINDOW_LONG)
    .replace(/\[\d+m\]/g, WINDOW)
  const left = rulesIn(short).filter((rule) => /\b\d+[mhd]\b/.test(`${rule.expr} ${rule.for ?? ''}`))
  assert.deepEqual(left, [], 'nothing is left that takes minutes')
  return short
}
