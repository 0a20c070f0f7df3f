/** Probes: how a question is rendered, what an answer means, and when to probe again. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { readTemplate } from '../../../src/config/routes/probe.ts'
import { findValue, findValues, POINTED_BYTES_MAX, readPointer, scalarText } from '../../../src/core/json/pointer.ts'
import type { ProbePolicy, Template } from '../../../src/core/policy/policy.ts'
import {
  afterFinding,
  QUESTION_BYTES_MAX,
  questionHeaders,
  readFinding,
  readHead,
  readQuestion,
  renderQuestion
} from '../../../src/core/probe/probe.ts'
import type { ProbeProgress, Finding } from '../../../src/core/probe/probe.ts'
import type { Answer } from '../../../src/core/record/record.ts'
import { apiPolicy } from '../../harness/gateway.ts'

function template (text: string): Template {
  const read = readTemplate(text)
  assert.ok('value' in read, text)
  return read.value
}

function policyOf (over: Partial<ProbePolicy> = {}): ProbePolicy {
  return {
    method: 'GET',
    path: template('/charges/{key}'),
    headers: [],
    timeoutMs: 1_000,
    found: { statuses: [200], adopt: null, replayStatus: 201 },
    notFound: [404],
    notFoundMarks: [],
    confirmAfterMs: 60_000,
    intervalMs: 1_000,
    giveUpAfterMs: 3_600_000,
    ...over
  }
}

const keep = apiPolicy().keep
const recordId = 'B9mTgmJfex0uaXIhVC3WC8gRNDT5HQy1heD3zfWFelM'

function targetOf (path: string, body = '{}', key = 'k'): string | null {
  const bytes = renderQuestion(policyOf({ path: template(path) }), 'up', { key, recordId, body: Buffer.from(body), host: null })
  return bytes === null ? null : readQuestion(bytes)?.target ?? 'unreadable'
}

describe('a question', () => {
  test('is the template with this request\'s values, percent-encoded', () => {
    assert.equal(
      targetOf('/c/{key}?r={record}&o={json:/order/0/id}', '{"order":[{"id":"a b/ü?&#"}]}', 'x/.y'),
      `/c/x%2F.y?r=${recordId}&o=a%20b%2F%C3%BC%3F%26%23`
    )
  })

  test('keeps the digits of a number, and takes booleans', () => {
    assert.equal(targetOf('/c/{json:/id}', '{"id":9007199254740993}'), '/c/9007199254740993')
    assert.equal(targetOf('/c/{json:/id}', '{"id":-0.5e1,"id2":-7}'.replace('"id2"', '"x"')), null)
    assert.equal(targetOf('/c/{json:/id}', '{"id":-7}'), '/c/-7')
    assert.equal(targetOf('/c/{json:/id}', '{"id":false}'), '/c/false')
  })

  const LACKING: ReadonlyArray<readonly [string, string, string?]> = [
    ['the body is no JSON', 'id=1'],
    ['the value is not there', '{"other":1}'],
    ['the value is empty', '{"id":""}'],
    ['the value is null', '{"id":null}'],
    ['the value is a document', '{"id":{"a":1}}'],
    ['the value would lead to another path', '{"id":".."}'],
    ['the value would, once a hop has tidied it up', '{"id":"a/../b"}'],
    ['the value would, on a server that takes backslashes', '{"id":"..\\\\x"}'],
    ['the number has other spellings', '{"id":1.0}'],
    ['the number has other spellings, too', '{"id":1e3}'],
    ['the value is there twice', '{"id":"a","id":"b"}'],
    ['the body is larger than what is searched', JSON.stringify({ id: 'a', more: 'x'.repeat(POINTED_BYTES_MAX) })],
    ['the value is half a character', '{"id":"\\ud800"}'],
    ['it would be too long', JSON.stringify({ id: 'x'.repeat(QUESTION_BYTES_MAX) })],
    ['the value is what an object has by nature', '{}', '/c/{json:/constructor/name}']
  ]
  for (const [why, body, path = '/c/{json:/id}'] of LACKING) {
    test(`cannot be put where ${why}`, () => { assert.equal(targetOf(path, body), null) })
  }

  test('holds the templates of its fields, and none that is the same for all: that may be a credential', () => {
    const policy = policyOf({ headers: [['Authorization', template('Bearer of-the-gateway')], ['X-Order', template('{json:/id}')]] })
    const bytes = renderQuestion(policy, 'up', { key: 'k', recordId, body: Buffer.from('{"id":"o-1"}'), host: 'tenant.example' })
    assert.ok(bytes !== null && !bytes.includes('of-the-gateway'))
    const question = readQuestion(bytes)
    assert.ok(question !== null)
    assert.deepEqual(question.headers, [['X-Order', 'o-1']])
    assert.deepEqual(questionHeaders(question, policy, [['Via', 'us']], [['x-order', 'static'], ['X-Env', 'live']]),
      ['Via', 'us', 'X-Order', 'o-1', 'X-Env', 'live', 'Authorization', 'Bearer of-the-gateway', 'Host', 'tenant.example'])
  })

  test('a field never takes a value that would end it', () => {
    const policy = policyOf({ headers: [['X-Order', template('{json:/id}')]] })
    for (const id of ['a\\r\\nX: y', ' ', 'ord-1 ']) {
      assert.equal(renderQuestion(policy, 'up', { key: 'k', recordId, body: Buffer.from(`{"id":"${id}"}`), host: null }), null, id)
    }
  })

  test('is read only as this build writes it', () => {
    const written = { version: 1, upstream: 'u', method: 'GET', target: '/a', headers: [], host: null }
    assert.ok(readQuestion(Buffer.from(JSON.stringify(written))) !== null)
    for (const wrong of [
      { version: 2 },
      { method: 'POST' },
      { target: 'http://elsewhere' },
      { target: '/a b' },
      { headers: [['a', 'b\nc']] },
      { headers: {} },
      { upstream: 1 },
      { host: 'a\r\nb' },
      { host: 1 }
    ]) {
      assert.equal(readQuestion(Buffer.from(JSON.stringify({ ...written, ...wrong }))), null, JSON.stringify(wrong))
    }
    for (const bytes of ['', 'null', '[]', '"x"', '{']) assert.equal(readQuestion(Buffer.from(bytes)), null, bytes)
  })
})

describe('an answer to it', () => {
  const answer = (status: number, body = '', headers: string[] = []): Answer => ({ status, headers, body: Buffer.from(body) })
  const finding = (over: Partial<ProbePolicy['found']>, given: Answer, kept = keep): Finding =>
    readFinding(policyOf({ found: { statuses: [200], adopt: null, replayStatus: 201, ...over } }), kept, given)

  test('found: becomes the record\'s, with the status that retries are to see, less what is true of one exchange only', () => {
    const found = finding(
      {},
      answer(200, '{"id":1}', ['Content-Type', 'application/json', 'Date', 'now', 'Set-Cookie', 'a=b', 'Content-Length', '8'])
    )
    assert.deepEqual(found, {
      kind: 'found',
      status: 201,
      answer: { status: 201, headers: ['Content-Type', 'application/json'], body: Buffer.from('{"id":1}') }
    })
  })

  test('found: with its own status where none is given', () => {
    assert.deepEqual(finding({ replayStatus: null }, answer(200, 'x')), {
      kind: 'found',
      status: 200,
      answer: { status: 200, headers: [], body: Buffer.from('x') }
    })
  })

  test('found: only what the pointer names, number for number', () => {
    const found = finding(
      { adopt: readPointer('/data/0') },
      answer(200, '{"data":[{"amount":10000000000000001,"rate":1.50,"a/b":null}]}', ['ETag', '"x"'])
    )
    assert.deepEqual(found, {
      kind: 'found',
      status: 201,
      answer: {
        status: 201,
        headers: ['Content-Type', 'application/json'],
        body: Buffer.from('{"amount":10000000000000001,"rate":1.50,"a/b":null}')
      }
    })
  })

  for (const [why, body, headers] of [
    ['an empty list', '{"data":[]}', []],
    ['no JSON', 'oops', []],
    ['a coding that was not asked for', '{"data":[1]}', ['Content-Encoding', 'gzip']]
  ] as const) {
    test(`found, and ${why} where the pointer points: nothing, never "not found"`, () => {
      assert.deepEqual(finding({ adopt: readPointer('/data/0') }, answer(200, body, [...headers])), { kind: 'nothing', why: 'ADOPT' })
    })
  }

  test('found, and larger than what is kept, or nothing is kept: a tombstone', () => {
    assert.deepEqual(finding({}, answer(200, 'x'.repeat(10)), { ...keep, responseBytesMax: 9 }), {
      kind: 'found',
      status: 201,
      answer: null
    })
    assert.deepEqual(finding({}, answer(200, 'x'), { ...keep, body: false }), { kind: 'found', status: 201, answer: null })
  })

  test('found, and nothing is where the pointer points, on a route that keeps no bodies: nothing all the same', () => {
    assert.deepEqual(finding({ adopt: readPointer('/data/0') }, answer(200, '{"data":[]}'), { ...keep, body: false }), {
      kind: 'nothing',
      why: 'ADOPT'
    })
    assert.deepEqual(finding({ adopt: readPointer('/data/0') }, answer(200, '{"data":[1]}'), { ...keep, body: false }), {
      kind: 'found',
      status: 201,
      answer: null
    })
  })

  test('only a head, of what is too large or has no end: what a pointer would look into was never there', () => {
    const policy = (adopt: string | null): ProbePolicy => policyOf({
      found: { statuses: [200], adopt: adopt === null ? null : readPointer(adopt), replayStatus: 201 }
    })
    assert.deepEqual(readHead(policy(null), 200, []), { kind: 'found', status: 201, answer: null })
    assert.deepEqual(readHead(policy('/data/0'), 200, []), { kind: 'nothing', why: 'ADOPT' })
    assert.deepEqual(
      [readHead(policy(null), 404, []), readHead(policy(null), 503, [])],
      [{ kind: 'absent' }, { kind: 'nothing', why: 'HTTP_503' }]
    )
  })

  test('"not found" counts only with every mark that is demanded', () => {
    const header = { kind: 'header', name: 'x-from-app' } as const
    const json = { kind: 'json', pointer: ['error', 'code'] } as const
    const said = (marks: ProbePolicy['notFoundMarks'], given: Answer): Finding =>
      readFinding(policyOf({ notFoundMarks: marks }), keep, given)
    const [absent, unmarked] = [{ kind: 'absent' }, { kind: 'nothing', why: 'UNMARKED' }]
    const body = '{"error":{"code":null}}'
    for (const [marks, given, wanted] of [
      [[], answer(404, ''), absent],
      [[header], answer(404, body), unmarked],
      [[header], answer(404, '', ['X-From-App', '']), absent],
      [[json], answer(404, body), absent],
      [[json], answer(404, '{"message":"no Route matched with those values"}'), unmarked],
      [[json], answer(404, '<h1>404</h1>'), unmarked],
      [[json], answer(404, body, ['Content-Encoding', 'gzip']), unmarked],
      [[json], answer(404, '{"error":{"code":1,"code":2}}'), unmarked],
      [[header, json], answer(404, body), unmarked],
      [[header, json], answer(404, '', ['X-From-App', '1']), unmarked],
      [[header, json], answer(404, body, ['x-from-app', '1']), absent]
    ] as const) assert.deepEqual(said(marks, given), wanted, JSON.stringify([marks, given]))
    assert.deepEqual(
      [
        readHead(policyOf({ notFoundMarks: [header] }), 404, ['X-From-App', '1']),
        readHead(policyOf({ notFoundMarks: [header] }), 404, []),
        readHead(policyOf({ notFoundMarks: [json] }), 404, [])
      ],
      [absent, unmarked, unmarked]
    )
  })

  test('found by HEAD: its fields are about a body that nobody has', () => {
    const found = readFinding(
      policyOf({ method: 'HEAD' }),
      keep,
      answer(200, '', ['Content-Type', 'application/json', 'Content-Encoding', 'gzip', 'ETag', '"x"'])
    )
    assert.deepEqual(found, { kind: 'found', status: 201, answer: { status: 201, headers: [], body: Buffer.alloc(0) } })
  })

  test('found, replayed with a status that has no body', () => {
    assert.deepEqual(finding({ replayStatus: 204 }, answer(200, 'x')), {
      kind: 'found',
      status: 204,
      answer: { status: 204, headers: [], body: Buffer.alloc(0) }
    })
  })

  test('not found is what the list says, and everything else is nothing', () => {
    assert.deepEqual(finding({}, answer(404)), { kind: 'absent' })
    for (const status of [201, 204, 302, 401, 403, 410, 429, 500, 503]) {
      assert.deepEqual(finding({}, answer(status)), { kind: 'nothing', why: `HTTP_${status}` })
    }
  })
})

describe('after an asking', () => {
  const progress = (over: Partial<ProbeProgress> = {}): ProbeProgress =>
    ({ tries: 1, unknownMs: 0, quarantineLeftMs: -1, absentMs: null, ...over })
  const absent: Finding = { kind: 'absent' }
  const nothing: Finding = { kind: 'nothing', why: 'HTTP_500' }
  const policy = policyOf()

  test('"not found" while the first sending may be under way counts for nothing', () => {
    assert.deepEqual(afterFinding(policy, progress({ quarantineLeftMs: 90_000, absentMs: 80_000 }), absent), {
      do: 'again',
      afterMs: 1_000,
      absent: 'forget'
    })
    assert.deepEqual(afterFinding(policy, progress({ quarantineLeftMs: 10, tries: 9 }), absent), {
      do: 'again',
      afterMs: 11,
      absent: 'forget'
    })
  })

  test('the first that counts is confirmed by a second one, no sooner than confirmAfter', () => {
    assert.deepEqual(afterFinding(policy, progress(), absent), { do: 'again', afterMs: 60_000, absent: 'first' })
    assert.deepEqual(afterFinding(policy, progress({ absentMs: 20_000 }), absent), { do: 'again', afterMs: 40_000, absent: 'stays' })
    assert.deepEqual(afterFinding(policy, progress({ absentMs: 60_000 }), absent), { do: 'release' })
  })

  test('found settles at any time', () => {
    assert.deepEqual(
      afterFinding(policy, progress({ quarantineLeftMs: 90_000, absentMs: 1, unknownMs: 9_999_999 }), {
        kind: 'found',
        status: 201,
        answer: null
      }),
      { do: 'adopt', status: 201, answer: null }
    )
  })

  test('no answer is asked for again, ever more rarely, until it is given up', () => {
    const afterMs = (tries: number): unknown => {
      const step = afterFinding(policy, progress({ tries }), nothing)
      return step.do === 'again' ? step.afterMs : step.do
    }
    assert.deepEqual([1, 2, 3, 9, 10, 99].map(afterMs), [1_000, 2_000, 4_000, 256_000, 300_000, 300_000])
    assert.deepEqual(afterFinding(policy, progress({ unknownMs: 3_600_000 }), nothing), { do: 'give-up' })
    assert.deepEqual(afterFinding(policy, progress({ unknownMs: 3_600_000, absentMs: 1 }), absent), {
      do: 'again',
      afterMs: 59_999,
      absent: 'stays'
    })
  })

  test('a "not found" that was followed by an answer of no use is forgotten; one followed by silence is not', () => {
    assert.deepEqual(afterFinding(policy, progress({ absentMs: 5 }), { kind: 'nothing', why: 'ADOPT' }), {
      do: 'again',
      afterMs: 1_000,
      absent: 'forget'
    })
    assert.deepEqual(afterFinding(policy, progress({ absentMs: 5 }), nothing), { do: 'again', afterMs: 1_000, absent: 'stays' })
  })
})

describe('a JSON pointer (RFC 6901)', () => {
  // The example document of its section 5.
  const document = Buffer.from('{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\\\j":5,"k\\"l":6," ":7,"m~n":8}')
  const at = (text: string, body = document): unknown => {
    const pointer = readPointer(text)
    const found = pointer === null ? null : findValue(body, pointer)
    return found?.kind === 'value' ? found.source : found?.kind ?? 'no pointer'
  }
  for (const [text, value] of [
    ['/foo', '["bar","baz"]'],
    ['/foo/0', '"bar"'],
    ['/', '0'],
    ['/a~1b', '1'],
    ['/c%d', '2'],
    ['/e^f', '3'],
    ['/g|h', '4'],
    ['/i\\j', '5'],
    ['/k"l', '6'],
    ['/ ', '7'],
    ['/m~0n', '8']
  ] as const) {
    test(text, () => { assert.equal(at(text), value) })
  }

  test('what is not there is nothing; what is no pointer is said', () => {
    for (const text of ['/bar', '/foo/2', '/foo/length', '/foo/-', '/foo/00', '/foo/0/0', '/a~1b/0', '/__proto__']) {
      assert.equal(at(text), 'none', text)
    }
    for (const text of ['', 'foo', '/~2', '/~']) assert.equal(at(text), 'no pointer', text)
  })

  test('values come as they are written: digits, escapes, space', () => {
    const body = Buffer.from(' { "a" : [ 1 , { "b" : -1.50e+2 } ] , "c" : "\\u0041\\/" , "\\u0064" : null } ')
    assert.deepEqual(['/a', '/a/1', '/a/1/b', '/c', '/d'].map((text) => at(text, body)), [
      '[ 1 , { "b" : -1.50e+2 } ]', '{ "b" : -1.50e+2 }', '-1.50e+2', '"\\u0041\\/"', 'null'
    ])
  })

  test('a member that is there twice on the way has no value; beside the way it may be', () => {
    assert.equal(at('/a', Buffer.from('{"a":1,"a":1}')), 'ambiguous')
    assert.equal(at('/a', Buffer.from('{"a":1,"\\u0061":2}')), 'ambiguous')
    assert.equal(at('/a/b', Buffer.from('{"a":{"b":1},"a":{"c":1}}')), 'ambiguous')
    assert.equal(at('/a/b', Buffer.from('{"a":{"b":1,"x":0,"x":1},"y":0,"y":1}')), '1')
  })

  test('nothing is found in what is no JSON', () => {
    for (const text of [
      '', ' ', '{"a":1', '{"a":1}x', '{"a":1,}', '[1,]', '{a:1}', '{"a":01}', '{"a":.5}', '{"a":+1}', '{"a":"\\x"}',
      '{"a":"\n"}', '{"a":tru}', '{"a":NaN}', '\ufeff{"a":1}', "{'a':1}", '{"a" 1}', '{"a":1 "b":2}'
    ]) {
      assert.equal(at('/a', Buffer.from(text)), 'none', JSON.stringify(text))
    }
    assert.equal(at('/a', Buffer.from([0x7b, 0x22, 0x61, 0x22, 0x3a, 0x22, 0xff, 0x22, 0x7d])), 'none')
  })

  test('agrees with JSON.parse on what is JSON', () => {
    const texts = [
      '{"a":"\\ud83d\\ude00","b":[true,false,null]}',
      '[[[["x"]]]]',
      '{"a":{"a":{"a":1}}}',
      '"text"',
      '0',
      '-0',
      '1E400',
      '[]',
      '{}',
      '[{}]'
    ]
    for (const text of texts) {
      const whole = JSON.parse(`{"x":${text}}`) as { x: unknown }
      const found = findValue(Buffer.from(`{"x":${text}}`), ['x'])
      assert.deepEqual(found.kind === 'value' ? JSON.parse(found.source) : found.kind, whole.x, text)
    }
  })

  test('many at once, in one pass', () => {
    assert.deepEqual(
      findValues(Buffer.from('{"a":{"b":[1,2]},"c":3}'), [['a', 'b', '1'], ['c'], ['a'], ['x'], ['c']]).map((found) =>
        found.kind === 'value' ? found.source : found.kind),
      ['2', '3', '{"b":[1,2]}', 'none', '3']
    )
  })

  test('too deep and too large are nothing', () => {
    assert.equal(at('/0', Buffer.from('['.repeat(100_000))), 'none')
    assert.equal(at('/0', Buffer.from(`${'['.repeat(200)}1${']'.repeat(200)}`)), 'none')
    assert.equal(at('/a', Buffer.from(`{"a":1,"b":"${'x'.repeat(POINTED_BYTES_MAX)}"}`)), 'none')
  })

  test('texts of scalars: a number that has other spellings is none', () => {
    assert.deepEqual(['0', '-7', '12345678901234567890', '-0', '1.0', '1e3', '"a\\n"', 'true', 'null', '{}', '[]'].map(scalarText), [
      '0', '-7', '12345678901234567890', null, null, null, 'a\n', 'true', null, null, null
    ])
  })
})
