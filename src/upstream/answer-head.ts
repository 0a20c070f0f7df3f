/** The head of an upstream's answer, as undici tells it: which ones are passed on, and what became of those that are not. */
import type { Dispatcher } from 'undici'
import { headerLines } from '../core/headers/lines.ts'
import { mayHaveBody } from '../core/headers/headers.ts'
import type { RawHeaders } from '../core/record/record.ts'

/** Below it an answer is informational: another one follows (RFC 9110 15.2). */
export const STATUS_MIN = 200
const STATUS_MAX = 599
/** RFC 9110 15: three digits, the first of which is 1 to 5. What is below is no answer of HTTP, as one that cannot be parsed is none. */
const INFORMATIONAL_MIN = 100
const SWITCHING = 101
const NO_ANSWER = 'BAD_ANSWER'

/** Why this head is no answer that could be passed on as whole; null: it is one. */
export function faultOf (status: number, headers: RawHeaders): string | null {
  if (status < INFORMATIONAL_MIN) return NO_ANSWER
  if (status > STATUS_MAX) return 'BAD_STATUS'
  // Of one that switches undici tells otherwise: this one only says so.
  if (status === SWITCHING) return 'BAD_UPGRADE'
  if (!headers.every(isFieldText)) return 'BAD_HEADER'
  // All lines of it: undici takes off `chunked` and nothing else, and the rest would be kept under a framing that is gone.
  const codings = headerLines(headers, 'transfer-encoding')
  return codings.length === 0 || CHUNKED.test(codings.join()) ? null : 'BAD_CODING'
}

/**
 * It ends at its empty line, whatever length or coding it declares (RFC 9112 6.3): undici would wait for a body. Its
 * connection cannot be used again, since nobody knows what comes on it.
 */
export function endsAtHead (status: number, headers: RawHeaders): boolean {
  if (status < STATUS_MIN || mayHaveBody(status)) return false
  return headerLines(headers, 'transfer-encoding').length > 0 ||
    headerLines(headers, 'content-length').some((length) => Number(length) !== 0)
}

/** Blanks of HTTP are no part of a value (RFC 9110 5.5); undici leaves them at its end. */
const CHUNKED = /^[ \t]*chunked[ \t]*$/i

/** What may stand in a field of ours too (RFC 9110 5.5); an answer with anything else is not passed on as if whole. */
function isFieldText (text: string): boolean {
  return !NOT_FIELD_TEXT.test(text)
}

// eslint-disable-next-line no-control-regex -- control characters are what it looks for
const NOT_FIELD_TEXT = /[\x00-\x08\x0a-\x1f\x7f]/
const OWN_FAULTS = new Set(['BAD_STATUS', 'BAD_UPGRADE', 'BAD_HEADER', 'BAD_CODING', 'SENT_ALREADY'])

/** undici's types leave the raw list out; it is set before onResponseStart. */
export function rawHeadersOf (controller: Dispatcher.DispatchController): string[] {
  const { rawHeaders } = controller as Dispatcher.DispatchController & { readonly rawHeaders: readonly Buffer[] | null }
  return (rawHeaders ?? []).map((bytes) => bytes.toString('latin1'))
}

/** undici's own, about an answer that it did not think of: a status below 100. */
const ASSERTED = 'ERR_ASSERTION'

/** Parser errors have no code (measured with undici 7.30.2). */
export function codeOf (error: Error): string {
  const { code } = error as Error & { readonly code?: unknown }
  if (typeof code === 'string' && code !== ASSERTED) return code
  return OWN_FAULTS.has(error.message) ? error.message : NO_ANSWER
}
