/**
 * Requests as bytes, changed in ways in which servers differ. Of one seed always the same. Each has a mark of its own in its
 * target, and one that hides in its body, or behind it, another.
 */
import { Chance } from '../simulation/chance.ts'

export interface Drawn {
  readonly number: number
  readonly bytes: Buffer
  /** The names of what was changed, for the report. */
  readonly changes: readonly string[]
}

/** Below it everything unsafe is guarded; the rest passes through. */
export const GUARDED = '/guarded'
export const OPEN = '/open'
/** Nothing asks for it but what hides in other requests. */
export const HIDDEN = 'hidden'

class Draft {
  method: string
  target: string
  version = 'HTTP/1.1'
  fields: string[]
  body: string
  /** The body as it goes over the wire. */
  framed: string
  lineEnd = '\r\n'
  /** Behind all of it. */
  behind = ''

  readonly mark: string

  constructor (chance: Chance, mark: string) {
    this.mark = mark
    const way = chance.one([GUARDED, OPEN])
    this.method = chance.one(['POST', 'POST', 'POST', 'PUT', 'PATCH', 'DELETE', 'GET', 'HEAD', 'OPTIONS', 'QUERY'])
    this.target = `${way}/${mark}`
    this.body = chance.hit(0.7) ? `{"mark":"${mark}","${'x'.repeat(chance.whole(0, 60))}":1}` : ''
    this.framed = this.body
    this.fields = ['Host: gateway.test', `Idempotency-Key: ${mark}`, 'Authorization: Bearer doors', 'Content-Type: application/json']
    if (this.body !== '') {
      if (chance.hit(0.3)) this.chunked(chance)
      else this.fields.push(`Content-Length: ${this.body.length}`)
    }
  }

  chunked (chance: Chance): void {
    this.fields.push('Transfer-Encoding: chunked')
    const cut = chance.whole(1, Math.max(1, this.body.length - 1))
    const parts = [this.body.slice(0, cut), this.body.slice(cut)].filter((part) => part !== '')
    this.framed = `${parts.map((part) => `${part.length.toString(16)}\r\n${part}\r\n`).join('')}0\r\n\r\n`
  }

  get isChunked (): boolean { return this.fields.some((field) => /^transfer-encoding/i.test(field)) }

  text (): string {
    return `${this.method} ${this.target} ${this.version}${this.lineEnd}${this.fields.map((field) => `${field}${this.lineEnd}`).join('')}${this.lineEnd}${this.framed}${this.behind}`
  }
}

/** What a server would execute if it took the inside of a body for a request. */
function hiding (mark: string): string {
  return `POST ${OPEN}/${HIDDEN}-${mark} HTTP/1.1\r\nHost: gateway.test\r\nContent-Length: 0\r\n\r\n`
}

type Change = (draft: Draft, chance: Chance) => void

function put (draft: Draft, chance: Chance, field: string): void {
  draft.fields.splice(chance.whole(0, draft.fields.length), 0, field)
}

/** The field's line otherwise; where there is none, one more. */
function respell (draft: Draft, name: RegExp, otherwise: (line: string) => string, absent: string): void {
  const at = draft.fields.findIndex((field) => name.test(field))
  if (at === -1) draft.fields.push(otherwise(absent))
  else draft.fields[at] = otherwise(draft.fields[at] ?? '')
}

const LENGTH = /^content-length/i
const CODING = /^transfer-encoding/i
const BLANKS = [' ', '\t', '\v', '\f', '\r', '\0', '\x85', '\xa0', '  ', '\r\n ', '\n']
const SIZES = ['0x5', '+5', '-1', '5 ', ' 5', '5,5', '5, 6', '05', '1e1', '5;q', '', '99999999999999999999', '5.0', '\u0665', '5\0']

