/** The command line on a Node that is too old. The version is given, so that no other Node is needed. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { join } from 'node:path'
import { test } from 'node:test'
import { MAIN } from './onceway.ts'
import { directory } from './world.ts'

const MANIFEST = new URL('../../package.json', import.meta.url)
const { engines } = JSON.parse(readFileSync(MANIFEST, 'utf8')) as { readonly engines: { readonly node: string } }
const NEEDED = engines.node.replace('>=', '')

function runAs (version: string, main: string): { readonly status: number | null, readonly stdout: string, readonly stderr: string } {
  const pretend =
    `data:text/javascript,Object.defineProperty(process,"versions",{value:{...process.versions,node:${JSON.stringify(version)}}})`
  return spawnSync(process.execPath, ['--import', pretend, main, 'version'], { encoding: 'utf8' })
}

test('on an old Node every command is one sentence that names the Node that is needed and the one that runs, and does not exit 0', () => {
  for (const old of ['20.19.5', '24.8.9', '8.17.0']) {
    const { status, stdout, stderr } = runAs(old, MAIN)
    assert.deepEqual([status, stdout], [1, ''])
    assert.equal(stderr, `onceway: Node.js ${NEEDED} or newer is needed; this is Node.js ${old} (${process.execPath}).\n`)
  }
  for (const recent of [`${NEEDED}.0`, '24.10.0', '25.0.0', '100.1.0']) assert.equal(runAs(recent, MAIN).status, 0, recent)
})

test('the sentence comes before anything else is loaded', (t) => {
  const root = directory(t)
  mkdirSync(join(root, 'dist'))
  writeFileSync(join(root, 'package.json'), readFileSync(MANIFEST))
  writeFileSync(join(root, 'dist/main.js'), stripTypeScriptTypes(readFileSync(MAIN, 'utf8')))
  const { status, stderr } = runAs('20.19.5', join(root, 'dist/main.js'))
  assert.equal(status, 1)
  assert.match(stderr, /^onceway: Node\.js [^\n]+ is needed; this is Node\.js 20\.19\.5 [^\n]+\n$/)
})
