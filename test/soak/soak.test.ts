/** The soak at a small scale: that it passes, and that it can fail. */
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { describe, test } from 'node:test'
import { QUICKEST } from '../harness/directory.ts'
import { needs } from '../harness/needs.ts'
import { SoakLoad } from './load.ts'
import { isRight, printed, reported } from './report.ts'
import { runSoak } from './run.ts'
import type { SoakOptions } from './run.ts'
import { scaleOf } from './tolerances.ts'
import { SoakUpstream } from './upstream.ts'
import { floors, judge, VALUES_MIN } from './verdict.ts'

// Nothing here is about a disk.
process.env['TMPDIR'] = QUICKEST
const MINUTES = 0.4
/** Little enough to leave the machine to the other tests. */
const RATE = 60
const SMALL: SoakOptions = { minutes: MINUTES, rate: RATE, scale: scaleOf(MINUTES), broken: null }
const TOLERANCE = { share: 0.1, absolute: 5 }

/** Up and down, as anything measured is; the same in every run. */
function noisy (length: number, of: (index: number) => number): number[] {
  return Array.from({ length }, (_, index) => of(index) + 4 * Math.sin(index * 2.3))
}

describe('the verdict', () => {
  const verdictOf = (values: readonly number[]): boolean => judge({ name: 'series', values, tolerance: TOLERANCE }).flat

  test('what goes up and down is flat, and so is what only falls', () => {
    assert.equal(verdictOf(noisy(300, () => 100)), true)
    assert.equal(verdictOf(noisy(300, (index) => 300 - index)), true)
  })

  test('what climbs a little with every sample rises, however noisy it is', () => {
    assert.equal(verdictOf(noisy(300, (index) => 100 + index / 10)), false)
  })

  test('what climbs less than is allowed is flat', () => {
    assert.equal(verdictOf(noisy(300, (index) => 100 + index / 50)), true)
  })

  test('what stands higher in its last third rises, even where no line shows it', () => {
    assert.equal(verdictOf(noisy(300, (index) => index < 200 ? 100 : 130)), false)
  })

  test('a few outliers are no rise', () => {
    assert.equal(verdictOf(noisy(300, (index) => index % 40 === 39 ? 10_000 : 100)), true)
  })

  test('a few values are no series', () => {
    assert.throws(() => verdictOf(noisy(VALUES_MIN - 1, () => 100)), /too few to judge/)
  })

  test('the floor of a heap is what its collections left', () => {
    assert.deepEqual(floors([5, 9, 3, 7, 8, 4, 6], 3), [3, 4])
  })
})

test('a load on no gateway at all is wrong in every answer, and its duplicates are seen to be executed twice', async (t) => {
  const keysMax = 1_000
  const upstream = await SoakUpstream.start(keysMax)
  t.after(() => upstream.stop())
  const load = new SoakLoad({ gateways: [upstream.url], upstream, rate: 200, keysMax, laterMs: 100, retentionMs: 60_000 })
  load.start()
  await new Promise((resolve) => { setTimeout(resolve, 1_000) })
  await load.stop()
  assert.ok(load.counts.keys > 0)
  assert.ok(load.wrongCount >= load.counts.keys)
  assert.match(load.wrongAnswers[0] ?? '', /expected executed/)
  assert.match(load.wrongExecutions[0] ?? '', /was executed 2 times/)
})

describe('a soak of half a minute', { concurrency: 2, ...needs('own postgres', 'own redis') }, () => {
  test('is flat and right', async (t) => {
    const result = await runSoak(SMALL)
    t.diagnostic(printed(result))
    assert.ok(isRight(result), printed(result))
    assert.ok(result.counts.replays > 0 && result.counts.disconnects > 0, 'there were duplicates and disconnects among the requests')
    assert.ok(result.executions >= result.counts.keys && result.executions <= result.counts.keys + result.counts.late)
    assert.match(reported(result, ['--minutes', String(MINUTES)]), /\*\*flat and right\*\*/)
  })

  test('sees connections that nobody closes', async (t) => {
    const result = await runSoak({ ...SMALL, beside: leakConnections })
    t.diagnostic(printed(result))
    const rising = result.verdicts.filter(({ flat }) => !flat).map(({ name }) => name)
    for (const name of ['one', 'two']) assert.ok(rising.includes(`${name} files`) && rising.includes(`${name} sockets`), printed(result))
    assert.ok(!isRight(result))
  })
})

/** Twenty more a second, to each. */
function leakConnections (urls: readonly string[]): () => void {
  const open = new Set<ReturnType<typeof connect>>()
  const timer = setInterval(() => {
    for (const url of urls) {
      const { hostname, port } = new URL(url)
      open.add(connect(Number(port), hostname).on('error', () => {}))
    }
  }, 50)
  return () => {
    clearInterval(timer)
    for (const socket of open) socket.destroy()
  }
}