const CHANGES: Readonly<Record<string, Change>> = {
  'a length that is none': (draft, chance) => {
    respell(draft, LENGTH, (line) => line.replace(/:.*/, () => `: ${chance.one(SIZES)}`), 'Content-Length: 0')
  },
  'another length': (draft, chance) => {
    respell(
      draft,
      LENGTH,
      (line) => line.replace(/:.*/, () => `: ${Math.max(0, draft.framed.length + chance.whole(-8, 8))}`),
      'Content-Length: 0'
    )
  },
  'two lengths': (draft, chance) => {
    put(draft, chance, `Content-Length: ${chance.one([draft.framed.length, 0, 5])}`)
    put(draft, chance, `Content-Length: ${chance.one([draft.framed.length, 0, 6])}`)
  },
  'length and coding': (draft, chance) => {
    draft.framed = chance.hit(0.5) ? `0\r\n\r\n${hiding(draft.mark)}` : `${hiding(draft.mark)}0\r\n\r\n`
    draft.fields = draft.fields.filter((field) => !LENGTH.test(field) && !CODING.test(field))
    put(draft, chance, `Content-Length: ${chance.one([draft.framed.length, 5, 0])}`)
    put(draft, chance, `Transfer-Encoding: ${chance.one(['chunked', 'Chunked', 'identity', 'chunked, identity', 'xchunked', '"chunked"', 'chunked;a=b', 'gzip, chunked', ''])}`)
  },
  'a coding that is spelled otherwise': (draft, chance) => {
    draft.chunked(chance)
    respell(
      draft,
      CODING,
      () => chance.one([
        'Transfer-Encoding:chunked',
        'Transfer-Encoding : chunked',
        'Transfer-Encoding\t: chunked',
        ' Transfer-Encoding: chunked',
        'Transfer_Encoding: chunked',
        'Transfer-Encoding: chunked\v',
        'Transfer-Encoding: \xa0chunked',
        'Transfer-Encoding: chunked\xa0',
        'Transfer-Encoding: \ufeffchunked',
        'Transfer-Encoding: \vchunked',
        'Transfer-Encoding: chunKed',
        'Transfer-Encoding: chunked, chunked',
        'Transfer-Encoding: identity',
        'Transfer-Encoding:\r\n chunked',
        'Transfer-Encoding: chunked\r\nTransfer-Encoding: identity',
        'X: y\nTransfer-Encoding: chunked',
        'Transfer-Encoding: cow',
        'TE: chunked',
        'Transfer-Encoding: \x00chunked',
        'Transfer-Encoding: chunked\x00',
        'Transfer-Encodin\u212a: chunked'
      ]),
      ''
    )
  },
  'a chunk that is none': (draft, chance) => {
    if (!draft.isChunked) draft.chunked(chance)
    const size = draft.body.length.toString(16)
    draft.framed = chance.one([
      `0x${size}`, `+${size}`, `-${size}`, ` ${size}`, `${size} `, `${size};a`, `${size};a="\n"`, `${size};\n`,
      `${size}\n`, `0${size}`, `${'0'.repeat(40)}${size}`, `1${'0'.repeat(16)}`, `${size}\r`, `${size}\v`, `${size}_`,
      'ffffffffffffffff', ''
    ]) +
      `\r\n${draft.body}${chance.one(['\r\n', '\n', '', '\r\r\n', 'XX'])}0${chance.one(['\r\n\r\n', '\n\n', '\r\n\n', '\r\r\n\r\n', `\r\n${hiding(draft.mark)}`])}`
  },
  trailers: (draft, chance) => {
    if (!draft.isChunked) draft.chunked(chance)
    draft.framed = draft.framed.replace(/0\r\n\r\n$/, () =>
      `0\r\n${chance.one([`Idempotency-Key: ${HIDDEN}`, 'Content-Length: 5', 'Transfer-Encoding: chunked', 'Host: other.test', 'Authorization: Bearer other', 'X: y', 'X : y', ' X: y', 'X', `X: ${'y'.repeat(chance.whole(1, 20_000))}`])}\r\n\r\n`)
  },
  'bare line ends': (draft, chance) => {
    if (chance.hit(0.5)) draft.lineEnd = chance.one(['\n', '\r', '\n\r', '\r\r\n'])
    else put(draft, chance, `X-Bare: a${chance.one(['\n', '\r', '\r\r'])}${chance.one([`Content-Length: ${draft.framed.length}`, 'Transfer-Encoding: chunked', 'X: y', `\n${hiding(draft.mark)}`])}`)
  },
  'a name that is none': (draft, chance) => {
    put(draft, chance, chance.one([
      'X Y: z', ': z', 'X\0: z', 'X(): z', '\xff: z', 'X: ', 'X', '=: z', 'X\t: z', 'Content-Length\0: 5',
      '\u212aost: x', '@: y'
    ]))
  },
  'a value with what has no place there': (draft, chance) => { put(draft, chance, `X-Odd: a${chance.one(BLANKS)}b`) },
  'a folded line': (draft, chance) => {
    put(draft, chance, `X-Folded: a\r\n${chance.one([' b', '\tb', ' Transfer-Encoding: chunked', ' Content-Length: 5'])}`)
  },
  'look-alikes': (draft, chance) => {
    put(draft, chance, chance.one([
      'Content_Length: 5', 'Transfer_Encoding: chunked', 'Idempotency_Key: other', 'X_Forwarded_For: 1.1.1.1',
      'Host_: x', 'Onceway-Key: x', 'onceway_key: x', 'Authorization_: Bearer y'
    ]))
  },
  'what Connection takes away': (draft, chance) => {
    put(draft, chance, `Connection: ${chance.one(['close', 'keep-alive', 'Idempotency-Key', 'Content-Length', 'Transfer-Encoding', 'Host', 'Authorization', 'close, Accept', 'Upgrade', 'upgrade, http2-settings', 'keep-alive, close', 'X-Forwarded-For', ',', ''])}`)
  },
  'an upgrade': (draft, chance) => {
    put(draft, chance, 'Connection: Upgrade')
    put(draft, chance, `Upgrade: ${chance.one(['websocket', 'h2c', 'WebSocket', 'websocket, h2c', 'TLS/1.0'])}`)
    if (chance.hit(0.5)) draft.method = 'GET'
    draft.behind += hiding(draft.mark)
  },
  'another version': (draft, chance) => {
    draft.version = chance.one([
      'HTTP/1.0', 'HTTP/1.0', 'HTTP/0.9', 'HTTP/1.2', 'HTTP/2.0', 'HTTP/1.1 ', 'http/1.1', 'HTTP/1.', 'HTTP/11',
      'HTTP/1.1\t', 'HTTPS/1.1', 'HTTP /1.1', 'HTTP/1,1', 'HTTP/01.1', 'PRI * HTTP/2.0', ''
    ])
  },
  'another method': (draft, chance) => {
    draft.method = chance.one([
      'post', 'POST ', ' POST', 'PO ST', 'CONNECT', 'TRACE', 'PROPFIND', 'M-SEARCH', 'SOURCE', 'X', 'POST\t', '"POST"',
      'POST\0', 'LOCK'
    ])
  },
  'another target': (draft, chance) => {
    draft.target = chance.one([
      `http://gateway.test${draft.target}`,
      `http://other.test${draft.target}`,
      `HTTP://GATEWAY.TEST:80${draft.target}`,
      `//gateway.test${draft.target}`,
      `${draft.target}#x`,
      `${draft.target}?a b`,
      `${draft.target}\t`,
      `${draft.target}\x01`,
      `${draft.target}\xff`,
      `${draft.target}\r`,
      `${draft.target}?${'y'.repeat(chance.whole(1, 20_000))}`,
      '*',
      `gateway.test${draft.target}`,
      `http://u@gateway.test${draft.target}`,
      `http:/${draft.target}`,
      draft.target.slice(1),
      `${draft.target} ${draft.target}`,
      `${draft.target}?_method=GET`,
      `/%2e%2e${draft.target}`,
      `${draft.target}/..`
    ])
  },
  'another Host': (draft, chance) => {
    respell(
      draft,
      /^host/i,
      () => chance.one([
        'Host: other.test', 'Host: ', 'Host: gateway.test, other.test', 'Host: gateway.test\r\nHost: gateway.test',
        'Host: gateway.test\r\nHost: other.test', 'Host: gateway.test:80', 'Host: gateway.test:x',
        'Host: a@gateway.test', 'Host: gateway.test/x', 'Host: [::1', 'Host: \xa0gateway.test', 'Host: \xa0',
        'Host: gateway.test\t', 'Host : gateway.test', 'Host: \xe9', 'X-No-Host: 1', 'Host: gateway%2etest', 'Host: ..',
        'Host: 127.0.0.1#'
      ]),
      ''
    )
  },
  'another key': (draft, chance) => {
    respell(
      draft,
      /^idempotency-key/i,
      (line) => chance.one([
        `${line}\r\n${line}`,
        `${line}\r\nIdempotency-Key: other`,
        line.replace(': ', ':'),
        line.replace(': ', ': "'),
        `${line},other`,
        `${line}\xff`,
        'Idempotency-Key:',
        line.replace('Idempotency', 'idempotency'),
        'Idempotency-Key : x',
        `${line}\0`,
        `Idempotency-Key: ${'k'.repeat(chance.whole(200, 2_000))}`,
        `X: y\r\n ${line}`,
        line.toUpperCase()
      ]),
      'Idempotency-Key: x'
    )
  },
  'an expectation': (draft, chance) => {
    put(
      draft,
      chance,
      `Expect: ${chance.one(['100-continue', '100-Continue', 'nothing', '100-continue, x', '100-continue\r\nExpect: x', '', '200-ok'])}`
    )
  },
  'one behind it': (draft, chance) => {
    draft.behind += chance.one([
      hiding(draft.mark),
      `\r\n${hiding(draft.mark)}`,
      '\0',
      '\r\n\r\n\r\n',
      'X',
      hiding(draft.mark).replaceAll('\r\n', '\n'),
      hiding(draft.mark).slice(0, -5)
    ])
  },
  'hidden in the body': (draft) => {
    draft.body = hiding(draft.mark)
    draft.framed = draft.body
    draft.fields = draft.fields.filter((field) => !LENGTH.test(field) && !CODING.test(field))
    draft.fields.push(`Content-Length: ${draft.body.length}`)
  },
  'a body that stops': (draft, chance) => { draft.framed = draft.framed.slice(0, chance.whole(0, Math.max(0, draft.framed.length - 1))) },
  'a body without a length': (draft) => { draft.fields = draft.fields.filter((field) => !LENGTH.test(field) && !CODING.test(field)) },
  'too much of a head': (draft, chance) => { put(draft, chance, `X-Long: ${'z'.repeat(chance.whole(7_000, 40_000))}`) },
  'many lines': (draft, chance) => { for (let left = chance.whole(50, 2_100); left > 0; left--) draft.fields.push(`X-${left}: y`) },
  'where it came from': (draft, chance) => {
    put(draft, chance, `${chance.one(['X-Forwarded-For', 'X-Real-IP', 'Forwarded', 'X-Forwarded-Host', 'True-Client-IP', 'Via', 'X-Original-URL', 'X-Rewrite-URL', 'X-HTTP-Method-Override'])}: ${chance.one(['127.0.0.1', 'for=127.0.0.1;host=other.test', '/open/other', 'GET', 'a, b', ''])}`)
  }
}

