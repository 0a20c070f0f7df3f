/**
 * `Prefer: respond-async` (RFC 7240): a client that need not wait for the answer. Other preferences are the upstream's to
 * read and go on to it as they came.
 */
import { headerLines } from './lines.ts'
import type { RawHeaders } from '../record/record.ts'

/** Applied here, and no wish to the upstream any more: not to wait, and how long to wait before not waiting. */
const APPLIED: ReadonlySet<string> = new Set(['respond-async', 'wait'])

export function prefersAsync (rawHeaders: RawHeaders): boolean {
  return headerLines(rawHeaders, 'prefer').flatMap(preferences).some((text) => RESPOND_ASYNC.test(text))
}

/** The fields without what {@link APPLIED} names; a Prefer of which nothing is left goes. */
export function withoutAsync (rawHeaders: RawHeaders): RawHeaders {
  const rest: string[] = []
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const [name = '', value = ''] = rawHeaders.slice(at, at + 2)
    const left = name.toLowerCase() === 'prefer' ? othersOf(value) : value
    if (left !== null) rest.push(name, left)
  }
  return rest
}

/** How and when the answer is to come; what is done is the same. */
const ABOUT_THE_ANSWER: ReadonlySet<string> = new Set([...APPLIED, 'return'])

/** The preferences of one line that say how a request is to be done. */
export function operationPreferences (line: string): string[] {
  return preferences(line).filter((text) => !ABOUT_THE_ANSWER.has(tokenOf(text)))
}

function othersOf (value: string): string | null {
  const all = preferences(value)
  const others = all.filter((text) => !APPLIED.has(tokenOf(text)))
  if (others.length === all.length) return value
  return others.length === 0 ? null : others.join(', ')
}

/** An empty value is none (section 2); parameters may follow, and none is known. */
const RESPOND_ASYNC = /^respond-async\s*(?:=\s*(?:""\s*)?)?(?:;|$)/i

function tokenOf (preference: string): string {
  return /^[^\s=;]*/.exec(preference)?.[0].toLowerCase() ?? ''
}

/** A comma within a quoted string is none between two preferences; one that does not end goes to the end. */
function preferences (line: string): string[] {
  return (line.match(/(?:"(?:[^"\\]|\\.)*(?:"|\\?$)|[^,"])+/g) ?? []).map((text) => text.trim()).filter((text) => text !== '')
}
