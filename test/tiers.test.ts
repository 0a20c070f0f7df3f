/** Each test file runs in one of `npm test` and `npm run test:long`, and once: scripts/tiers.ts says in which. */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { filesOf, LONG, roundsOf, type Tier } from '../scripts/tiers.ts'
import { filesTogether } from '../scripts/together.ts'

const ROOT = fileURLToPath(new URL('../', import.meta.url))
const TOGETHER = 'scripts/together.ts'

function filesIn (tier: Tier): string[] {
  return roundsOf(tier).flatMap(({ files }) => files).flatMap((file) => file === TOGETHER ? filesTogether() : [file])
}

test('each test file belongs to one tier, and runs there once', () => {
  const all = globSync('test/**/*.test.ts', { cwd: ROOT }).toSorted()
  assert.deepEqual([...filesIn('short'), ...filesIn('long')].toSorted(), all)
})

test('each name in scripts/tiers.ts is one of a file that is there', () => {
  const patterns = LONG.flatMap(({ patterns }) => patterns)
  assert.deepEqual(patterns.filter((pattern) => filesOf(pattern).length === 0), [])
})

test('the gate runs both tiers', () => {
  const lines = readFileSync(`${ROOT}.ci/run`, 'utf8').split('\n')
  assert.deepEqual(
    lines.filter((line) => line.startsWith('npm test') || line.startsWith('npm run test')),
    ['npm test', 'npm run test:long']
  )
})
