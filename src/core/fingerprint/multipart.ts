/**
 * A multipart/form-data body as its parts, so that two sendings that differ only in the boundary are one request. It is strict: a body with
 * anything outside its parts has no parts here. The same holds for a boundary that another reader could find elsewhere. Such a body is
 * compared byte for byte. Parts are never decoded.
 */
import { parametersOf } from '../headers/media-type.ts'

/** RFC 2046 5.1.1. */
const BOUNDARY_CHARS_MAX = 70
/** Forms have dozens of fields. A body with more parts is compared as bytes. */
export const PARTS_MAX = 1000

/**
 * The parts, each with its header block and content as they came. null unless the body is exactly `--boundary CRLF part (CRLF --boundary
 * CRLF part)* CRLF --boundary--` with an optional last CRLF.
 */
export function multipartParts (contentType: string | null, body: Buffer): Buffer[] | null {
  const boundary = contentType === null ? null : boundaryOf(contentType)
  if (boundary === null) return null
  const delimiter = Buffer.from(`--${boundary}`, 'latin1')
  if (body.indexOf(delimiter) !== 0) return null
  const parts: Buffer[] = []
  let at = delimiter.length
  while (startsWith(body, CRLF, at)) {
    const start = at + CRLF.length
    const next = body.indexOf(delimiter, start)
    // Every occurrence must be a delimiter on a line of its own. A lenient reader would end the part there.
    if (next < start + CRLF.length || !startsWith(body, CRLF, next - CRLF.length) || parts.length === PARTS_MAX) return null
    parts.push(body.subarray(start, next - CRLF.length))
    at = next + delimiter.length
  }
  return endsAt(body, at) && parts.length > 0 ? parts : null
}

const CRLF = Buffer.from('\r\n')
const CLOSE = Buffer.from('--')

function startsWith (body: Buffer, prefix: Buffer, at: number): boolean {
  return body.subarray(at, at + prefix.length).equals(prefix)
}

/** `--`, at most one line end, and no epilogue. */
function endsAt (body: Buffer, at: number): boolean {
  if (!startsWith(body, CLOSE, at)) return false
  const rest = body.subarray(at + CLOSE.length)
  return rest.length === 0 || rest.equals(CRLF)
}

const FORM_DATA = /^\s*multipart\/form-data\s*(?=;|$)/i
/** bchars of RFC 2046. The last one must not be a space. */
const BOUNDARY = /^[A-Za-z0-9'()+_,./:=? -]*[A-Za-z0-9'()+_,./:=?-]$/

/** The one boundary of a multipart/form-data media type, or null. */
function boundaryOf (contentType: string): string | null {
  const type = FORM_DATA.exec(contentType)
  if (type === null) return null
  const [boundary, ...others] = (parametersOf(contentType, type[0].length) ?? []).flatMap(([name, value]) =>
    name === 'boundary' ? [value] : [])
  if (boundary === undefined || others.length > 0) return null
  return boundary.length <= BOUNDARY_CHARS_MAX && BOUNDARY.test(boundary) ? boundary : null
}
