/** The pairs see what they are for: each build that identifies or compares by less, or by more, is caught within a few thousand of them. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, test } from 'node:test'
import { IDENTITY_BREAKS } from '../broken/identity.ts'

const PAIRS = 10_000
/** They share the machine with the rest of the suite. */
const AT_ONCE = 2

async function playBroken (name: string): Promise<{ readonly code: number | null, readonly output: string }> {
  const child = spawn(process.execPath, [
    '--disable-proto=delete', '--import', './test/broken/register.ts', 'test/identity/main.ts', '--pairs',
    String(PAIRS)
  ], {
    cwd: new URL('../../', import.meta.url),
    env: { ...process.env, ONCEWAY_BREAK: name },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  let output = ''
  const take = (chunk: Buffer): void => { output += chunk.toString() }
  child.stdout.on('data', take)
  child.stderr.on('data', take)
  const [code] = await once(child, 'close') as [number | null]
  return { code, output }
}

describe('pairs on broken builds', { concurrency: AT_ONCE }, () => {
  for (const { name, does, breaks } of IDENTITY_BREAKS) {
    test(`a gateway that ${does} is caught`, async (t) => {
      const { code, output } = await playBroken(name)
      assert.equal(code, 1, output)
      const kinds = new Set(Array.from(output.matchAll(/^.+ \((same|caller|request|elsewhere|refused): /gm), ([, kind = '']) => kind))
      assert.ok(breaks.every((kind) => kinds.has(kind)), `${breaks.join(', ')}, and not: ${output}`)
      t.diagnostic(`in the world of PAIRS_SEED=${/PAIRS_SEED=(\d+)/.exec(output)?.[1]}: ${Array.from(kinds).join(', ')}`)
    })
  }
})
