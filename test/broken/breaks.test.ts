/** The breaks break what they say they break, and no build of the product can be broken by them. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { BREAKS, LIES } from './breaks.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const SRC = join(ROOT, 'src')

function sources (): string[] {
  return readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'))
}

/** Loads the gateway's every module; says what it ended with. */
function loadBroken (name: string): { status: number | null, stderr: string } {
  const script = "await import('./src/process/app.ts')"
  return spawnSync(
    process.execPath,
    ['--import', './test/broken/register.ts', '--input-type=module', '-e', script],
    { cwd: ROOT, encoding: 'utf8', env: { ...process.env, ONCEWAY_BREAK: name } }
  )
}

test('every break changes the source that it names, exactly once', () => {
  for (const { name, patches } of BREAKS) {
    for (const { file, find, replace } of patches) {
      const text = readFileSync(join(SRC, file), 'utf8')
      assert.equal(text.split(find).length - 1, 1, `${name}: src/${file}`)
      assert.notEqual(find, replace)
    }
  }
  assert.equal(new Set(BREAKS.map(({ name }) => name)).size, BREAKS.length, 'names are unique')
  assert.deepEqual(LIES.filter((lie) => !BREAKS.some(({ name }) => name === lie)), [])
})

test('a broken build loads, and an unknown break ends the process rather than break nothing', () => {
  for (const lie of LIES) {
    const { status, stderr } = loadBroken(lie)
    assert.equal(status, 0, stderr)
  }
  const unknown = loadBroken('no-such-break')
  assert.notEqual(unknown.status, 0)
  assert.match(unknown.stderr, /there is no break "no-such-break"/)
})

test('nothing in the sources knows of breaks: the environment cannot break a build', () => {
  for (const file of sources()) assert.doesNotMatch(readFileSync(join(SRC, file), 'utf8'), /ONCEWAY_BREAK|registerHooks|test\/broken/, file)
  const { files } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { files: string[] }
  assert.ok(!files.some((file) => file.startsWith('test')), 'the package has no tests in it')
})
