import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { keyHash, recordId } from '../../../src/core/record/record-id.ts'

test('a record id is SHA-256 over the length-prefixed triple, and stays so', () => {
  const framed = Buffer.concat(['charges', 'bearer:x', 'k'].map((part) => {
    const length = Buffer.alloc(6)
    length.writeUInt32BE(part.length, 2)
    return Buffer.concat([length, Buffer.from(part)])
  }))
  assert.deepEqual(recordId('charges', 'bearer:x', 'k'), createHash('sha256').update(framed).digest())
  assert.equal(recordId('charges', 'bearer:x', 'k').toString('base64url'), 'wIoD-OIy09Ub-bA3jaBv7lYr-jXG1v7wiu-X_hl2yDY')
})

test('two different (route, scope, key) never share a record id', () => {
  const triple = fc.tuple(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'grapheme' }), fc.string({ unit: 'grapheme' }))
  fc.assert(fc.property(triple, triple, (a, b) => {
    assert.equal(recordId(...a).equals(recordId(...b)), a.every((part, index) => part === b[index]))
  }))
  assert.notDeepEqual(recordId('ab', 'c', 'd'), recordId('a', 'bc', 'd'))
  assert.notDeepEqual(recordId('a', '', 'b'), recordId('a', 'b', ''))
})

test('the hash an operator finds a key by depends on the key alone and is no record id', () => {
  assert.deepEqual(keyHash('k'), keyHash('k'))
  assert.equal(keyHash('k').length, 32)
  assert.notDeepEqual(keyHash('k'), createHash('sha256').update('k').digest())
  assert.notDeepEqual(keyHash('k'), keyHash('K'))
})
