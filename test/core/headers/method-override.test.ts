import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { overridingMethods } from '../../../src/core/headers/method-override.ts'

const of = (rawHeaders: readonly string[], target = '/a'): readonly string[] => overridingMethods(rawHeaders, target)

test('an overriding method is found in any of its fields, however they are spelled', () => {
  for (const name of ['X-HTTP-Method-Override', 'x-http-method', 'X-Method-Override', 'X_HTTP_METHOD_OVERRIDE', 'x-Http_Method']) {
    assert.deepEqual(of(['Host', 'h', name, 'patch']), ['PATCH'], name)
  }
  assert.deepEqual(
    of(['X-HTTP-Method', 'PUT', 'X-HTTP-Method', 'DELETE, patch', 'X-Method-Override', ' get ']),
    ['PUT', 'DELETE', 'PATCH', 'GET']
  )
  assert.deepEqual(of(['X-HTTP-Method', '', 'X-HTTP-Method', ' , ']), [])
  assert.deepEqual(of(['X-HTTP-Method-Overrides', 'PUT', 'X-Method', 'PUT', 'X-Forwarded-Method', 'PUT', 'Method-Override', 'PUT']), [])
})

test('an overriding method is found in the query, however a server may read its name', () => {
  for (const query of [
    '_method=PATCH', 'a=1&_method=patch', '%5Fmethod=PATCH', '_meth%6Fd=%50ATCH', '_METHOD=PATCH', '.method=PATCH',
    'a=1;_method=PATCH', '_method=+patch', '+_method=patch', '_method[]=PATCH', '%00=1&_method=PATCH'
  ]) {
    assert.deepEqual(of([], `/a?${query}`), ['PATCH'], query)
  }
  assert.deepEqual(of(['X-HTTP-Method', 'PUT'], 'http://h/a?_method=PATCH&_method=DELETE'), ['PUT', 'PATCH', 'DELETE'])
  for (const query of [
    '', 'method=PATCH', '_methods=PATCH', 'a=_method=PATCH', '__method=PATCH', '_method', '_method=', '_=1',
    'x_method=PATCH'
  ]) {
    assert.deepEqual(of([], `/a?${query}`), [], query)
  }
  assert.deepEqual(of([], '/a?_method=PATCH#x'), ['PATCH#X', 'PATCH'])
  assert.deepEqual(of([], '/_method=PATCH'), [])
})

test('where there is none, nothing is made', () => {
  assert.ok(of(['Host', 'h', 'X-Amzn-Trace-Id', '1', 'X-Http-Methods', 'a'], '/a?x=1&y=%20') === of([]))
})

test('nothing that comes breaks it, and the most that can come is read quickly', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary-ascii' }), fc.string({ unit: 'binary-ascii' }), (value, query) => {
      of(['X-HTTP-Method', value], `/a?_method=${query}&${query}`)
    }),
    { seed: 1 }
  )
  const started = process.cpuUsage()
  of(Array.from({ length: 900 }, () => ['X-HTTP-Method', 'A,B']).flat(), `/?${'_method=A&'.repeat(1_600)}`)
  assert.ok(process.cpuUsage(started).user < 500_000)
})
