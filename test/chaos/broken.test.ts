/** Builds that lie on purpose: the chaos run finds each of them out within seconds, by what the lie breaks. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { DROP_LIES, LIES } from '../broken/breaks.ts'
import { needs } from '../harness/needs.ts'
import { HUNTS } from './emphasis.ts'
import { printed } from './report.ts'
import { runChaos } from './run.ts'

const SEED = 1

describe('a gateway that is broken on purpose is found out', needs('own postgres', 'own redis'), () => {
  for (const name of [...LIES, ...DROP_LIES]) {
    const { seconds, emphasis, breaks } = HUNTS[name]
    test(`${name}, by ${breaks.join(' or ')}`, { timeout: 180_000 }, async () => {
      const result = await runChaos({ seed: SEED, seconds, gateways: 2, emphasis, broken: name })
      const caught = result.violations.filter(({ invariant }) => breaks.some(each => each === invariant))
      assert.ok(caught.length > 0, `nothing was found\n${printed(result)}`)
    })
  }
})
