import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  ABOUT_WEAKNESS,
  readStandbyNames,
  remarksOnFailover,
  STRICT,
  durabilityOf,
  reported,
  weakestOf,
  WEAKNESSES,
  withFailover
} from '../../../src/core/protocol/durability.ts'
import type { DurabilitySettings, Weakness } from '../../../src/core/protocol/durability.ts'

const SOUND: DurabilitySettings = {
  fsync: 'on',
  full_page_writes: 'on',
  synchronous_commit: 'on',
  synchronous_standby_names: '',
  standbys: [],
  away: []
}

test('a primary alone that keeps what it acknowledges is strict', () => {
  assert.deepEqual(durabilityOf(SOUND), STRICT)
  // Without a standby, a local flush is enough.
  assert.deepEqual(durabilityOf({ ...SOUND, synchronous_commit: 'local' }), STRICT)
})

test('each setting that lets a commit be lost is a reason of its own', () => {
  const weak: Array<[Partial<DurabilitySettings>, Weakness[]]> = [
    [{ fsync: 'off' }, ['fsync-off']],
    [{ full_page_writes: 'off' }, ['full-page-writes-off']],
    [{ synchronous_commit: 'off' }, ['synchronous-commit-off']],
    [{ standbys: ['a'] }, ['asynchronous-standby']],
    [{ away: ['a'] }, ['asynchronous-standby']],
    [{ standbys: ['a'], synchronous_standby_names: '*', synchronous_commit: 'local' }, ['asynchronous-standby']],
    [{ synchronous_standby_names: '*', synchronous_commit: 'local' }, ['asynchronous-standby']],
    [
      { fsync: 'off', synchronous_commit: 'off', standbys: ['a', 'b'], synchronous_standby_names: 'a' },
      ['fsync-off', 'synchronous-commit-off', 'asynchronous-standby']
    ]
  ]
  for (const [settings, reasons] of weak) assert.deepEqual(durabilityOf({ ...SOUND, ...settings }), { reasons }, JSON.stringify(settings))
})

test('the names as Postgres reads them', () => {
  const table: ReadonlyArray<readonly [text: string, read: ReturnType<typeof readStandbyNames>]> = [
    ['a', { method: 'first', count: 1, names: ['a'] }],
    [' s1 , "S-2" ', { method: 'first', count: 1, names: ['s1', 's-2'] }],
    ['*', { method: 'first', count: 1, names: ['*'] }],
    ['2 (a, b)', { method: 'first', count: 2, names: ['a', 'b'] }],
    ['FIRST 2(a,b,c)', { method: 'first', count: 2, names: ['a', 'b', 'c'] }],
    ['any 1 ( "a""b" , * )', { method: 'any', count: 1, names: ['a"b', '*'] }],
    ['ANY 3 ("x, y", z)', { method: 'any', count: 3, names: ['x, y', 'z'] }],
    ['first', { method: 'first', count: 1, names: ['first'] }],
    ['', null], ['a,', null], ['ANY 2 ()', null], ['FIRST 1 (a', null], ['a b', null]
  ]
  for (const [text, read] of table) assert.deepEqual(readStandbyNames(text), read, text)
})

