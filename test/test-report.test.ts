/** What a person reads of a run: progress, failures in full, and one line at the end that says what is missing. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { lackOf, spoken } from '../scripts/test-report.ts'
import { makeDirectory } from './harness/directory.ts'

const REPORT = new URL('../scripts/test-report.ts', import.meta.url).href
const PROGRAM = `
  import { run } from 'node:test'
  import { RunReport } from ${JSON.stringify(REPORT)}
  const files = process.argv.slice(2)
  const report = new RunReport(files)
  await report.follow(run({ files }))
  console.log(report.summary('npm test', 'Redis is missing.'), report.succeeded)
`

function report (contents: readonly string[]): { readonly lines: string[], readonly output: string } {
  const directory = makeDirectory('report')
  try {
    const files = contents.map((content, number) => {
      const file = join(directory.path, `${number}.test.mjs`)
      writeFileSync(file, `import { describe, test } from 'node:test'\n${content}`)
      return file
    })
    const program = join(directory.path, 'program.mjs')
    writeFileSync(program, PROGRAM)
    const { NODE_TEST_CONTEXT: _, ...env } = process.env
    const { stdout, stderr } = spawnSync(process.execPath, [program, ...files], { encoding: 'utf8', env })
    assert.equal(stderr, '')
    return { output: stdout, lines: stdout.trim().split('\n') }
  } finally {
    directory.remove()
  }
}

const PASSES = 'test(\'good\', () => {})'
const SKIPS = 'describe(\'s\', () => { test(\'kept back\', { skip: \'needs redis: no redis-server on the path\' }, () => {}) })'
const FAILS = 'describe(\'s\', () => { test(\'bad\', () => { throw new Error(\'the reason\') }) })'

test('a line for each file, and at the end one line: how many passed, and what was skipped for want of which server', () => {
  const { lines } = report([PASSES, `${PASSES}\n${SKIPS}`])
  assert.equal(lines.length, 3, lines.join('\n'))
  assert.deepEqual(lines.slice(0, 2).map((line) => /^[12]\/2 \S+\.test\.mjs \d\.\d s$/.test(line)), [true, true], lines.join('\n'))
  assert.match(lines.at(-1) ?? '', /^npm test: 2 passed, 0 failed, 1 skipped \(without redis: 1\) in \d\.\d s\. Redis is missing\. true$/)
})

test('a failure is printed in full, and the run has failed', () => {
  const { lines, output } = report([PASSES, FAILS])
  assert.match(output, /Error: the reason\n +at /)
  assert.match(output, /^failed: bad \(\S+1\.test\.mjs\)\n {4}the reason$/m)
  assert.match(output, /^[12]\/2 FAILED \S+1\.test\.mjs /m)
  assert.match(lines.at(-1) ?? '', /^npm test: 1 passed, \d failed, 0 skipped in .* false$/)
})

test('a file that ends without its tests has failed', () => {
  assert.match(report([PASSES, 'process.exit(3)']).lines.at(-1) ?? '', /^npm test: 1 passed, 1 failed, 0 skipped in .* false$/)
})

test('a run without a test has failed', () => {
  assert.match(report([SKIPS]).lines.at(-1) ?? '', /^npm test: 0 passed, 0 failed, 1 skipped .* false$/)
})

test('what is skipped is counted by what it lacks', () => {
  assert.equal(lackOf('needs redis: no redis-server on the path, none from apt'), 'redis')
  assert.equal(lackOf('needs redis tls: no openssl; needs postgres: none'), 'redis tls and postgres')
  assert.equal(lackOf('needs 20000 open files in one process, and ulimit -n allows 1024'), '20000 open files in one process')
  assert.equal(lackOf(true), 'a reason')
})

test('durations are read at a glance', () => {
  assert.deepEqual([0, 2_345, 12_345, 271_000].map(spoken), ['0.0 s', '2.3 s', '12 s', '4 min 31 s'])
})
