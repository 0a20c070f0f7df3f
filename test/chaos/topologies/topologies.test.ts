import assert from 'node:assert/strict'
import { test } from 'node:test'
import { absentFrom, TOPOLOGIES } from './topologies.ts'
import type { TopologyName } from './topologies.ts'

test('a topology\'s own faults are dealt there and nowhere else', () => {
  const names = Object.keys(TOPOLOGIES) as TopologyName[]
  for (const name of names) {
    for (const other of names) {
      assert.ok(TOPOLOGIES[name].own.every((kind) => absentFrom(other).has(kind) === (other !== name)), `${name} at ${other}`)
    }
  }
})