/** [names, connected, away]: each commit has waited for every standby that could be promoted. */
const COVERED: ReadonlyArray<readonly [names: string, standbys: readonly string[], away: readonly string[]]> = [
  ['*', ['walreceiver'], []], ['*', [], ['slot_1']], ['*', [], []],
  ['a', ['a'], []], ['a', ['A'], []], ['a', [], []], ['"s-1"', ['s-1'], []], ['"s-1"', [], ['s_1']],
  ['FIRST 2 (a, b)', ['a', 'b'], []], ['FIRST 2 (a, b)', ['a'], ['b']], ['FIRST 2 (a, b)', ['a'], []], ['2 (*)', ['a', 'b'], []],
  ['ANY 2 (a, b)', ['b', 'a'], []], ['ANY 3 (a, b)', ['a'], []], ['ANY 2 (*)', ['a'], ['b']]
]
/** One of the standbys may lack an acknowledged commit. */
const NOT_COVERED: ReadonlyArray<readonly [names: string, standbys: readonly string[], away: readonly string[]]> = [
  // A standby that is not named, connected or away.
  ['a', ['a', 'b'], []], ['a', ['a'], ['b']], ['a', ['b'], []], ['a', [], ['b']],
  ['FIRST 2 (a, b)', ['a', 'b', 'c'], []], ['ANY 2 (a, b)', ['a', 'b'], ['c']],
  // Behind the first n, or skipped while others answer.
  ['a, b', ['a', 'b'], []], ['FIRST 1 (a, b)', ['b'], ['a']], ['FIRST 1 (a, b)', ['a'], []],
  ['FIRST 2 (a, b, c)', ['a', 'b', 'c'], []], ['FIRST 1 (*)', ['a', 'b'], []], ['*', ['a'], ['b']],
  // Two with one name: only one of them is waited for.
  ['a', ['a', 'a'], []],
  // Any n, but there are more.
  ['ANY 1 (a, b)', ['a', 'b'], []], ['ANY 1 (a, b)', ['a'], []], ['ANY 2 (a, b, c)', ['a', 'b', 'c'], []], ['ANY 1 (*)', ['a'], ['b']],
  // Names that cannot be read promise nothing.
  ['a b', ['a'], []]
]

test('it is strict where each commit waits for each standby that could be promoted, there or away, and only there', () => {
  for (const commits of ['on', 'remote_apply', 'remote_write']) {
    for (const [names, standbys, away] of COVERED) {
      assert.deepEqual(
        durabilityOf({ ...SOUND, synchronous_standby_names: names, synchronous_commit: commits, standbys, away }),
        STRICT,
        `${names}: ${standbys.join()} ${away.join()}`
      )
    }
    for (const [names, standbys, away] of NOT_COVERED) {
      assert.deepEqual(
        durabilityOf({ ...SOUND, synchronous_standby_names: names, synchronous_commit: commits, standbys, away }).reasons,
        ['asynchronous-standby'],
        `${names}: ${standbys.join()} ${away.join()}`
      )
    }
  }
})

test('what Redis does to speed is a remark and no reason', () => {
  assert.deepEqual(reported(STRICT, ['redis-evicts']), { promise: 'strict', reasons: [], remarks: ['redis-evicts'] })
})

test('a failover that may lose commits weakens, whoever follows now; what is unknown, or may come, is a remark', () => {
  const loses = { synchronous: false, strict: true }
  assert.deepEqual(withFailover({ reasons: ['fsync-off'] }, loses), { reasons: ['fsync-off', 'asynchronous-failover'] })
  assert.deepEqual(remarksOnFailover(loses), [])
  for (const failover of [null, { synchronous: true, strict: false }, { synchronous: true, strict: true }]) {
    assert.deepEqual(withFailover(STRICT, failover), STRICT)
  }
  assert.deepEqual(remarksOnFailover({ synchronous: true, strict: false }), ['failover-not-strict'])
  assert.deepEqual(remarksOnFailover({ synchronous: true, strict: true }), [])
  assert.deepEqual(remarksOnFailover(null), ['failover-unknown'])
})

test('of several processes the weakest counts, each reason once', () => {
  assert.equal(weakestOf([]), null)
  const weak = reported({ reasons: ['asynchronous-standby', 'fsync-off'] }, [])
  assert.deepEqual(weakestOf([reported(STRICT, ['redis-evicts']), weak, weak]), {
    promise: 'weakened',
    reasons: ['fsync-off', 'asynchronous-standby'],
    remarks: ['redis-evicts']
  })
})

test('every weakness has a sentence that says what to do', () => {
  for (const weakness of WEAKNESSES) assert.match(ABOUT_WEAKNESS[weakness], /set|name/)
})
