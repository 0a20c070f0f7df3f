/** Pasted requests are read as they would be sent, and whatever is pasted, nothing but a PasteError comes out. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { parsePastedRequest, PASTED_CHARS_MAX } from '../../../src/operator/explain/paste.ts'
import type { PastedRequest } from '../../../src/operator/explain/asked.ts'
import { PasteError } from '../../../src/operator/explain/paste-error.ts'

function shown (text: string): { head: string, headers: string[], body: string } {
  const { method, target, headers, body } = parsePastedRequest(text)
  const lines = headers.flatMap((name, at) => at % 2 === 0 ? [`${name}: ${headers[at + 1] ?? ''}`] : [])
  return { head: `${method} ${target}`, headers: lines, body: body.toString() }
}

function refusal (text: string): string {
  try {
    parsePastedRequest(text)
  } catch (error) {
    assert.ok(error instanceof PasteError, String(error))
    return error.message
  }
  return 'not refused'
}

for (const [name, end] of [['CRLF', '\r\n'], ['LF', '\n']] as const) {
  test(`HTTP/1.1 with ${name}: the head in its order, and the body to the byte`, () => {
    const lines = [
      'POST /things?a=b HTTP/1.1', 'Host: api.example.test', 'Idempotency-Key:  k-1 ', 'X-Two: 1', 'x-two: 2', '', '{"a": 1}\n\n{}'
    ]
    assert.deepEqual(shown(lines.join(end)), {
      head: 'POST /things?a=b',
      headers: ['Host: api.example.test', 'Idempotency-Key: k-1', 'X-Two: 1', 'x-two: 2'],
      body: '{"a": 1}\n\n{}'
    })
  })
}

test('HTTP/1.1 in the absolute form names its host, without the user', () => {
  const { target, host } = parsePastedRequest('POST http://me:secret@api.example.test:81/x HTTP/1.1\n\n')
  assert.deepEqual([target, host], ['http://me:secret@api.example.test:81/x', 'api.example.test:81'])
})

test('the line end that an editor adds is not of the body, if Content-Length says so', () => {
  const text = 'POST / HTTP/1.1\nContent-Length: 4\n\nsame\n'
  assert.deepEqual([parsePastedRequest(text).body.toString(), parsePastedRequest(text).notes], ['same', []])
  const other = parsePastedRequest('POST / HTTP/1.1\nContent-Length: 9\n\nsame\n')
  assert.equal(other.body.toString(), 'same\n')
  assert.match(other.notes.join(), /has 5 bytes here, and Content-Length says 9/)
})

test('letters beyond ASCII are bytes in the head, as Node hands them over', () => {
  const { target, headers } = parsePastedRequest('POST /ü HTTP/1.1\nX-Name: ü\n\n')
  assert.deepEqual([target, headers[1]], ['/Ã¼', 'Ã¼'])
})

const BAD_HTTP: ReadonlyArray<readonly [text: string, why: RegExp]> = [
  ['', /empty/],
  [' \r\n ', /empty/],
  ['hello', /no request line/],
  ['POST  / HTTP/1.1', /no request line/],
  ['POST / HTTP/1.1 x', /no request line/],
  ['PO ST / HTTP/1.1', /no request line/],
  ['POST / HTTP/1.1\nno field', /not a name, a colon/],
  ['POST / HTTP/1.1\n: x', /not a name, a colon/],
  ['POST / HTTP/1.1\nA: 1\n  folded', /begins with a blank/],
  ['POST / HTTP/1.1\nA: \u0000', /control character/],
  ['POST / HTTP/1.1\nA: 1\rB: 2', /control character/],
  ['x'.repeat(PASTED_CHARS_MAX + 1), /larger than 1048576 bytes/],
  ['ü'.repeat(PASTED_CHARS_MAX / 2 + 1), /larger than 1048576 bytes/]
]

for (const [text, why] of BAD_HTTP) {
  test(`refused: ${JSON.stringify(text.slice(0, 40))}`, () => { assert.match(refusal(text), why) })
}

test('curl as a browser copies it', () => {
  const text = `curl 'https://api.example.test/things?q=1' \\
  -H 'accept: application/json' \\
  -H 'content-type: application/json' \\
  -H 'idempotency-key: k-1' \\
  -b 'session=a; theme=b' \\
  --data-raw $'{"who":"O\\'Neil","bang":"\\u0021","line":"a\\\\nb"}' \\
  --compressed`
  assert.deepEqual(shown(text), {
    head: 'POST /things?q=1',
    headers: [
      'accept: application/json', 'content-type: application/json', 'idempotency-key: k-1', 'Host: api.example.test',
      'Cookie: session=a; theme=b'
    ],
    body: '{"who":"O\'Neil","bang":"!","line":"a\\nb"}'
  })
})

const CURL: ReadonlyArray<readonly [text: string, expected: Partial<ReturnType<typeof shown>>]> = [
  ['curl api.test', { head: 'GET /', headers: ['Host: api.test'], body: '' }],
  ['$ curl http://api.test?a=b#part', { head: 'GET /?a=b' }],
  ['curl -XPATCH --url "http://api.test/a b"'.replace('a b', 'ab'), { head: 'PATCH /ab' }],
  ['curl -sSX PUT http://api.test/x', { head: 'PUT /x' }],
  [
    'curl -d a=1 -d b=2 http://api.test/',
    { head: 'POST /', body: 'a=1&b=2', headers: ['Host: api.test', 'Content-Type: application/x-www-form-urlencoded'] }
  ],
  ['curl --data-raw @name http://api.test/', { body: '@name' }],
  ['curl -d "a\\"b\\\\c" http://api.test/', { body: 'a"b\\c' }],
  ['curl -d \'a\'"b"c\\ d http://api.test/', { body: 'abc d' }],
  ['curl -d "" http://api.test/', { head: 'POST /', body: '' }],
  ['curl -u me:secret http://api.test/', { headers: ['Host: api.test', 'Authorization: Basic bWU6c2VjcmV0'] }],
  ['curl http://me:se%20cret@api.test/', { headers: ['Host: api.test', 'Authorization: Basic bWU6c2UgY3JldA=='] }],
  ['curl -u a:b -H "Authorization: Bearer t" http://api.test/', { headers: ['Authorization: Bearer t', 'Host: api.test'] }],
  ['curl -H "X-Empty;" -H "Content-Type:" -d x http://api.test/', { headers: ['X-Empty: ', 'Host: api.test'] }],
  ['curl -H "Host: other.test" http://api.test/', { headers: ['Host: other.test'] }],
  ['curl -d \'$HOME `id` $(id)\' http://api.test/', { body: '$HOME `id` $(id)' }]
]

for (const [text, expected] of CURL) {
  test(text, () => {
    const { head, headers, body } = shown(text)
    const all: Record<string, unknown> = { head, headers, body }
    for (const [name, value] of Object.entries(expected)) assert.deepEqual(all[name], value, name)
  })
}

const BAD_CURL: ReadonlyArray<readonly [text: string, why: RegExp]> = [
  ['curl -s', /no URL/],
  ['curl http://a.test http://b.test', /more than one URL/],
  ['curl ftp://a.test/', /no http or https URL/],
  ['curl http:///x', /no http or https URL/],
  ['curl "http://a.test/a b"', /no http or https URL/],
  ['curl http://a.test/a/../b', /segment of dots/],
  ['curl -d @/etc/passwd http://a.test/', /names a file/],
  ['curl --data-binary @x http://a.test/', /names a file/],
  ['curl -H @x http://a.test/', /names a file/],
  ['curl -b jar http://a.test/', /names a file/],
  ['curl -K config http://a.test/', /option -K is not understood/],
  ['curl -F a=b http://a.test/', /option -F is not understood/],
  ['curl --data-urlencode a=b http://a.test/', /--data-urlencode is not understood/],
  ['curl -X', /has no value/],
  ['curl -X "A B" http://a.test/', /is no method/],
  ['curl -u me http://a.test/', /without a password/],
  ['curl http://%zz@a.test/', /not percent-encoded/],
  ['curl -H "no colon" http://a.test/', /not a name, a colon/],
  ["curl -H $'A: b\\r\\nC: d' http://a.test/", /control character/],
  ["curl -b $'a=b\\nC: d' http://a.test/", /control character/],
  ["curl -d 'open http://a.test/", /not closed/],
  ['curl -d "open http://a.test/', /not closed/],
  ["curl -d $'open http://a.test/", /not closed/],
  ["curl -d $'\\q' http://a.test/", /not known here/],
  ["curl -d $'\\0' http://a.test/", /is no character/],
  ["curl -d $'\\xff' http://a.test/", /is no character/],
  ["curl -d $'\\Uffffffff' http://a.test/", /is no character/],
  ['curl http://a.test/ \\', /ends in a backslash/],
  ['curl http://a.test/ | sh', /unquoted \|/],
  ['curl http://a.test/ > file', /unquoted >/],
  ['curl http://a.test/; id', /unquoted ;/],
  ['curl $(id)', /unquoted \$/],
  ['curl `id`', /unquoted `/],
  ['curl -d "$HOME" http://a.test/', /between double quotes/]
]

for (const [text, why] of BAD_CURL) {
  test(`refused: ${text}`, () => { assert.match(refusal(text), why) })
}

test('no message repeats a value', () => {
  const texts = [
    'POST / HTTP/1.1\nhunter2', 'POST / HTTP/1.1\nA: hunter2\u0000', 'curl -u hunter2 http://a.test/', 'curl -H hunter2 http://a.test/'
  ]
  for (const text of texts) assert.doesNotMatch(refusal(text), /hunter2/)
})

const PIECES = [
  'curl ', 'POST / HTTP/1.1', '\n', '\r\n', ' ', '\\', "'", '"', "$'", '$', '`', '-X', '-d', '-H', '--data-raw', '-u', '-b', ':', ';', '@',
  '#', '?', '/',
  'http://', 'a.test', 'Host: x', 'Content-Length: 3', '\u0000', 'ü', '\ud800', '\\x', '\\u12', '%', '=', '__proto__', 'constructor'
]

test('property: whatever is pasted is a request that Node could have handed over, or a PasteError', () => {
  const pasted = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.array(fc.constantFrom(...PIECES), { maxLength: 40 }).map((pieces) => pieces.join('')),
    fc.array(fc.constantFrom(...PIECES), { maxLength: 40 }).map((pieces) => `curl ${pieces.join('')}`),
    fc.array(fc.constantFrom(...PIECES), { maxLength: 40 }).map((pieces) => `POST / HTTP/1.1\n${pieces.join('')}`)
  )
  fc.assert(fc.property(pasted, (text) => {
    let request: PastedRequest
    try {
      request = parsePastedRequest(text)
    } catch (error) {
      return error instanceof PasteError
    }
    const { method, target, headers } = request
    assert.equal(headers.length % 2, 0)
    for (const part of [method, target, ...headers]) assert.match(part, /^[\t\x20-\x7e\x80-\xff]*$/)
    return target !== ''
  }), { numRuns: 3_000 })
})

test('property: what a shell quotes, it reads again', () => {
  fc.assert(fc.property(fc.string({ unit: fc.constantFrom('a', "'", '"', '\\', '$', '`', ' ', '\n', 'ü', '@') }), (body) => {
    const quoted = `'${body.replaceAll("'", "'\\''")}'`
    assert.equal(shown(`curl --data-raw ${quoted} http://a.test/`).body, body)
  }))
})
