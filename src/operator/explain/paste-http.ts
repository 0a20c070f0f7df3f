/** Reads a pasted HTTP/1.1 request: a request line, header lines, an empty line and a body, with CRLF or LF. */
import { authorityOf, headerLines } from '../../core/headers/lines.ts'
import { PasteError } from './paste-error.ts'
import type { PastedRequest } from './asked.ts'

const REQUEST_LINE = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([^\s]+) HTTP\/[0-9](?:\.[0-9])?$/
const FIELD_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
/** RFC 9110 5.5 without the line ends, which end a line here. */
// eslint-disable-next-line no-control-regex -- these are what is refused
const NOT_IN_A_VALUE = /[\x00-\x08\x0a-\x1f\x7f]/

/** @throws PasteError */
export function readHttp (pasted: string): PastedRequest {
  const text = pasted.replace(/^[\r\n]+/, '')
  const [head, body] = partsOf(text)
  const [first = '', ...lines] = head.split(/\r?\n/)
  const [, method, target] = REQUEST_LINE.exec(first) ?? []
  if (method === undefined || target === undefined) {
    throw new PasteError('The first line is no request line like "POST /things HTTP/1.1", and the text is no curl command.')
  }
  const headers = lines.flatMap(fieldOf)
  return { method, target: bytesOf(target), host: hostOf(bytesOf(target)), headers, ...framed(headers, Buffer.from(body)) }
}

/** The head, and what comes after the first empty line. */
function partsOf (text: string): [head: string, body: string] {
  const end = /\r?\n\r?\n/.exec(text)
  if (end === null) return [text.replace(/\r?\n$/, ''), '']
  return [text.slice(0, end.index), text.slice(end.index + end[0].length)]
}

/** @throws PasteError */
export function fieldOf (line: string): [name: string, value: string] {
  const colon = line.indexOf(':')
  const name = line.slice(0, Math.max(0, colon))
  if (!FIELD_NAME.test(name)) {
    throw new PasteError(/^[ \t]/.test(line)
      ? 'A header line begins with a blank. Write each field on one line.'
      : 'A header line is not a name, a colon and a value.')
  }
  const value = line.slice(colon + 1)
  if (NOT_IN_A_VALUE.test(value)) throw new PasteError(`The value of ${name.slice(0, NAME_SHOWN_MAX)} has a control character.`)
  return [name, bytesOf(value).replace(/^[ \t]+|[ \t]+$/g, '')]
}

/** A longer name is not repeated. */
const NAME_SHOWN_MAX = 64

/** A client of a proxy writes the host into the target. */
function hostOf (target: string): string | null {
  const authority = authorityOf(target)
  return authority === null ? null : authority.slice(authority.lastIndexOf('@') + 1)
}

/** Node hands over a byte in each character. The text that was pasted is UTF-8. */
export function bytesOf (text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1')
}

/** An editor adds a line end, and Content-Length says that it is not of the body. */
function framed (headers: readonly string[], body: Buffer): Pick<PastedRequest, 'body' | 'notes'> {
  const [length] = headerLines(headers, 'content-length')
  const bytes = length !== undefined && /^[0-9]+$/.test(length) ? Number(length) : null
  if (bytes === null) {
    const isChunked = headerLines(headers, 'transfer-encoding').length > 0
    return { body, notes: isChunked ? ['The body is taken as it is written here, without reading chunks.'] : [] }
  }
  if (bytes === body.length) return { body, notes: [] }
  if (bytes < body.length && ONLY_LINE_ENDS.test(body.toString('latin1', bytes))) return { body: body.subarray(0, bytes), notes: [] }
  return {
    body,
    notes: [`The body has ${body.length} bytes here, and Content-Length says ${length}. If a part is missing or changed, it compares as another request.`]
  }
}

const ONLY_LINE_ENDS = /^[\r\n]+$/
