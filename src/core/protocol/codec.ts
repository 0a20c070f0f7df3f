/**
 * Header lists and answers as bytes, for rows and copies. Bytes that are read are not trusted. Anything that this build would not write
 * becomes null, and the caller treats the row as undecodable. It never compresses and never changes a value.
 */
import type { Answer, RawHeaders } from '../record/record.ts'

/** First byte of an encoded header list. Another value is from another build. */
const HEADERS_VERSION = 1
/** version (1), number of lines (2). */
const HEADERS_PREFIX_BYTES = 3
/** The most that two bytes can count. Servers and clients allow some thousand lines. */
const LINES_MAX = 0xffff
/** Ends every name and value. A field can contain any byte but NUL, CR and LF. */
const END = '\0'

/**
 * version, number of lines, then every name and value in latin1, each followed by a NUL. Throws RangeError for a list that cannot come from
 * the wire: a name without value, a character outside latin1, too many lines.
 */
export function encodeHeaders (headers: RawHeaders): Buffer {
  if (headers.length % 2 !== 0 || headers.length > 2 * LINES_MAX) {
    throw new RangeError('a header list is pairs of name and value, at most 65535')
  }
  const text = headers.length === 0 ? '' : headers.join(END) + END
  if (BEYOND_LATIN1.test(text)) throw new RangeError('a header list is latin1')
  const bytes = Buffer.allocUnsafe(HEADERS_PREFIX_BYTES + text.length)
  bytes.writeUInt8(HEADERS_VERSION, 0)
  bytes.writeUInt16BE(headers.length / 2, 1)
  bytes.write(text, HEADERS_PREFIX_BYTES, 'latin1')
  return bytes
}

const BEYOND_LATIN1 = /[^\0-\xff]/

/** The encoded list. null: it was cut, is from another build, or holds text that is no HTTP field (RFC 9110 5.1, 5.5). */
export function decodeHeaders (bytes: Buffer): string[] | null {
  if (bytes.length < HEADERS_PREFIX_BYTES || bytes.readUInt8(0) !== HEADERS_VERSION) return null
  const parts = bytes.toString('latin1', HEADERS_PREFIX_BYTES).split(END)
  // After the last NUL there must be nothing. A list that was cut has part of a text there, or too few parts.
  if (parts.pop() !== '' || parts.length !== 2 * bytes.readUInt16BE(1)) return null
  return isFields(parts) ? parts : null
}

const FIELD_NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/
/** Tab, visible ASCII with space, and the upper half. */
const FIELD_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

/** With a line end in a stored value, the writer of a row could write whole answers. */
function isFields (parts: readonly string[]): boolean {
  for (let at = 0; at < parts.length; at += 2) {
    if (!FIELD_NAME.test(parts[at] ?? '') || !FIELD_VALUE.test(parts[at + 1] ?? '')) return false
  }
  return true
}

/** First byte of an encoded answer. */
const ANSWER_VERSION = 1
/** version (1), status (2), bytes of the header list (4), bytes of the body (4). */
export const ANSWER_PREFIX_BYTES = 11
/** Where the bytes of the header list stand. */
export const ANSWER_HEADERS_AT = 3

/**
 * version, status, both lengths, header list, body. Throws RangeError like {@link encodeHeaders}, and for a status that does not fit into
 * two bytes.
 */
export function encodeAnswer ({ status, headers, body }: Answer): Buffer {
  const encoded = encodeHeaders(headers)
  const bytes = Buffer.allocUnsafe(answerBytes(encoded, body))
  putAnswer(bytes, 0, status, encoded, body)
  return bytes
}

/** How many bytes {@link putAnswer} writes. `headers`: encoded. */
export function answerBytes (headers: Buffer, body: Buffer): number { return ANSWER_PREFIX_BYTES + headers.length + body.length }

/** {@link encodeAnswer} into bytes that have room for it, of a header list that is encoded already. */
export function putAnswer (bytes: Buffer, at: number, status: number, headers: Buffer, body: Buffer): void {
  bytes.writeUInt8(ANSWER_VERSION, at)
  bytes.writeUInt16BE(status, at + 1)
  bytes.writeUInt32BE(headers.length, at + 3)
  bytes.writeUInt32BE(body.length, at + 7)
  bytes.set(headers, at + ANSWER_PREFIX_BYTES)
  bytes.set(body, at + ANSWER_PREFIX_BYTES + headers.length)
}

/** The encoded answer. Its body is a view of `bytes`. null: it is not complete, or not an HTTP answer. */
export function decodeAnswer (bytes: Buffer): Answer | null {
  const head = decodeAnswerHead(bytes, bytes.length)
  return head === null ? null : { status: head.status, headers: head.headers, body: bytes.subarray(bytes.length - head.bodyBytes) }
}

/** An encoded answer of which only the beginning is at hand: at least up to its body. `length`: of the whole. null: as above. */
export function decodeAnswerHead (
  bytes: Buffer,
  length: number
): { readonly status: number, readonly headers: RawHeaders, readonly bodyBytes: number } | null {
  if (bytes.length < ANSWER_PREFIX_BYTES || bytes.readUInt8(0) !== ANSWER_VERSION) return null
  const status = bytes.readUInt16BE(1)
  const bodyAt = ANSWER_PREFIX_BYTES + bytes.readUInt32BE(ANSWER_HEADERS_AT)
  const bodyBytes = bytes.readUInt32BE(7)
  if (status < 100 || status > 599 || length !== bodyAt + bodyBytes) return null
  const headers = decodeHeaders(bytes.subarray(ANSWER_PREFIX_BYTES, bodyAt))
  return headers === null ? null : { status, headers, bodyBytes }
}
