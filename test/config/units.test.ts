import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { parseDuration, parseSize } from '../../src/config/read/units.ts'

test('a duration is read in milliseconds', () => {
  const read = ['250ms', '15s', '5m', '24h', '7d', '0s'].map(parseDuration)
  assert.deepEqual(read, [250, 15_000, 300_000, 86_400_000, 604_800_000, 0])
})

test('a size is read in bytes', () => {
  assert.deepEqual(['512B', '256KiB', '1MiB', '2GiB'].map(parseSize), [512, 262_144, 1_048_576, 2_147_483_648])
})

test('a number without a unit, a fraction, a sign or an unknown unit is no duration and no size', () => {
  for (const text of ['15', '1.5s', '-1s', '1 s', '1S', 's', '', '1w', '1h30m']) assert.equal(parseDuration(text), null, text)
  for (const text of ['15', '1.5MiB', '-1B', '1 MiB', '1MB', '1kib', 'MiB', '']) assert.equal(parseSize(text), null, text)
})

test('what cannot be counted exactly is refused', () => {
  assert.equal(parseDuration('999999999999d'), null)
  assert.equal(parseSize('999999999999GiB'), null)
})

test('every whole number means itself times its unit', () => {
  fc.assert(fc.property(fc.nat({ max: 100_000_000 }), (count) => {
    assert.equal(parseDuration(`${count}d`), count * 86_400_000)
    assert.equal(parseSize(`${count}KiB`), count * 1024)
  }))
})
