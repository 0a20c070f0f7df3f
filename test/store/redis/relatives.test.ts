/**
 * Valkey and Redict in the place of Redis: suites beside this file, on a program of theirs. Sentinels, clusters and chaos
 * take longer, and take the programs from the path (docs/contributing/tests.md).
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { environmentWithRedis, findRelative, RELATIVES } from '../../harness/binaries.ts'
import { needs } from '../../harness/needs.ts'

const file = (path: string): string => fileURLToPath(new URL(path, import.meta.url))
/** Redict and Valkey are forks of one version, so a part is enough for the one that is less used. */
const SUITES = { valkey: ['locks', 'marks', 'mirror', 'lanes', 'faults'], redict: ['locks', 'lanes'] }
const VERSIONS = `console.log((await import(${JSON.stringify(new URL('../../harness/versions.ts', import.meta.url).href)})).versions().at(-1))`
const LONGEST_MS = 200_000

const run = promisify(execFile)

for (const kind of RELATIVES) {
  describe(`${kind} in the place of Redis`, needs(kind, 'redis tls'), () => {
    const { NODE_TEST_CONTEXT: _, ...env } = environmentWithRedis(findRelative(kind))
    const tests = async (...args: readonly string[]): Promise<number> => {
      const { stdout } = await run(process.execPath, ['--disable-proto=delete', '--test', '--test-reporter=tap', ...args], { env })
      const count = (what: string): number => Number(new RegExp(`^# ${what} (\\d+)$`, 'm').exec(stdout)?.[1])
      assert.deepEqual([count('fail'), count('skipped')], [0, 0], stdout)
      return count('pass')
    }

    test('passes the suites of one Redis', { timeout: LONGEST_MS }, async () => {
      const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', VERSIONS], { env })
      assert.match(stdout, new RegExp(`^${kind} server v=`, 'i'))
      assert.ok(await tests('--test-concurrency=2', ...SUITES[kind].map((name) => file(`${name}.test.ts`))) > 30)
    })

    test('a right that is missing is told, in its own words', { timeout: LONGEST_MS }, async () => {
      assert.ok(await tests('--test-name-pattern=without \\+(set|del|getrange|pexpire|eval|info):', file('tls.test.ts')) >= 6)
    })
  })
}
