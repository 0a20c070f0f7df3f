/** The head of an upstream's answer, as undici reports it: which heads are passed on, and the fault codes of the others. */
import type { Dispatcher } from 'undici'
import { countLines, headerLines } from '../core/headers/lines.ts'
import { mayHaveBody } from '../core/headers/headers.ts'
import type { RawHeaders } from '../core/record/record.ts'

/** Below this, an answer is informational and another one follows (RFC 9110 15.2). */
export const STATUS_MIN = 200
const STATUS_MAX = 599
/** RFC 9110 15: three digits, the first from 1 to 5. A lower status is no HTTP answer, just as one that cannot be parsed. */
const INFORMATIONAL_MIN = 100
const SWITCHING = 101
const NO_ANSWER = 'BAD_ANSWER'

/** Why this head cannot be passed on as a complete answer. null: it can. */
export function faultOf (status: number, headers: RawHeaders): string | null {
  if (status < INFORMATIONAL_MIN) return NO_ANSWER
  if (status > STATUS_MAX) return 'BAD_STATUS'
  // undici reports a real switch through onRequestUpgrade. This answer only claims one.
  if (status === SWITCHING) return 'BAD_UPGRADE'
  for (const text of headers) if (NOT_FIELD_TEXT.test(text)) return 'BAD_HEADER'
  // undici removes `chunked` and no other coding. The rest would be stored under a framing that is gone. So all lines
  // are checked.
  if (countLines(headers, 'transfer-encoding') === 0) return null
  return CHUNKED.test(headerLines(headers, 'transfer-encoding').join()) ? null : 'BAD_CODING'
}

/**
 * The answer ends at its empty line, whatever length or coding it declares (RFC 9112 6.3). undici would wait for a
 * body. The connection is not used again, because its next bytes are unknown.
 */
export function endsAtHead (status: number, headers: RawHeaders): boolean {
  if (status < STATUS_MIN || mayHaveBody(status)) return false
  return headerLines(headers, 'transfer-encoding').length > 0 ||
    headerLines(headers, 'content-length').some((length) => Number(length) !== 0)
}

/** HTTP whitespace is not part of a value (RFC 9110 5.5). undici leaves it at the end. */
const CHUNKED = /^[ \t]*chunked[ \t]*$/i

/** Any but the characters that a field may have (RFC 9110 5.5). An answer with one is not passed on as complete. */
// eslint-disable-next-line no-control-regex -- control characters are what it looks for
const NOT_FIELD_TEXT = /[\x00-\x08\x0a-\x1f\x7f]/
const OWN_FAULTS = new Set(['BAD_STATUS', 'BAD_UPGRADE', 'BAD_HEADER', 'BAD_CODING', 'SENT_ALREADY'])

/** undici's types lack the raw list. It is set before onResponseStart. */
export function rawHeadersOf (controller: Dispatcher.DispatchController): string[] {
  const { rawHeaders } = controller as Dispatcher.DispatchController & { readonly rawHeaders: readonly Buffer[] | null }
  const headers: string[] = []
  if (rawHeaders !== null) for (const bytes of rawHeaders) headers.push(bytes.toString('latin1'))
  return headers
}

/** undici's own code for an answer that it does not expect: a status below 100. */
const ASSERTED = 'ERR_ASSERTION'

/** Parser errors have no code (measured with undici 7.30.2). */
export function codeOf (error: Error): string {
  const { code } = error as Error & { readonly code?: unknown }
  if (typeof code === 'string' && code !== ASSERTED) return code
  return OWN_FAULTS.has(error.message) ? error.message : NO_ANSWER
}
