/**
 * Builds that lie on purpose: the chaos run finds each of them out within seconds, by what the lie breaks. The hunts that take
 * longer are `npm run chaos:hunts`; the simulation finds those lies in every run of the tests.
 */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { DROP_LIES, LIES } from '../broken/breaks.ts'
import { needs } from '../harness/needs.ts'
import { HUNTS } from './emphasis.ts'
import { hunt } from './hunts.ts'

/** Of one hunt here; starting and ending what it needs takes four times as long. */
const SECONDS_MAX = 4

describe('a gateway that is broken on purpose is found out', needs('own postgres', 'own redis'), () => {
  for (const name of [...LIES.filter((lie) => HUNTS[lie].seconds <= SECONDS_MAX), ...DROP_LIES]) {
    test(`${name}, by ${HUNTS[name].breaks.join(' or ')}`, { timeout: 180_000 }, async () => {
      assert.equal(await hunt(name), null)
    })
  }
})
