import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerBound } from '../../../src/core/inbox/bound.ts'
import type { BoundState } from '../../../src/core/inbox/bound.ts'

const LEASE_MS = 10_000

/** Three processes ask for all they can get, at times of their own; the third is killed midway. Each delivery takes a while. */
function begunBy (ratePerSecond: number, seconds: number): number {
  let state: BoundState | null = null
  let begun = 0
  const nextAtMs = [0, 3, 7]
  for (let now = 0; now < seconds * 1_000; now++) {
    for (const [process, dueAtMs] of nextAtMs.entries()) {
      if (now < dueAtMs || (process === 2 && now > seconds * 500)) continue
      const bound = { concurrency: null, ratePerSecond }
      const ask = { route: 'r', bound, holder: String(process), underWay: 0, places: 16, unused: 0, leaseMs: LEASE_MS }
      const asked = answerBound(state, ask, now)
      state = asked.state
      begun += asked.answer.places
      // As a process waits: until the next token, or until a timer that is late.
      nextAtMs[process] = now + Math.max(20, asked.answer.inMs ?? 20) + process
    }
  }
  return begun
}

test('three processes together begin as many as the rate says, within 5 %, though one of them is killed', () => {
  for (const ratePerSecond of [1, 3, 10, 50, 200, 1_000]) {
    const seconds = 60
    const begun = begunBy(ratePerSecond, seconds)
    assert.ok(Math.abs(begun / (ratePerSecond * seconds) - 1) <= 0.05, `${begun} began at ${ratePerSecond} a second`)
  }
})

test('a clock that was set back gives nothing, and takes nothing', () => {
  const bound = { concurrency: null, ratePerSecond: 10 }
  const ask = { route: 'r', bound, holder: 'a', underWay: 0, places: 1, unused: 0, leaseMs: LEASE_MS }
  const first = answerBound(null, ask, 100_000)
  assert.equal(first.answer.places, 1)
  const back = answerBound(first.state, ask, 40_000)
  assert.equal(back.answer.places, 0)
  assert.equal(answerBound(back.state, ask, 40_100).answer.places, 1)
})

test('a bound that a reload lowered is no debt: what is in flight ends first', () => {
  const ask = { route: 'r', holder: 'a', unused: 0, leaseMs: LEASE_MS }
  const first = answerBound(null, { ...ask, bound: { concurrency: 10, ratePerSecond: null }, underWay: 0, places: 10 }, 0)
  const lowered = { ...ask, bound: { concurrency: 4, ratePerSecond: null } }
  assert.equal(answerBound(first.state, { ...lowered, underWay: 10, places: 5 }, 1).answer.places, 0)
  assert.equal(answerBound(first.state, { ...lowered, underWay: 3, places: 5 }, 2).answer.places, 1)
})

test('the state holds nobody who has nothing in flight, and nobody whose lease is over', () => {
  const bound = { concurrency: 10, ratePerSecond: null }
  let state: BoundState | null = null
  for (let process = 0; process < 1_000; process++) {
    const ask = { route: 'r', bound, holder: String(process), underWay: process % 2, places: 0, unused: 0, leaseMs: 10 }
    state = answerBound(state, ask, process).state
  }
  assert.ok(state !== null && Object.keys(state.underWay).length <= 10)
})
