import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { canonicalJson, JSON_BYTES_MAX } from '../../../src/core/json/canonical.ts'
import { DEPTH_MAX } from '../../../src/core/json/cursor.ts'

const canonical = (text: string) => canonicalJson(Buffer.from(text))

/** A JSON value that has a canonical form: finite safe numbers, well-formed text. */
const value = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof({ maxDepth: 4, withCrossShrink: true },
    fc.constantFrom(null, true, false), fc.maxSafeInteger(), fc.double({ noNaN: true, noDefaultInfinity: true }).filter((n) =>
      !Number.isInteger(n) || Number.isSafeInteger(n)),
    fc.string({ unit: 'binary' }), fc.array(tie('value'), { maxLength: 4 }),
    fc.array(fc.tuple(fc.string({ unit: 'binary', maxLength: 4 }), tie('value')), { maxLength: 4 }).map((members) => new Map(members)))
})).value

/** The same value, spelled at random: order, space, escapes, number notation. */
function spelled (it: unknown, chance: () => number): string {
  const space = () => [' ', '\n', '\t', '\r', '', ''][Math.floor(chance() * 6)] ?? ''
  const text = (one: string) => chance() < 0.5
    ? JSON.stringify(one)
    : `"${[...one].map((char) => [...Array(char.length).keys()].map((at) => `\\u${char.charCodeAt(at).toString(16).padStart(4, '0').toUpperCase()}`).join('')).join('')}"`
  const wrap = (one: string) => space() + one + space()
  if (typeof it === 'string') return wrap(text(it))
  if (typeof it === 'number') return wrap(chance() < 0.5 ? JSON.stringify(it) : it.toExponential())
  if (Array.isArray(it)) return wrap(`[${space()}${it.map((one) => spelled(one, chance)).join(',')}]`)
  if (it instanceof Map) return wrap(`{${space()}${[...it].sort(() => chance() - 0.5).map(([name, member]) => `${wrap(text(String(name)))}:${spelled(member, chance)}`).join(',')}}`)
  return wrap(JSON.stringify(it))
}

test('every spelling of a value has one canonical form, and it is a spelling of that value', () => {
  fc.assert(fc.property(value, fc.infiniteStream(fc.double({ min: 0, max: 0.999, noNaN: true })), (it, stream) => {
    const chance = () => stream.next().value ?? 0
    const one = canonical(spelled(it, chance))
    assert.ok(one !== null)
    assert.equal(canonical(spelled(it, chance)), one)
    assert.equal(canonical(one), one)
    assert.deepEqual(plain(JSON.parse(one)), plain(it))
  }))
})

/** Maps and objects alike as sorted entries; zero without a sign. */
function plain (it: unknown): unknown {
  if (it instanceof Map) {
    return { members: [...it].map(([name, member]) => [name, plain(member)]).sort((a, b) => String(a[0]) < String(b[0]) ? -1 : 1) }
  }
  if (Array.isArray(it)) return it.map(plain)
  if (it !== null && typeof it === 'object') return plain(new Map(Object.entries(it)))
  return it === 0 ? 0 : it
}

test('two different values have two canonical forms', () => {
  fc.assert(fc.property(value, value, (a, b) => {
    const same = JSON.stringify(plain(a)) === JSON.stringify(plain(b))
    assert.equal(spelledSorted(a) === spelledSorted(b), same)
  }))
})
const spelledSorted = (it: unknown) => canonical(spelled(it, () => 0))

test('the examples of RFC 8785', () => {
  assert.equal(canonical('{"numbers":[333333333.33333329,4.50,2e-3,0.000000000000000000000000001],"string":"\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/","literals":[null,true,false]}'),
    null, '333333333.33333329 is not what a double says')
  assert.equal(canonical('{"numbers":[333333333.3333333,4.50,2e-3,0.000000000000000000000000001],"string":"\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/","literals":[null,true,false]}'),
    '{"literals":[null,true,false],"numbers":[333333333.3333333,4.5,0.002,1e-27],"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}')
  assert.equal(canonical('{"\\u20ac":"Euro Sign","\\r":"Carriage Return","\\ufb33":"Dalet","1":"One","\\ud83d\\ude00":"Smiley","\\u0080":"Control","\\u00f6":"o"}'),
    '{"\\r":"Carriage Return","1":"One","\u0080":"Control","ö":"o","€":"Euro Sign","😀":"Smiley","\ufb33":"Dalet"}')
})

test('what is not one value to every reader has no canonical form', () => {
  const not = ['', ' ', '{"a":1,"a":1}', '{"a":1,"\\u0061":2}', '9007199254740993', '9007199254740992', '-9007199254740993', '1e400',
    '-1e400', '1e-400', '0.10000000000000000001',
    '1e20', '"\\ud800"', '{"\\udc00":1}', '01', '+1', '.5', '1.', '1e', '-', 'NaN', 'Infinity', '[1,]', '{"a":1,}',
    '{a:1}', "'a'", '"\t"', '"\\x"', '"a', '[', '{', '{"a"', '{"a":', '1 2', 'nul', 'truex', '[1 2]', '\ufeff1',
    '\u00a01', '// c\n1']
  for (const text of not) assert.equal(canonical(text), null, JSON.stringify(text))
  assert.equal(canonicalJson(Buffer.from([0x22, 0xff, 0x22])), null)
})

test('members called __proto__ and constructor are members', () => {
  assert.equal(canonical('{"constructor":1,"__proto__":{"a":2}}'), '{"__proto__":{"a":2},"constructor":1}')
  assert.equal(canonical('{"__proto__":1,"__proto__":1}'), null)
})

test('size and depth are bounded', () => {
  const text = (bytes: number) => `"${'x'.repeat(bytes - 2)}"`
  assert.ok(canonical(text(JSON_BYTES_MAX)) !== null)
  assert.equal(canonical(text(JSON_BYTES_MAX + 1)), null)
  const nest = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
  assert.equal(canonical(nest(DEPTH_MAX)), nest(DEPTH_MAX))
  assert.equal(canonical(nest(DEPTH_MAX + 1)), null)
  assert.equal(canonical('['.repeat(JSON_BYTES_MAX)), null)
})
