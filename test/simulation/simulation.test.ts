/**
 * Five thousand schedules of the deterministic simulation, and what makes them worth something: they come to every turn
 * that they are there for, and each can be played again. More of them: `npm run simulate`.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { playSeed } from './explore.ts'
import { TURNS } from './reach.ts'
import { failureLines, transcriptOf } from './telling.ts'
import { exploreAll } from './workers.ts'

/** Always the same ones: what fails here fails everywhere. */
const SEED = 1
const SCHEDULES = 5_000
/** Some of each theme. */
const REPLAYED = 60

test('whatever dies, stops, is cut off, comes late, gets lost, differs or steps: in 5,000 schedules nothing is sent twice, lost or told wrongly', async (t) => {
  // On a thread of its own: the test runner follows every promise, and there are millions.
  const { schedules, turns, failures } = await exploreAll({
    seed: SEED,
    schedules: SCHEDULES,
    workers: 1,
    untilWrong: false,
    progress: () => {}
  })
  assert.equal(schedules, SCHEDULES)
  assert.equal(failures.length, 0, failureLines(failures).join('\n'))
  await t.test('and they come to every turn that they are there for', () => {
    assert.deepEqual(TURNS.filter((turn) => turns[turn] === undefined), [])
  })
})

test('one seed is one run: played again it is the same, event by event', async () => {
  for (let seed = SEED; seed < SEED + REPLAYED; seed++) {
    assert.equal(transcriptOf(await playSeed(seed)), transcriptOf(await playSeed(seed)))
  }
})

test('two seeds are two runs', async () => {
  const transcripts = await Promise.all([SEED, SEED + 1].map(async (seed) => transcriptOf(await playSeed(seed))))
  assert.notEqual(transcripts[0], transcripts[1])
})

test('a seed that failed is played again by one command, to the same history in another process', async () => {
  const args = ['test/simulation/main.ts', '--replay', String(SEED)]
  const { stdout, status } = spawnSync(process.execPath, args, { cwd: new URL('../../', import.meta.url), encoding: 'utf8' })
  assert.equal(stdout, `${transcriptOf(await playSeed(SEED))}\n`)
  assert.equal(status, 0)
})
