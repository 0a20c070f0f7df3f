import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ABOUT_WEAKNESS, STRICT, standingOf, told, weakestOf, WEAKNESSES } from '../../src/core/standing.ts'
import type { DurabilitySettings, Weakness } from '../../src/core/standing.ts'

const SOUND: DurabilitySettings = { fsync: 'on', full_page_writes: 'on', synchronous_commit: 'on', synchronous_standby_names: '', standbys: 0 }

test('a primary alone that keeps what it acknowledges is strict', () => {
  assert.deepEqual(standingOf(SOUND), STRICT)
  // Flushed here is all there is without a standby.
  assert.deepEqual(standingOf({ ...SOUND, synchronous_commit: 'local' }), STRICT)
})

test('each setting that lets a commit be lost is a reason of its own', () => {
  const weak: Array<[Partial<DurabilitySettings>, Weakness[]]> = [
    [{ fsync: 'off' }, ['fsync-off']],
    [{ full_page_writes: 'off' }, ['full-page-writes-off']],
    [{ synchronous_commit: 'off' }, ['synchronous-commit-off']],
    [{ standbys: 1 }, ['asynchronous-standby']],
    [{ standbys: 1, synchronous_standby_names: '*', synchronous_commit: 'local' }, ['asynchronous-standby']],
    [{ synchronous_standby_names: '*', synchronous_commit: 'local' }, ['asynchronous-standby']],
    [{ fsync: 'off', synchronous_commit: 'off', standbys: 2, synchronous_standby_names: 'a' }, ['fsync-off', 'synchronous-commit-off', 'asynchronous-standby']]
  ]
  for (const [settings, reasons] of weak) assert.deepEqual(standingOf({ ...SOUND, ...settings }), { reasons }, JSON.stringify(settings))
})

test('commits that wait for a standby are strict, whether or not one is there just now', () => {
  for (const commits of ['on', 'remote_apply', 'remote_write']) {
    for (const standbys of [0, 2]) assert.deepEqual(standingOf({ ...SOUND, synchronous_standby_names: 'ANY 1 (*)', synchronous_commit: commits, standbys }), STRICT)
  }
})

test('what Redis does to speed is a remark and no reason', () => {
  assert.deepEqual(told(STRICT, ['redis-evicts']), { promise: 'strict', reasons: [], remarks: ['redis-evicts'] })
})

test('of several processes the weakest counts, each reason once', () => {
  assert.equal(weakestOf([]), null)
  const weak = told({ reasons: ['asynchronous-standby', 'fsync-off'] }, [])
  assert.deepEqual(weakestOf([told(STRICT, ['redis-evicts']), weak, weak]), { promise: 'weakened', reasons: ['fsync-off', 'asynchronous-standby'], remarks: ['redis-evicts'] })
})

test('every weakness has a sentence that says what to do', () => {
  for (const weakness of WEAKNESSES) assert.match(ABOUT_WEAKNESS[weakness], /set|name/)
})
