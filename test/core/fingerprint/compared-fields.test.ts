/** The parts that version 2 compares beside method, target, media type and body. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import fc from 'fast-check'
import { FINGERPRINT_DEFAULTS } from '../../../src/config/routes/schema.ts'
import { comparedHead, COMPARED_FIELDS } from '../../../src/core/fingerprint/compared-fields.ts'
import { fingerprintOf, sameRequest } from '../../../src/core/fingerprint/fingerprint.ts'
import type { ComparedRequest } from '../../../src/core/fingerprint/fingerprint.ts'
import type { FingerprintPolicy } from '../../../src/core/policy/policy.ts'
import type { Rules } from '../../../src/core/record/rules.ts'

const { api, relay } = FINGERPRINT_DEFAULTS

function asked (rawHeaders: readonly string[] = [], over: Partial<ComparedRequest> = {}): ComparedRequest {
  return { method: 'POST', target: '/v1/charges?a=1', rawHeaders, body: Buffer.from('{"a":1}'), ...over }
}

function compare (one: ComparedRequest, other: ComparedRequest, policy: FingerprintPolicy = api, rules: Rules = 2): string {
  return sameRequest(other, fingerprintOf(other, policy, rules), fingerprintOf(one, policy, rules))
}

const NAMES = COMPARED_FIELDS.flatMap(({ part, names }) => names.map((name) => ({ part, name })))

test('another value of a field that changes what is asked is another request, and so is none', () => {
  for (const { part, name } of NAMES) {
    const [one, other] = [asked([name, 'one']), asked([name, 'other'])]
    assert.equal(compare(one, other), 'different', name)
    assert.equal(compare(one, asked()), 'different', name)
    assert.equal(compare(one, asked([name.toUpperCase(), 'one'])), 'same', name)
    assert.equal(compare(one, other, relay), part === 'method' ? 'different' : 'same', name)
    assert.equal(compare(one, other, api, 1), 'same', name)
  }
})

test('fields of one try, of the caller and of the answer do not count', () => {
  const others = [
    'Idempotency-Key', 'k', 'Authorization', 'Bearer x', 'Traceparent', '00', 'User-Agent', 'x', 'Accept', 'text/html',
    'Accept-Language', 'de', 'X-Request-Id', '1', 'Date', 'now', 'Cookie', 'a=b', 'Content-Length', '7', 'Connection',
    'close', 'Prefer', 'respond-async, wait=5, return=minimal'
  ]
  assert.equal(compare(asked(), asked(others)), 'same')
})

test('a coding counts by its meaning, on one line or on several', () => {
  const coded = (...values: string[]) => asked(values.flatMap((value) => ['Content-Encoding', value]))
  for (const [one, other] of [
    [coded('gzip'), coded('GZip')],
    [coded('gzip'), coded('x-gzip')],
    [coded('identity'), asked()],
    [coded(''), asked()],
    [coded('gzip, br'), coded('gzip', ' BR ')],
    [coded('identity, gzip'), coded('gzip')]
  ] as const) {
    assert.equal(compare(one, other), 'same')
  }
  for (const [one, other] of [
    [coded('gzip'), asked()],
    [coded('gzip'), coded('br')],
    [coded('gzip, br'), coded('br, gzip')],
    [coded('gzip'), coded('gzip, gzip')]
  ] as const) {
    assert.equal(compare(one, other), 'different')
  }
})

test('a preference counts where it says how the request is done', () => {
  const prefer = (value: string) => asked(['Prefer', value])
  assert.equal(compare(prefer('tx=rollback'), asked()), 'different')
  assert.equal(compare(prefer('return=minimal, resolution=merge-duplicates'), prefer('resolution=merge-duplicates; x=1')), 'different')
  assert.equal(compare(prefer('return=minimal, resolution=merge-duplicates'), prefer('resolution=merge-duplicates, respond-async')), 'same')
})

test('a field with underscores counts, and is not the one with dashes: servers differ', () => {
  assert.equal(compare(asked(['X_HTTP_Method_Override', 'PUT']), asked()), 'different')
  assert.equal(compare(asked(['X_HTTP_Method_Override', 'PUT']), asked(['X-HTTP-Method-Override', 'PUT'])), 'different')
})

test('lines of one field count in their order, and no field can be taken for its neighbour', () => {
  const lines = fc.array(
    fc.tuple(fc.constantFrom('slug', 'if', 'depth', 'x-method-override', 'accept'), fc.constantFrom('', '1', 'slug', '2')),
    { maxLength: 4 }
  )
  const told = (pairs: ReadonlyArray<readonly [string, string]>) => JSON.stringify(
    ['slug', 'if', 'depth', 'x-method-override'].map((name) => pairs.filter(([other]) => other === name).map(([, value]) => value))
  )
  fc.assert(fc.property(lines, lines, (one, other) => {
    assert.equal(compare(asked(one.flat()), asked(other.flat())), told(one) === told(other) ? 'same' : 'different')
  }), { numRuns: 1000, seed: 1 })
})

test('the order of the lines of other fields and the case of names do not count', () => {
  const cased = (name: string, upper: readonly boolean[]) =>
    name.split('').map((char, index) => upper[index % upper.length] === true ? char.toUpperCase() : char).join('')
  const fields = [
    ['content-encoding', 'gzip'],
    ['host', 'h'],
    ['x-http-method', 'PUT'],
    ['content-type', 'text/plain'],
    ['stripe-version', '1'],
    ['date', 'x']
  ] as const
  fc.assert(
    fc.property(fc.shuffledSubarray([...fields], {
      minLength: fields.length
    }), fc.array(fc.boolean(), { minLength: 1 }), (shuffled, upper) => {
      assert.equal(compare(asked(fields.flat()), asked(shuffled.flatMap(([name, value]) => [cased(name, upper), value]))), 'same')
    }),
    { numRuns: 300, seed: 1 }
  )
})

test('nothing is made for fields that are not there', () => {
  const [one, other] = [comparedHead(['Host', 'h', 'X-Amz-Tarzan', 'x']), comparedHead([])]
  assert.ok(one.semantics === other.semantics && one.overriding === other.overriding && one.semantics.length === 0)
})

test('the table is fixed: another one needs another version of the rules', () => {
  const digest = createHash('sha256').update(NAMES.map(({ part, name }) => `${part} ${name}`).join('\n')).digest('base64url')
  assert.equal(digest, 'aTsgo-KdfNdsHwThhpbBYyUfRE5UzaFqMyl6fkHSTtI')
  assert.equal(new Set(NAMES.map(({ name }) => name)).size, NAMES.length)
  for (const { why } of COMPARED_FIELDS) assert.match(why, /^[A-Z].*\.$/)
})

test('docs/reference/http.md names every field, with its reason', () => {
  const page = readFileSync(new URL('../../../docs/reference/http.md', import.meta.url), 'utf8')
  for (const { part, why, names } of COMPARED_FIELDS) {
    const row = `| ${why.replace(/\.$/, '')} | ${names.map((name) => `\`${name}\``).join(', ')} |`
    assert.ok(part === 'method' || page.includes(row), row)
  }
})

test('a fingerprint of version 2 is the same for ever', () => {
  const request = asked([
    'Host', 'API.example:443', 'Content-Type', 'application/json; charset=UTF-8; v=1', 'X-HTTP-Method-Override',
    'PATCH', 'Content-Encoding', 'identity', 'Stripe-Version', '2025-01-01'
  ])
  const policies: ReadonlyArray<readonly [policy: FingerprintPolicy, golden: string]> = [
    [api, '25f 62i_YJ1WPFQWFF52iNo173CKmdROlYA1WRcSqKLErRM'],
    [relay, '20b UwHGGe3FQRNutlq0dVIafZ4hJazv9aUX_DCkQj3rrr0'],
    [{ ...api, query: 'unordered' }, '27f W0weyQpuzPNrWdHYM4KAm1edU-ibiz94f93RzNMuMSo'],
    [{ ...api, body: 'json', ignore: ['/b'], headers: ['x-tenant'] }, '60d9 SlUMfQP3xICwWhEUKyuIz-JARTA-SZP9KM2HNjEwiiA'],
    [{ ...api, body: 'json', only: ['/a'] }, '6148 jvyajfVpKG5KvUs0zWly_NkZLJ1tnAyW6k5myeDyo8Q']
  ]
  for (const [policy, golden] of policies) {
    const { alg, value } = fingerprintOf(request, policy, 2)
    assert.equal(`${alg.toString(16)} ${value.toString('base64url')}`, golden)
  }
})

// ---------------------------------------------------------------- host

test('the host counts by its name, without case, final dot and port; an address is none', () => {
  const at = (host: string | null, over: Partial<ComparedRequest> = {}) => asked(host === null ? [] : ['Host', host], over)
  for (const host of [
    'API.example', 'api.example.', 'api.example:443', 'api.example:80', 'api.example.:443', 'api.example:',
    ' api.example ', 'api.example:8080'
  ]) {
    assert.equal(compare(at('api.example'), at(host)), 'same', host)
  }
  for (const host of ['xapi.example', '10.0.0.1', 'localhost:8080', 'api.example.com', '', null]) {
    assert.equal(compare(at('api.example'), at(host)), 'different', String(host))
    assert.equal(compare(at('api.example'), at(host), relay), 'different', String(host))
    assert.equal(compare(at('api.example'), at(host), api, 1), 'same', String(host))
  }
  for (const host of ['[::1]', '[::1]:443', '[fe80::80]', '127.0.0.1', '10.0.0.7:8080', 'localhost', 'LOCALHOST:80', '', null]) {
    assert.equal(compare(at('10.0.0.8'), at(host)), 'same', String(host))
  }
  assert.equal(compare(at('h'), asked([':authority', 'h'])), 'same')
  assert.equal(compare(asked(['host', 'other', ':authority', 'h']), at('h')), 'same')
  assert.equal(compare(at('h', { target: 'http://h/v1/charges?a=1' }), at('h')), 'same')
  assert.equal(compare(at('h', { target: 'http://g/v1/charges?a=1' }), at('h')), 'different')
})

// ---------------------------------------------------------------- media type

const typed = (contentType: string, over: Partial<ComparedRequest> = {}) => asked(['Content-Type', contentType], over)

test('parameters of the media type count by their meaning', () => {
  const same: ReadonlyArray<readonly [string, string]> = [
    ['application/json', 'Application/JSON; charset=utf-8'], ['application/json', 'application/json;charset="UTF8"'],
    ['text/plain; charset=ISO-8859-1', 'text/plain;CHARSET="iso-8859-1"'],
    ['application/json; version=1; profile=a', 'application/json;profile="a" ; Version=1'],
    ['a/b; x="a\\"b"', 'a/b;X="\\a\\"b"'], ['a/b; charset=utf-8; x=1', 'a/b; x=1']
  ]
  const different: ReadonlyArray<readonly [string, string]> = [
    ['application/json', 'application/json; charset=utf-16'],
    ['application/json; version=1', 'application/json; version=2'], ['a/b; x=A', 'a/b; x=a'], ['a/b; x=1', 'a/b'],
    ['a/b; x=1; x=2', 'a/b; x=2; x=1'],
    ['a/b; x', 'a/b'], ['a/b; x', 'a/b; y'], ['a/b; x="1;y=2"', 'a/b; x=1; y=2']
  ]
  for (const [one, other] of same) assert.equal(compare(typed(one), typed(other)), 'same', `${one} | ${other}`)
  for (const [one, other] of different) {
    assert.equal(compare(typed(one), typed(other)), 'different', `${one} | ${other}`)
    assert.equal(compare(typed(one), typed(other), api, 1), 'same', `${one} | ${other}`)
    assert.equal(compare(typed(one), typed(other), relay), 'same', `${one} | ${other}`)
  }
  assert.equal(compare(typed(''), asked()), 'different')
})

test('another boundary is the same upload, unless the same bytes would have other parts', () => {
  const form = (boundary: string, kind = 'form-data') => typed(`multipart/${kind}; boundary=${boundary}`, {
    body: Buffer.from(`--${boundary}\r\nA: b\r\n\r\nx\r\n--${boundary}--\r\n`)
  })
  assert.equal(compare(form('one'), form('two')), 'same')
  const body = Buffer.from('--one\r\n\r\nx\r\n--two\r\n\r\ny\r\n--two--\r\n--one--\r\nend')
  const mixed = (boundary: string) => typed(`multipart/mixed; boundary=${boundary}`, { body })
  assert.equal(compare(mixed('one'), mixed('two')), 'different')
  assert.equal(compare(mixed('one'), mixed('two'), { of: ['mediaType'], body: 'none' }), 'same')
})

// ---------------------------------------------------------------- query

const UNORDERED: FingerprintPolicy = { ...api, query: 'unordered' }

test('unordered: parameters in any order are one query, values of one name are not', () => {
  const of = (target: string) => asked([], { target })
  const same: ReadonlyArray<readonly [string, string]> = [
    ['/a?x=1&y=2', '/a?y=2&x=1'],
    ['/a?x=1&x=2&y', '/a?y&x=1&x=2'],
    ['/a?', '/a?'],
    ['/a', '/a'],
    ['http://h/a?x&y', 'http://h/a?y&x']
  ]
  const different: ReadonlyArray<readonly [string, string]> = [
    ['/a?x=1&x=2', '/a?x=2&x=1'], ['/a?x=1&X=2', '/a?X=2&x=1'], ['/a?x=1&%78=2', '/a?%78=2&x=1'],
    ['/a?x[]=1&x[0]=2', '/a?x[0]=2&x[]=1'], ['/a?a.b=1&a_b=2', '/a?a_b=2&a.b=1'],
    ['/a?%C3%A4=1&%C3%84=2', '/a?%C3%84=2&%C3%A4=1'], ['/a?x;y&z', '/a?z&x;y'],
    ['/a', '/a?'], ['/a?x=1', '/a?x=1&x=1'], ['/a?x=1', '/a?x=2'], ['/a?x=%41', '/a?x=A'], ['/a?x', '/b?x'],
    ['/a?x', '/a?x='], ['/a?x&y', '/a?x&y&']
  ]
  for (const [one, other] of same) assert.equal(compare(of(one), of(other), UNORDERED), 'same', `${one} ${other}`)
  for (const [one, other] of different) assert.equal(compare(of(one), of(other), UNORDERED), 'different', `${one} ${other}`)
  assert.equal(compare(of('/a?x=1&y=2'), of('/a?y=2&x=1')), 'different')
  // A policy with one of these parts uses version 2 under any rules: no gateway of an earlier release reads such a file.
  assert.equal(compare(of('/a?x=1&y=2'), of('/a?y=2&x=1'), UNORDERED, 1), 'same')
})

test('unordered: any shuffling that keeps the order within each name is the same, and any other is not', () => {
  const pair = fc.tuple(fc.constantFrom('a', 'b', '%61', 'c[]', ''), fc.constantFrom('', '=', '=1', '=2'))
  const folded = (pairs: ReadonlyArray<readonly [string, string]>) => JSON.stringify(
    ['a', 'b', 'c', ''].map((name) => pairs
      .filter(([other]) => ({ '%61': 'a', 'c[]': 'c' }[other] ?? other) === name)
      .map((each) => each.join('')))
  )
  fc.assert(
    fc.property(fc.array(pair, { minLength: 1, maxLength: 6 }).chain((pairs) => fc.tuple(fc.constant(pairs), fc.shuffledSubarray(pairs, {
      minLength: pairs.length
    }))), ([pairs, shuffled]) => {
      const of = (some: ReadonlyArray<readonly [string, string]>) => asked([], {
        target: `/?${some.map((each) => each.join('')).join('&')}`
      })
      assert.equal(compare(of(pairs), of(shuffled), UNORDERED), folded(pairs) === folded(shuffled) ? 'same' : 'different')
    }),
    { numRuns: 1000, seed: 1 }
  )
})

// ---------------------------------------------------------------- headers

test('named header fields count: their lines, their order, and whether they are there', () => {
  const policy: FingerprintPolicy = { ...relay, headers: ['x-b', 'x-a'] }
  const of = (...raw: string[]) => asked(raw)
  assert.equal(compare(of('X-A', '1', 'X-B', '2'), of('x-b', '2', 'x-a', '1'), policy), 'same')
  for (const other of [
    of('X-A', '1'),
    of('X-A', '2', 'X-B', '2'),
    of('X-A', '1', 'X-B', ''),
    of('X-A', '1', 'X-A', '2', 'X-B', '2'),
    of()
  ]) {
    assert.equal(compare(of('X-A', '1', 'X-B', '2'), other, policy), 'different')
  }
  assert.equal(compare(of('X-A', '1', 'X-A', '2'), of('X-A', '2', 'X-A', '1'), policy), 'different')
  assert.equal(compare(of('X-A', ''), of(), policy), 'different')
  assert.equal(compare(of('X-A', '1', 'X-A', '2'), of('X-A', '1', 'X-B', '2'), policy), 'different')
  assert.equal(compare(of('X-C', '1'), of('X-C', '2'), policy), 'same')
})

// ---------------------------------------------------------------- members of a body

const json = (text: string, contentType = 'application/json') => typed(contentType, { body: Buffer.from(text) })
const ignoring = (...ignore: string[]): FingerprintPolicy => ({ ...api, body: 'json', ignore })
const only = (...pointers: string[]): FingerprintPolicy => ({ ...api, body: 'json', only: pointers })

test('members that are ignored may be there or not, and hold anything', () => {
  const policy = ignoring('/trace_id', '/sent/at', '/items/0/id', '/a~1b', '/list/1')
  assert.equal(
    compare(
      json('{"sent":{"by":"x"},"list":[1,2,3]}'),
      json('{ "trace_id": "a", "list":[1.0, {}, 3], "sent": { "at": 5, "by": "x" } }'),
      policy
    ),
    'same'
  )
  const filled = (trace: string) => json(`{"amount":1,"trace_id":${trace},"list":[1,${trace},3],"a/b":${trace}}`)
  for (const trace of ['1', '"x"', 'null', '{"deep":[1,{"a":1,"a":2}]}', '9007199254740993', ' [ 0.10000000000000000001 ] ']) {
    assert.equal(compare(filled('0'), filled(trace), policy), 'same', trace)
  }
  for (const other of [
    '{"amount":2,"trace_id":0,"list":[1,0,3],"a/b":0}',
    '{"amount":1,"trace_id":0,"list":[1,0,4],"a/b":0}',
    '{"amount":1,"trace":0,"trace_id":0,"list":[1,0,3],"a/b":0}',
    '{"amount":1,"x":{"trace_id":1},"list":[1,0,3]}'
  ]) {
    assert.equal(compare(filled('0'), json(other), policy), 'different', other)
  }
  assert.equal(compare(json('{"items":[{"id":1}]}'), json('{"items":[{}]}'), policy), 'same')
  assert.equal(compare(json('{"items":[{},{"id":1}]}'), json('{"items":[{},{}]}'), policy), 'different')
})

test('a body in which members cannot be told is compared byte for byte', () => {
  const policy = ignoring('/t')
  const pairs: ReadonlyArray<readonly [string, string]> = [
    ['{"t":1,"t":2}', '{"t":1,"t":3}'],
    ['{"t":1,"a":1,"a":1}', '{"t":2,"a":1,"a":1}'],
    ['{"t":1,}', '{"t":2,}'],
    ['{"t":tru}', '{"t":fal}'],
    ['{"t":1,"n":9007199254740993}', '{"t":2,"n":9007199254740993}'],
    [`{"t":1,"x":"${'x'.repeat(300_000)}"}`, `{"t":2,"x":"${'x'.repeat(300_000)}"}`]
  ]
  for (const [one, other] of pairs) {
    assert.equal(compare(json(one), json(other), policy), 'different', one.slice(0, 40))
    assert.equal(compare(json(one), json(one), policy), 'same', one.slice(0, 40))
  }
  assert.equal(compare(json('{"t":1}', 'text/plain'), json('{"t":2}', 'text/plain'), policy), 'different')
  assert.equal(compare(json('{"t":1}', 'application/vnd.x+json'), json('{"t":2}', 'application/vnd.x+json'), policy), 'same')
})

test('only: the members that are named count, and nothing else of the body', () => {
  const policy = only('/order/id', '/items/0')
  const base = json('{"order":{"id":"a","x":1},"items":[{"n":1.0,"m":2}]}')
  for (const text of [
    '{"items":[{"m":2,"n":1},{"more":1}],"order":{"id":"a"},"n":9007199254740993}',
    '{"order":{"id":"a","y":1,"y":2},"items":[{"n":1,"m":2}]}'
  ]) {
    assert.equal(compare(base, json(text), policy), 'same', text)
  }
  for (const text of [
    '{"order":{"id":"b"},"items":[{"n":1,"m":2}]}',
    '{"order":{"id":"a"},"items":[]}',
    '{"order":{"id":"a"},"items":[{"n":1}]}',
    '{"order":{"id":"a","id":"a"},"items":[{"n":1,"m":2}]}',
    '{"items":[{"n":1,"m":2}]}'
  ]) {
    assert.equal(compare(base, json(text), policy), 'different', text)
  }
  // An absent member and null differ.
  assert.equal(compare(json('{"order":{"id":null},"items":[1]}'), json('{"items":[1]}'), policy), 'different')
})

test('only: a body with none of the members is compared whole', () => {
  const policy = only('/id')
  assert.equal(compare(json('{"a":1}'), json('{"a":2}'), policy), 'different')
  assert.equal(compare(json('{"a":1,"b":2}'), json('{ "b":2, "a":1 }'), policy), 'same')
  assert.equal(compare(json('[]'), json('{}'), policy), 'different')
  assert.equal(compare(json('not json'), json('nor this'), policy), 'different')
  assert.equal(compare(json(''), json(''), policy), 'same')
})

test('what is left out changes nothing but what is left out', () => {
  const value = fc.letrec((tie) => ({
    tree: fc.oneof(
      { maxDepth: 3 },
      fc.constantFrom<unknown>(0, 1, 'x', null),
      fc.array(tie('tree'), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom('a', 'b', '0', 't'), tie('tree'), { maxKeys: 3 })
    )
  })).tree
  const pointers = ['/t', '/a/t', '/a/0', '/b/0/t', '/0']
  fc.assert(fc.property(value, value, fc.subarray(pointers, { minLength: 1 }), (one, other, ignored) => {
    const without = (tree: unknown) => JSON.stringify(sorted(pruned(tree, ignored)))
    assert.equal(
      compare(json(JSON.stringify(one)), json(JSON.stringify(other)), ignoring(...ignored)),
      without(one) === without(other) ? 'same' : 'different'
    )
  }), { numRuns: 2000, seed: 1 })
})

function pruned (tree: unknown, pointers: readonly string[], at = ''): unknown {
  if (Array.isArray(tree)) {
    return tree.flatMap((item, index) => pointers.includes(`${at}/${index}`) ? [] : [pruned(item, pointers, `${at}/${index}`)])
  }
  if (tree === null || typeof tree !== 'object') return tree
  return Object.fromEntries(Object.entries(tree).flatMap(([name, member]) =>
    pointers.includes(`${at}/${name}`) ? [] : [[name, pruned(member, pointers, `${at}/${name}`)]]))
}

function sorted (tree: unknown): unknown {
  if (Array.isArray(tree)) return tree.map(sorted)
  return tree === null || typeof tree !== 'object'
    ? tree
    : { members: Object.entries(tree).sort(([a], [b]) => a < b ? -1 : 1).map(([name, member]) => [name, sorted(member)]) }
}

// ---------------------------------------------------------------- the algorithm's number

test('every number is a smallint, and no two readings share one', () => {
  const parts = ['method', 'target', 'host', 'mediaType', 'semantics', 'body'] as const
  const algs = new Set<number>()
  for (let bits = 0; bits < 64; bits++) {
    const of = parts.filter((_, index) => (bits >> index & 1) === 1)
    for (const body of ['bytes', 'json', 'none'] as const) {
      for (const query of of.includes('target') ? [{}, { query: 'unordered' } as const] : [{}]) {
        const { alg } = fingerprintOf(json('{}'), { of, body, ...query }, 2)
        assert.ok(alg >> 8 === 2, String(alg))
        algs.add(alg)
      }
    }
  }
  // Sixteen sets without the target and twice as many with it, each with no body, bytes or JSON.
  assert.equal(algs.size, (16 + 2 * 16) * 3)
})

test('a policy with parameters has a number of its own, the same under both rules, however its file orders them', () => {
  const request = json('{"a":1}')
  const policies = [
    ignoring('/a'),
    ignoring('/b'),
    only('/a'),
    ignoring('/a', '/b'),
    { ...api, headers: ['/a'] },
    { ...ignoring('/a'), headers: ['x'] }
  ]
  const made = policies.map((policy) => fingerprintOf(request, policy, 2))
  assert.equal(new Set(made.map(({ alg }) => alg)).size, policies.length)
  for (const { alg } of made) assert.ok(alg >= 0x4000 && alg <= 32767)
  for (const [index, policy] of policies.entries()) assert.deepEqual(fingerprintOf(request, policy, 1), made[index])
  assert.deepEqual(fingerprintOf(request, ignoring('/b', '/a'), 2), made[3])
})

test('under another policy with parameters nobody can compare; under one without, anybody', () => {
  const request = json('{"a":1}')
  const [old, now] = [ignoring('/a'), ignoring('/a', '/b')]
  assert.equal(sameRequest(request, fingerprintOf(request, now, 2), fingerprintOf(request, old, 2)), 'unknown')
  assert.equal(sameRequest(request, fingerprintOf(request, api, 2), fingerprintOf(request, old, 2)), 'unknown')
  for (const rules of [1, 2] as const) {
    assert.equal(sameRequest(request, fingerprintOf(request, now, 2), fingerprintOf(request, api, rules)), 'same')
    assert.equal(sameRequest(json('{"a":2}'), fingerprintOf(json('{"a":2}'), now, 2), fingerprintOf(request, api, rules)), 'different')
  }
})

test('two policies whose numbers are the same by chance are told apart by what is hashed', () => {
  const request = json('{"a":1}')
  const seen = new Map<number, FingerprintPolicy>()
  for (let n = 0; n < 2_000; n++) {
    const policy = ignoring(`/${n}`)
    const { alg } = fingerprintOf(request, policy, 2)
    const other = seen.get(alg)
    if (other !== undefined) {
      assert.equal(sameRequest(request, fingerprintOf(request, policy, 2), fingerprintOf(request, other, 2)), 'different')
      return
    }
    seen.set(alg, policy)
  }
  assert.fail('none was found')
})
