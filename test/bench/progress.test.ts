/** How long a run may still take, and where it says so. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inWords, Progress, shownOn } from '../../bench/progress.ts'

test('what is left is what was planned, at the pace of what is done', () => {
  const shown: string[] = []
  let nowMs = 0
  const progress = new Progress(600, (phase, what, left) => { shown.push(`${phase}: ${what}, ${left}`) }, () => nowMs)
  progress.begin({ phase: 'start', what: 'servers', seconds: 60 })
  nowMs = 60_000
  progress.begin({ phase: 'round 1', what: 'plain', seconds: 240 })
  nowMs = 660_000
  progress.begin({ phase: 'round 2', what: 'plain', seconds: 300 })
  assert.deepEqual(shown, [
    'start: servers, 10 min left',
    'round 1: plain, 9 min left',
    'round 2: plain, 10 min left'
  ])
})

test('minutes, and at the end tens of seconds', () => {
  assert.deepEqual([3_599, 100, 89, 61, 1].map(inWords), ['60 min', '2 min', '90 s', '70 s', '10 s'])
})

test('a terminal is told each step on one line, a file each phase', () => {
  const steps = [['one', 'a'], ['one', 'b'], ['two', 'a']] as const
  const written = (isTTY: boolean): string => {
    let text = ''
    const show = shownOn({ isTTY, write: (more) => { text += more } })
    for (const [phase, what] of steps) show(phase, what, '1 min left')
    return text
  }
  assert.equal(written(false), 'one, 1 min left\ntwo, 1 min left\n')
  assert.equal(written(true).split('\r').length, 4)
})