export const CHANGE_NAMES: readonly string[] = Object.keys(CHANGES)

/** Of so many one is left as it is: what must go through goes through. */
const WHOLE_SHARE = 0.06
/** Of so many a byte or three are flipped beside. */
const FLIPPED_SHARE = 0.15

export function drawRequest (seed: number, number: number): Drawn {
  const chance = new Chance(seed, number)
  const draft = new Draft(chance, `m${seed}-${number}`)
  const changes: string[] = []
  if (!chance.hit(WHOLE_SHARE)) {
    for (let left = chance.weighted([[6, 1], [3, 2], [1, 3]] as const); left > 0; left--) {
      const name = chance.one(CHANGE_NAMES)
      changes.push(name)
      CHANGES[name]?.(draft, chance)
    }
  }
  let bytes = Buffer.from(draft.text(), 'latin1')
  if (chance.hit(FLIPPED_SHARE)) {
    changes.push('flipped bytes')
    for (let left = chance.whole(1, 3); left > 0; left--) bytes = flipped(bytes, chance)
  }
  return { number, bytes, changes }
}

function flipped (bytes: Buffer<ArrayBuffer>, chance: Chance): Buffer<ArrayBuffer> {
  const at = chance.whole(0, bytes.length - 1)
  const byte = Buffer.from([chance.one([0, 9, 10, 11, 13, 32, 44, 58, 59, 127, 133, 160, 255, chance.whole(0, 255)])])
  const skipped = chance.one([0, 1, 1])
  return Buffer.concat([bytes.subarray(0, at), chance.hit(0.2) ? Buffer.alloc(0) : byte, bytes.subarray(at + skipped)])
}
