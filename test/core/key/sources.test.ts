/** Where keys are: each source, several in order, and the detail if a key cannot be made. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { keyHeaderOf, readKeySources } from '../../../src/config/routes/key-source.ts'
import { findKey, keySourceText } from '../../../src/core/key/sources.ts'
import { DERIVED_CHARS_MAX } from '../../../src/core/key/values.ts'
import type { FoundKey } from '../../../src/core/key/sources.ts'
import type { KeyPolicy } from '../../../src/core/policy/policy.ts'

function policyOf (...from: string[]): KeyPolicy {
  const read = readKeySources(from)
  assert.ok('value' in read, 'wrong' in read ? read.wrong : '')
  return { sources: read.value, header: keyHeaderOf(read.value), required: false, syntax: 'lenient', store: 'text', windowMs: 86_400_000 }
}

interface Asked {
  readonly headers?: readonly string[]
  readonly target?: string
  readonly path?: string
  readonly body?: string | Buffer | null
  readonly at?: string
}

function find (
  from: string | readonly string[],
  { headers = [], target = '/', path = '/', body = null, at = '2026-11-21T18:00:00Z' }: Asked = {}
): FoundKey {
  const keyed = { rawHeaders: headers, target, match: { path }, nowMs: () => Date.parse(at) }
  return findKey(policyOf(...[from].flat()), keyed, body === null ? null : Buffer.from(body))
}

function keyOf (...args: Parameters<typeof find>): string | undefined {
  const found = find(...args)
  return found.kind === 'key' ? found.key : undefined
}

/** The kind of the result, and its detail. */
function saidOf (...args: Parameters<typeof find>): string {
  const found = find(...args)
  return 'detail' in found ? `${found.kind}: ${found.detail}` : found.kind
}

describe('one value', () => {
  test('a header, in either of its spellings', () => {
    assert.equal(keyOf('header:X-Event-Id', { headers: ['x-event-id', 'abc'] }), 'abc')
    assert.equal(keyOf('header:X-Event-Id', { headers: ['X-Event-Id', '"a\\"b"'] }), 'a"b')
    assert.equal(saidOf('header:X-Event-Id'), 'absent')
  })

  test('the query, decoded; twice is no key', () => {
    assert.equal(keyOf('query:id', { target: '/x?a=1&id=a%2Fb+c' }), 'a/b c')
    assert.equal(saidOf('query:id', { target: '/x' }), 'absent')
    assert.equal(saidOf('query:id', { target: '/x?id=' }), 'absent')
    assert.match(
      saidOf('query:id', { target: '/x?id=1&id=1' }),
      /^invalid: The key is to be the query's id, which is there more than once\.$/
    )
  })

  test('a value of the body; numbers keep their digits', () => {
    assert.equal(keyOf('json:/event/id', { body: '{"event":{"id":"evt_1"}}' }), 'evt_1')
    assert.equal(keyOf('json:/id', { body: '{"id":9007199254740993}' }), '9007199254740993')
    assert.equal(keyOf('json:/list/1', { body: '{"list":["a","b"]}' }), 'b')
  })

  test('nothing is looked for in a body before it has been read', () => {
    assert.equal(saidOf('json:/id'), 'body')
    assert.equal(saidOf(['header:X', 'json:/id']), 'body')
    assert.equal(keyOf(['header:X', 'json:/id'], { headers: ['X', 'abc'] }), 'abc')
  })

  for (const [why, body] of [
    ['no JSON', 'id=1'],
    ['nothing', ''],
    ['cut off', '{"id":"a"'],
    ['not UTF-8', Buffer.from([0x22, 0xff, 0x22])],
    ['without it', '{"other":1}'],
    ['null there', '{"id":null}'],
    ['empty there', '{"id":""}']
  ] as const) {
    test(`a body that is ${why}: the pointer is named, the payload is not`, () => {
      assert.equal(saidOf('json:/id', { body }), 'missing: The key is to be the body\'s value at /id, which is not there.')
    })
  }

  for (const [why, body, said] of [
    ['an object', '{"id":{"a":1}}', 'is no string, integer or boolean'],
    ['a list', '{"id":[1]}', 'is no string, integer or boolean'],
    ['a number with other spellings', '{"id":1.0}', 'is no string, integer or boolean'],
    ['there twice', '{"id":"a","id":"b"}', 'is there more than once'],
    ['longer than 255', JSON.stringify({ id: 'x'.repeat(256) }), 'is longer than 255 characters'],
    ['with a line end in it', '{"id":"a\\nb"}', 'has characters that no key may have'],
    ['half a character', '{"id":"\\ud800"}', 'has characters that no key may have']
  ] as const) {
    test(`a value that is ${why} is no key`, () => {
      assert.equal(saidOf('json:/id', { body }), `invalid: The key is to be the body's value at /id, which ${said}.`)
    })
  }
})

