/**
 * Every row of the fault table has a test that fails when its mechanism is taken out. The suite runs those tests on the
 * sound build; here each is run on the build that is broken in just that place.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { needs } from '../harness/needs.ts'
import { breakNamed } from './breaks.ts'
import { FAULT_ROWS, withFaultTable } from './rows.ts'
import type { FaultRow } from './rows.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const REGISTER = fileURLToPath(new URL('register.ts', import.meta.url))
/** A broken build may leave somebody waiting for ever; the sound ones take a few seconds at most. */
const EACH_TEST_MS_MAX = 20_000

interface Ended { readonly code: number | null, readonly output: string }

async function runOn (name: string, { test: [file, sentence] }: FaultRow): Promise<Ended> {
  const args = [
    '--disable-proto=delete', '--import', REGISTER, '--test-force-exit', '--test-reporter=tap',
    `--test-timeout=${EACH_TEST_MS_MAX}`, `--test-name-pattern=${escaped(sentence)}`, `test/${file}`
  ]
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const child = spawn(process.execPath, args, { cwd: ROOT, env: { ...env, ONCEWAY_BREAK: name }, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  const take = (chunk: Buffer): void => { output += chunk.toString() }
  child.stdout.on('data', take)
  child.stderr.on('data', take)
  const [code] = await once(child, 'close') as [number | null]
  return { code, output }
}

function escaped (sentence: string): string {
  return sentence.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
}

test('docs/internals/faults.md has this very table; else run npm run generate', () => {
  const page = readFileSync(new URL('../../docs/internals/faults.md', import.meta.url), 'utf8')
  assert.equal(page, withFaultTable(page))
})

/** Most of a row is a broken build that waits for what never comes. */
const AT_ONCE = 2

describe('every row of the fault table', { concurrency: AT_ONCE }, () => {
  for (const row of FAULT_ROWS) {
    const [file, sentence] = row.test
    test(`${row.fault}, ${row.moment}: its test fails on a build that ${breakNamed(row.breaks).does}`, needs(
      'own postgres',
      'own redis',
      ...row.needs ?? []
    ), async () => {
      const { code, output } = await runOn(row.breaks, row)
      assert.equal(code, 1, output)
      assert.match(output, new RegExp(`not ok \\d+ - ${escaped(sentence)}`), `${file} failed in another test, or not at all:\n${output}`)
      assert.doesNotMatch(output, /text to break stands|ERR_MODULE_NOT_FOUND|SyntaxError/)
    })
  }
})
