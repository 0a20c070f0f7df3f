import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { HistoryEvent } from '../harness/history.ts'
import type { Injected } from './injector.ts'
import { outagesOf } from './outages.ts'

const told = (kind: 'stored' | 'replayed', atMs: number): HistoryEvent =>
  ({ kind: 'told', atMs, call: 'call', told: { kind, print: null, execution: 1 } })
const stored = (atMs: number): HistoryEvent => told('stored', atMs)
const replayed = (atMs: number): HistoryEvent => told('replayed', atMs)
const fault = (fromMs: number, untilMs: number): Injected => ({ kind: 'patroni-switchover', gateway: 0, fromMs, untilMs })

test('the time without service is the longest pause between stored answers that a fault has a part of', () => {
  const events = [0, 900, 1_400, 5_400, 6_000, 9_900].map(stored)
  assert.deepEqual(outagesOf([fault(1_000, 6_500)], events), [{ kind: 'patroni-switchover', faultMs: 5_500, withoutMs: 4_000 }])
})

test('a pause that began before the fault, or ends after it, counts whole; a replay does not end it', () => {
  assert.equal(outagesOf([fault(1_000, 2_000)], [stored(800), replayed(1_500), stored(4_000)])[0]?.withoutMs, 3_200)
  assert.equal(outagesOf([fault(1_000, 2_000)], [])[0]?.withoutMs, 1_000)
})