describe('several values in one', () => {
  const template = 'template:{json:/type}:{header:X-Topic}-{query:v}/{path:id}@{date:day}'
  const asked: Asked = {
    headers: ['X-Topic', 'orders'],
    target: '/v1/things/7%2F8/done?v=2',
    path: '/v1/things/:id/done',
    body: '{"type":"made"}'
  }

  test('each behind its length', () => {
    assert.equal(keyOf(template, asked), '4:made:6:orders-1:2/3:7/8@10:2026-11-21')
    assert.equal(keyOf(template, { ...asked, at: '2026-11-22T00:00:00Z' }), '4:made:6:orders-1:2/3:7/8@10:2026-11-22')
    assert.equal(keyOf('template:{query:a}{date:hour}', { target: '/?a=1' }), '1:113:2026-11-21T18')
  })

  test('no two lists of values are one key, whatever stands between them', () => {
    const key = (a: string, b: string): string | undefined => keyOf('template:{query:a}|{query:b}', {
      target: `/?${new URLSearchParams({ a, b }).toString()}`
    })
    assert.notEqual(key('a', 'bc'), key('ab', 'c'))
    assert.notEqual(key('a|1:b', 'c'), key('a', 'b|1:c'))
  })

  test('a part that is not there is named', () => {
    assert.match(
      saidOf(template, { ...asked, headers: [] }),
      /^missing: A part of the key is to be the x-topic header, which is not there\.$/
    )
    assert.match(saidOf(template, { ...asked, body: '{}' }), /the body's value at \/type/)
    assert.match(saidOf(template, { ...asked, target: '/v1/things' }), /the query's v/)
    assert.match(
      saidOf(template, { ...asked, headers: ['X-Topic', 'a', 'X-Topic', 'b'] }),
      /^invalid: .*x-topic header, which is there more than once/
    )
    assert.match(saidOf('template:{path:id}', { target: '/%ff', path: '/:id' }), /^invalid: .*is not percent-encoded UTF-8/)
  })

  test('all together are bounded', () => {
    const from = `template:${'{query:a}'.repeat(5)}`
    assert.ok((keyOf(from, { target: `/?a=${'x'.repeat(200)}` }) ?? '').length <= DERIVED_CHARS_MAX)
    assert.match(saidOf(from, { target: `/?a=${'x'.repeat(255)}` }), /^invalid: .*is longer than 1024 characters/)
  })
})

describe('the content', () => {
  test('of the whole body, byte for byte', () => {
    assert.match(keyOf('hash:body', { body: '{"a":1}' }) ?? '', /^sha256:[A-Za-z0-9_-]{43}$/)
    assert.notEqual(keyOf('hash:body', { body: '{"a":1}' }), keyOf('hash:body', { body: '{"a": 1}' }))
    assert.equal(keyOf('hash:body', { body: '' }), keyOf('hash:body', { body: '' }))
  })

  test('of some of its values, however they are spelled', () => {
    const key = (body: string): string | undefined => keyOf('hash:/a, /b', { body })
    assert.equal(key('{"a":{"x":1,"y":2},"b":1.0,"sentAt":1}'), key('{"sentAt":2,"b":1,"a":{"y":2,"x":1}}'))
    assert.notEqual(key('{"a":"1","b":2}'), key('{"a":1,"b":2}'))
    assert.notEqual(key('{"a":[1,2],"b":3}'), key('{"a":[1],"b":[2,3]}'))
    assert.match(saidOf('hash:/a,/b', { body: '{"a":1}' }), /^missing: .*the body's value at \/b/)
  })
})

describe('several sources', () => {
  test('are tried in their order, and the first that yields wins', () => {
    const from = ['header:Idempotency-Key', 'json:/id', 'hash:body']
    const source = (asked: Asked): string => {
      const found = find(from, asked)
      return found.kind === 'key' && found.source !== undefined ? keySourceText(found.source) : found.kind
    }
    assert.equal(source({ headers: ['Idempotency-Key', 'k'], body: '{"id":1}' }), 'header:idempotency-key')
    assert.equal(source({ body: '{"id":1}' }), 'json:/id')
    assert.equal(source({ body: 'no json' }), 'hash:body')
  })

  test('one that is there and is no key ends it: the next would take it for another request', () => {
    assert.match(saidOf(['header:Idempotency-Key', 'json:/id'], { headers: ['Idempotency-Key', 'a b'], body: '{"id":1}' }), /^invalid/)
    assert.match(saidOf(['json:/id', 'hash:body'], { body: '{"id":[]}' }), /^invalid/)
  })

  test('none yields: the first that asked for something of the body says what', () => {
    assert.match(saidOf(['header:X', 'json:/id', 'json:/event/id'], { body: '{}' }), /^missing: .*at \/id/)
    assert.equal(saidOf(['header:X', 'query:id']), 'absent')
  })
})

describe('as they are written', () => {
  for (const text of [
    'header:x-event',
    'query:id',
    'json:/a~1b/0',
    'template:{json:/a}:{header:x}-{query:v}/{path:id}@{date:day}',
    'hash:body',
    'hash:/a,/b/c'
  ]) {
    test(text, () => { assert.equal(keySourceText(policyOf(text).sources[0] ?? assert.fail()), text) })
  }

  for (const [text, said] of [
    ['header:', /names no header/], ['header:a b', /names no header/], ['query:', /names nothing/],
    ['json:id', /is no JSON pointer/], ['json:', /is no JSON pointer/],
    ['template:', /the same for every request/], ['template:{date:day}', /the same for every request/],
    ['template:{id}', /has \{id\}; write/], ['template:{json:x}', /is no JSON pointer/],
    ['template:{query:a}}', /has a brace/], ['template:{date:year}', /write \{date:day\}/],
    ['hash:', /neither hash:body nor/], ['hash:/a,b', /neither hash:body nor/], ['Idempotency-Key', /is no key source/],
    ['', /is no key source/]
  ] as const) {
    test(`refused: ${JSON.stringify(text)}`, () => {
      const read = readKeySources(text)
      assert.ok('wrong' in read)
      assert.match(read.wrong, said)
    })
  }

  test('what can never be asked is refused', () => {
    const read = readKeySources(['hash:body', 'json:/id'])
    assert.ok('wrong' in read && /after hash:body/.test(read.wrong))
  })
})

test('a target with scheme and host before it is the same request, part by part', () => {
  const from = 'template:{path:topic}-{query:n}'
  const path = '/sink/:topic'
  for (const target of ['/sink/orders?n=1', 'http://shop.example/sink/orders?n=1', 'HTTP://[::1]:80/sink/orders?n=1']) {
    assert.equal(keyOf(from, { target, path }), '6:orders-1:1', target)
  }
})

test('bytes of the query that are no UTF-8 are no key: others would become the same', () => {
  for (const target of ['/x?id=%ff', '/x?id=%fe', '/x?id=%zz']) {
    assert.match(saidOf('query:id', { target }), /^invalid: .+is not percent-encoded UTF-8/, target)
  }
  assert.equal(keyOf('query:id', { target: '/x?%69d=%C3%BC' }), 'ü')
  assert.match(saidOf('query:id', { target: '/x?id=1&%69d=2' }), /more than once/)
})

test('what moves a terminal is in no key', () => {
  for (const text of ['\u009b31m', '\u0085', '\u202e', '\u2028', '\u2066']) {
    assert.match(saidOf('json:/id', { body: `{"id":"x${text}"}` }), /^invalid: .+characters that no key may have/)
  }
})

test('two senders on one route may draw the same id', () => {
  const senders = ['standard-webhooks', 'github']
  assert.equal(keyOf(senders, { headers: ['webhook-id', '1'] }), 'standard-webhooks:1')
  assert.equal(keyOf(senders, { headers: ['X-GitHub-Delivery', '1'] }), 'github:1')
})

test('Event Grid beside others takes nothing that does not say it is its own', () => {
  const batch = '[{"id":"1"},{"id":"2"}]'
  assert.equal(keyOf(['eventgrid', 'standard-webhooks'], { headers: ['webhook-id', 'w'], body: batch }), 'standard-webhooks:w')
  assert.equal(
    find(['eventgrid', 'standard-webhooks'], { headers: ['webhook-id', 'w', 'aeg-event-type', 'Notification'], body: batch }).kind,
    'passes'
  )
})
