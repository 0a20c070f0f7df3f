/**
 * HTTP/1 as its specification has it and nothing besides (RFC 9110, RFC 9112): what a request is, where it ends, and nothing
 * where that is in doubt. The measure for those that read more generously.
 */

export interface WireMessage {
  /** Of a request: method, target, version; of an answer: version, status, reason. */
  readonly start: readonly [string, string, string]
  /** Flat. */
  readonly headers: readonly string[]
  readonly body: Buffer
}

export interface WireRead {
  readonly messages: readonly WireMessage[]
  /** whole: nothing is left. more: a message is not whole. bad: one is none, and nothing behind it is read. */
  readonly end: 'whole' | 'more' | 'bad'
  /** Bytes of the messages that were read. */
  readonly bytes: number
}

const MORE = Symbol('more')
const BAD = Symbol('bad')
type Trouble = typeof MORE | typeof BAD

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
/** Several spaces before the target are one to Node's parser, as RFC 9112 3 lets it be. */
const REQUEST_LINE = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+) +([\x21-\x7e\x80-\xff]+) HTTP\/(1\.[01])$/
const STATUS_LINE = /^HTTP\/(1\.[01]) ([1-9][0-9]{2})(?: ([\t\x20-\x7e\x80-\xff]*))?$/
const FIELD_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/
const DIGITS = /^[0-9]{1,15}$/
const CHUNK = /^0*([0-9A-Fa-f]{1,12})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?$/
/** In front of a request; the LF alone is enough for one (RFC 9112 2.2). */
const EMPTY_LINES_MAX = 8
/** The last CR may have its LF still to come. */
const BARE_END = /(?<!\r)\n|\r(?!\n|$)/

export function readRequests (bytes: Buffer): WireRead {
  return read(bytes, REQUEST_LINE, ({ start: [, , version], headers }) => framingOfRequest(version, headers))
}

/** `methods`: of the requests that they answer, in order. Answers to none of them are bad; 1xx answer nothing yet. */
export function readAnswers (bytes: Buffer, methods: readonly string[]): WireRead & { readonly finals: number } {
  let finals = 0
  const found = read(bytes, STATUS_LINE, ({ start: [, status], headers }) => {
    if (status.startsWith('1')) return 0
    const method = methods[finals++]
    if (method === undefined) return BAD
    if (method === 'HEAD' || status === '204' || status === '304') return 0
    return framingOf(headers) ?? UNTIL_CLOSE
  })
  return { ...found, finals }
}

const UNTIL_CLOSE = -2
const CHUNKED = -1

function read (bytes: Buffer, startLine: RegExp, framing: (head: Omit<WireMessage, 'body'>) => number | Trouble): WireRead {
  const text = bytes.toString('latin1')
  const messages: WireMessage[] = []
  let at = 0
  const ended = (end: WireRead['end'], bytes: number): WireRead => ({ messages, end, bytes })
  for (;;) {
    const from = at
    for (let empty = 0; empty < EMPTY_LINES_MAX && (text.startsWith('\r\n', at) || text.startsWith('\n', at)); empty++) {
      at += text.startsWith('\n', at) ? 1 : 2
    }
    if (at >= text.length) return ended('whole', at)
    const headEnd = text.indexOf('\r\n\r\n', at)
    const head = headOf(headEnd === -1 ? text.slice(at) : text.slice(at, headEnd), startLine, headEnd === -1)
    if (head === MORE || head === BAD) return ended(head === MORE ? 'more' : 'bad', from)
    const length = framing(head)
    if (length === MORE || length === BAD) return ended(length === MORE ? 'more' : 'bad', from)
    const body = bodyOf(text, headEnd + 4, length)
    if (body === MORE || body === BAD) return ended(body === MORE ? 'more' : 'bad', from)
    messages.push({ ...head, body: Buffer.from(body.text, 'latin1') })
    at = body.end
  }
}

/** `partly`: its end has not come; what is there already may be bad all the same. */
function headOf (text: string, startLine: RegExp, partly: boolean): Omit<WireMessage, 'body'> | Trouble {
  if (BARE_END.test(text)) return BAD
  const lines = text.split('\r\n')
  if (partly) lines.pop()
  const [first, ...fields] = lines
  if (first === undefined) return MORE
  const [, a = '', b = '', c = ''] = startLine.exec(first) ?? []
  if (a === '') return BAD
  const headers: string[] = []
  for (const field of fields) {
    const colon = field.indexOf(':')
    const [name, value] = [field.slice(0, colon), field.slice(colon + 1)]
    if (colon < 1 || !TOKEN.test(name) || !FIELD_VALUE.test(value)) return BAD
    headers.push(name, value.replace(/^[ \t]+|[ \t]+$/g, ''))
  }
  return partly ? MORE : { start: [a, b, c], headers }
}

export function valuesOf (headers: readonly string[], name: string): string[] {
  return headers.flatMap((each, at) => at % 2 === 0 && each.toLowerCase() === name ? headers[at + 1] ?? '' : [])
}

/** null: neither field is there. */
function framingOf (headers: readonly string[]): number | Trouble | null {
  const [codings, lengths] = [valuesOf(headers, 'transfer-encoding'), valuesOf(headers, 'content-length')]
  if (codings.length > 0) return codings.length > 1 || lengths.length > 0 || codings[0]?.toLowerCase() !== 'chunked' ? BAD : CHUNKED
  if (lengths.length === 0) return null
  return lengths.length > 1 || !DIGITS.test(lengths[0] ?? '') ? BAD : Number(lengths[0])
}

function framingOfRequest (version: string, headers: readonly string[]): number | Trouble {
  if (version === '1.0' && valuesOf(headers, 'transfer-encoding').length > 0) return BAD
  if (valuesOf(headers, 'host').length > 1 || (version === '1.1' && valuesOf(headers, 'host').length === 0)) return BAD
  return framingOf(headers) ?? 0
}

function bodyOf (text: string, from: number, length: number): { readonly text: string, readonly end: number } | Trouble {
  if (length === UNTIL_CLOSE) return { text: text.slice(from), end: text.length }
  if (length !== CHUNKED) return text.length < from + length ? MORE : { text: text.slice(from, from + length), end: from + length }
  let [body, at] = ['', from]
  for (;;) {
    const lineEnd = text.indexOf('\r\n', at)
    if (lineEnd === -1) return /^[0-9A-Fa-f]*(?:[ \t]*;?[^\r\n]*)?\r?$/.test(text.slice(at)) ? MORE : BAD
    const [, size = ''] = CHUNK.exec(text.slice(at, lineEnd)) ?? []
    if (size === '') return BAD
    const bytes = parseInt(size, 16)
    at = lineEnd + 2
    if (bytes === 0) break
    if (text.length < at + bytes + 2) return MORE
    body += text.slice(at, at + bytes)
    if (!text.startsWith('\r\n', at + bytes)) return BAD
    at += bytes + 2
  }
  for (;;) {
    const lineEnd = text.indexOf('\r\n', at)
    if (lineEnd === -1) return MORE
    const line = text.slice(at, lineEnd)
    at = lineEnd + 2
    if (line === '') return { text: body, end: at }
    const colon = line.indexOf(':')
    if (colon < 1 || !TOKEN.test(line.slice(0, colon)) || !FIELD_VALUE.test(line.slice(colon + 1))) return BAD
  }
}
