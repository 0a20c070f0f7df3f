/**
 * Deliberately broken builds: the chaos run detects each within seconds, by the rule that it breaks. One of each kind is here.
 * `npm run chaos:hunts` runs all.
 */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { DROP_LIES } from '../broken/breaks.ts'
import { needs } from '../harness/needs.ts'
import { HUNTS, SCHEME_LIES } from './emphasis.ts'
import { huntInbox, INBOX_HUNTS } from './inbox/hunts.ts'
import { hunt } from './hunts.ts'

/** For mode inbox: one lie about senders, and one about groups. */
const INBOX_LIES_HERE = ['accepted-before-the-commit', 'next-beside-a-retry'] as const

/** The simulation finds every lie of the first kind as well. Starting and ending what a hunt needs takes four times as long as the hunt. */
const LIES_HERE = ['release-on-disconnect', ...DROP_LIES, ...SCHEME_LIES] as const

describe('a gateway that is broken on purpose is found out', needs('own postgres', 'own redis'), () => {
  for (const name of LIES_HERE) {
    test(`${name}, by ${HUNTS[name].breaks.join(' or ')}`, { timeout: 180_000 }, async () => {
      assert.equal(await hunt(name), null)
    })
  }
  for (const name of INBOX_LIES_HERE) {
    test(`${name}, by ${INBOX_HUNTS[name].breaks.join(' or ')}`, { timeout: 180_000 }, async () => {
      assert.equal(await huntInbox(name), null)
    })
  }
})
