import assert from 'node:assert/strict'
import { test } from 'node:test'
import { editDistance } from '../../../src/core/key/edit-distance.ts'

for (const [from, to, slips] of [
  ['', '', 0],
  ['', 'abc', 3],
  ['port', 'port', 0],
  ['prot', 'port', 1],
  ['paht', 'path', 1],
  ['por', 'port', 1],
  ['pport', 'port', 1],
  ['part', 'port', 1],
  ['ca', 'abc', 3],
  ['kitten', 'sitting', 3]
] as const) {
  test(`from "${from}" to "${to}": ${slips}`, () => {
    assert.equal(editDistance(from, to), slips)
    assert.equal(editDistance(to, from), slips)
  })
}
