/**
 * A complete search of the model. With one or two faults at a time nothing is wrong, and every rule that is left out is missed. `npm run
 * model` searches more faults at once.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { describe, test } from 'node:test'
import { needs } from '../harness/needs.ts'
import { MUTATIONS } from './mutations.ts'
import { MODEL, search, verdictOf } from './pan.ts'
import type { Limits } from './pan.ts'
import { OUTSIDE, SEARCHES } from './searches.ts'
import type { Caught } from './searches.ts'

/** Many times what the searches take on two busy cores. */
const LIMITS: Limits = { seconds: 100, megabytes: 2_048 }
const concurrency = Math.min(2, availableParallelism())
const text = readFileSync(MODEL, 'utf8')

describe('with every rule in its place', { ...needs('spin', 'gcc'), concurrency }, () => {
  for (const one of SEARCHES) {
    test(one.name, async () => {
      const { holds, violated, output } = await search(one, 'small', LIMITS)
      assert.equal(violated, null, output)
      assert.ok(holds, `not everything was searched:\n${output}`)
    })
  }
})

const isCaught = ({ name, what, by, ...rest }: Caught): void => {
  test(`${name}: ${what}`, async () => {
    const { holds, violated, output } = await search({ name, ...rest }, 'counterexample', LIMITS)
    assert.equal(violated, by, output)
    assert.equal(holds, false)
  })
}

describe('a rule that is left out is missed', { ...needs('spin', 'gcc'), concurrency }, () => MUTATIONS.forEach(isCaught))
describe('outside the promise it breaks, as the protocol says', { ...needs('spin', 'gcc'), concurrency }, () => OUTSIDE.forEach(isCaught))

test('every rule that the model can leave out is left out once', () => {
  const inModel = new Set(Array.from(text.matchAll(/\bM_[A-Z0-9_]+\b/g), ([name]) => name))
  const left = MUTATIONS.flatMap(({ define }) => Object.keys(define).filter((key) => key.startsWith('M_')))
  assert.deepEqual(left.sort(), Array.from(inModel).sort())
})

test('every property that the model checks is missed by one rule at least', () => {
  const properties = new Set(Array.from(text.matchAll(/\bassert\((\w+)/g), ([, name]) => name as string))
  const caught = new Set(MUTATIONS.map(({ by }) => by))
  assert.deepEqual(Array.from(properties).filter((name) => !caught.has(name)), [])
})

describe('a search that was cut short has shown nothing', () => {
  const whole = 'State-vector 100 byte, depth reached 72, errors: 0\n     1553 states, stored\n'
  test('whole', () => { assert.equal(verdictOf(whole, 1).holds, true) })
  for (const said of [
    'error: max search depth too small',
    'pan: out of memory',
    'pan: reached -DMEMLIM bound',
    'Warning: Search not completed'
  ]) {
    test(said, () => { assert.equal(verdictOf(`${said}\n${whole}`, 1).holds, false) })
  }
  test('nothing at all', () => { assert.equal(verdictOf('', 1).holds, false) })
  test('a process too many for the fairness that was compiled in', () => {
    assert.equal(verdictOf('pan: error: too many processes -- current max is 10 procs (-DNFAIR=3)', 1).holds, false)
  })
  test('an error that names no property', () => {
    assert.equal(
      verdictOf('pan:1: invalid end state (at depth 3)\nState-vector 100 byte, depth reached 72, errors: 1\n', 1).violated,
      'invalid end state (at depth 3)'
    )
  })
})
