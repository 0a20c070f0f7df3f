/** The judge of mode drop reports lost and doubled events, and no others. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { HistoryEvent, ToldKind } from '../harness/history.ts'
import { judgeDrop } from './judge-drop.ts'
import type { DropHistory } from './judge-drop.ts'

const told = (call: string, atMs: number, kind: ToldKind): HistoryEvent => ({
  kind: 'told',
  atMs,
  call,
  told: { kind, print: null, execution: null }
})
const sent = (execution: number, atMs: number): HistoryEvent => ({
  kind: 'sent',
  atMs,
  execution,
  call: `call-${execution}`,
  record: 'r',
  attempt: 0,
  scope: 's',
  asked: '/drop/things'
})
const replied = (execution: number, atMs: number, means: 'keep' | 'release' = 'keep'): HistoryEvent => ({
  kind: 'replied',
  atMs,
  execution,
  means
})

function judged (events: readonly HistoryEvent[], more: Partial<DropHistory> = {}): string {
  const { found, late } = judgeDrop({ record: 'r', events, woken: new Set(), seenLateMs: 250, forgets: false, ...more })
  return [...found.map(({ invariant }) => invariant), late].join()
}

test('one that went through, and its duplicates, are right; so is one that goes through after it failed', () => {
  assert.equal(judged([sent(1, 10), replied(1, 20), told('a', 30, 'stored'), told('b', 40, 'duplicate')]), '0')
  assert.equal(
    judged([sent(1, 10), replied(1, 20, 'release'), told('a', 30, 'given'), sent(2, 1_000), replied(2, 1_010), told('a', 1_020, 'stored')]),
    '0'
  )
  assert.equal(judged([sent(1, 10), told('a', 30, 'unknown')]), '0')
})

test('a duplicate of what the upstream never took, or has not taken yet, is lost', () => {
  assert.equal(judged([told('a', 30, 'duplicate')]), 'D1,0')
  assert.equal(judged([sent(1, 10), told('a', 15, 'duplicate'), replied(1, 20)]), 'D1,0')
  assert.equal(judged([sent(1, 10), replied(1, 20, 'release'), told('a', 30, 'duplicate')]), 'D1,0')
})

test('what is sent after that is doubled, unless its process had just been woken, or it was only seen late', () => {
  const first = [sent(1, 10), replied(1, 20), told('a', 30, 'stored')]
  assert.equal(judged([...first, sent(2, 1_000)]), 'D2,1')
  assert.equal(judged([...first, sent(2, 1_000)], { woken: new Set([2]) }), '0')
  assert.equal(judged([...first, sent(2, 200)]), '0')
  assert.equal(judged([...first, sent(2, 1_000)], { forgets: true }), '1', 'counted')
})
