/** `Prefer: respond-async` (RFC 7240): the client need not wait for the answer. Other preferences go on to the upstream as they came. */
import { headerLines } from './lines.ts'
import type { RawHeaders } from '../record/record.ts'

/** The gateway applies these itself, so they do not go to the upstream: whether to wait, and for how long. */
const APPLIED: ReadonlySet<string> = new Set(['respond-async', 'wait'])

export function prefersAsync (rawHeaders: RawHeaders): boolean {
  return headerLines(rawHeaders, 'prefer').flatMap(preferences).some((text) => RESPOND_ASYNC.test(text))
}

/** The fields without the preferences in {@link APPLIED}. A Prefer without any preference left is removed. */
export function withoutAsync (rawHeaders: RawHeaders): RawHeaders {
  const rest: string[] = []
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const [name = '', value = ''] = rawHeaders.slice(at, at + 2)
    const left = name.toLowerCase() === 'prefer' ? othersOf(value) : value
    if (left !== null) rest.push(name, left)
  }
  return rest
}

/** Preferences that change how and when the answer comes, but not what is done. */
const ABOUT_THE_ANSWER: ReadonlySet<string> = new Set([...APPLIED, 'return'])

/** The preferences of one line that change how a request is done. */
export function operationPreferences (line: string): string[] {
  return preferences(line).filter((text) => !ABOUT_THE_ANSWER.has(tokenOf(text)))
}

function othersOf (value: string): string | null {
  const all = preferences(value)
  const others = all.filter((text) => !APPLIED.has(tokenOf(text)))
  if (others.length === all.length) return value
  return others.length === 0 ? null : others.join(', ')
}

/** An empty value counts as no value (section 2). Parameters may follow, and none is known. */
const RESPOND_ASYNC = /^respond-async\s*(?:=\s*(?:""\s*)?)?(?:;|$)/i

function tokenOf (preference: string): string {
  return /^[^\s=;]*/.exec(preference)?.[0].toLowerCase() ?? ''
}

/** Splits at commas outside quoted strings. A quoted string without an end goes to the end of the line. */
function preferences (line: string): string[] {
  return (line.match(/(?:"(?:[^"\\]|\\.)*(?:"|\\?$)|[^,"])+/g) ?? []).map((text) => text.trim()).filter((text) => text !== '')
}
