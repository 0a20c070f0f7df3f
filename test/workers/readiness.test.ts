import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Readiness } from '../../src/http/admin.ts'
import { readinessOfAll } from '../../src/process/cluster/readiness.ts'

const READY: Readiness = { phase: 'ready', degraded: [], blocked: null, durability: null }
const STARTING: Readiness = { ...READY, phase: 'starting' }

test('ready when all of them are', () => {
  assert.deepEqual(readinessOfAll([READY, READY], true), READY)
})

test('starting until all of them have listened once, however many do', () => {
  assert.deepEqual(readinessOfAll([READY, null], false), { phase: 'starting', degraded: ['workers'], blocked: null, durability: null })
})

test('degraded while one is missing, silent, draining by itself or has no store yet', () => {
  for (const one of [null, STARTING, { ...READY, phase: 'draining' as const }]) {
    assert.deepEqual(readinessOfAll([READY, one], true), { phase: 'ready', degraded: ['workers'], blocked: null, durability: null })
  }
})

test('starting again when nobody serves', () => {
  assert.equal(readinessOfAll([null, null], true).phase, 'starting')
  assert.equal(readinessOfAll([STARTING, null], true).phase, 'starting')
})

test('the stores that any of them has lost, each once', () => {
  const answers = [{ ...READY, degraded: ['redis'] }, { ...READY, degraded: ['postgres', 'redis'] }]
  assert.deepEqual(readinessOfAll(answers, true), { phase: 'ready', degraded: ['postgres', 'redis'], blocked: null, durability: null })
})

test('blocked when one is, in its words', () => {
  assert.equal(readinessOfAll([READY, { ...STARTING, blocked: 'The schema is newer.' }], true).blocked, 'The schema is newer.')
})

test('the weakest promise of all counts', () => {
  const [strict, weak] = [
    { promise: 'strict' as const, reasons: [], remarks: [] },
    { promise: 'weakened' as const, reasons: ['fsync-off' as const], remarks: [] }
  ]
  assert.deepEqual(readinessOfAll([{ ...READY, durability: strict }, { ...READY, durability: weak }, READY], true).durability, weak)
})
