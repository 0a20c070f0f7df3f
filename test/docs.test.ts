import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { parse } from 'yaml'
import { createMetrics } from '../src/telemetry/metrics.ts'
import { call } from './harness/call.ts'
import { startProcess } from './harness/process-gateway.ts'
import { startWitness } from './harness/witness.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const PAGES = ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'CHANGELOG.md', ...pagesOf('docs'), ...pagesOf('examples')]
function pagesOf (folder: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' }).filter(name => name.endsWith('.md')).map(name => `${folder}/${name}`)
}

const read = (page: string): string => readFileSync(join(ROOT, page), 'utf8')

test('the curl walk of the README does what its comments say', async t => {
  const walk = Array.from(read('README.md').matchAll(/```sh\n([\s\S]*?)```/g), ([, text]) => text as string).find(text => text.includes('# first: executed'))
  assert.ok(walk !== undefined)
  const gateway = await startProcess(t, { args: ['--port', '0'], env: { ONCEWAY_ADMIN_PORT: '0' } })
  const script = walk.replaceAll('http://127.0.0.1:8080', gateway.url).replaceAll('curl -', 'curl -sS -')
  const { stdout } = await promisify(execFile)('bash', ['-c', script], { timeout: 30_000 })
  const [first, replay, mismatch, inFlight] = stdout.split(/(?=HTTP\/1\.1 )/)
  assert.match(first ?? '', /^HTTP\/1\.1 201[\s\S]*Idempotency-Status: executed/)
  assert.match(replay ?? '', /^HTTP\/1\.1 201[\s\S]*Idempotent-Replayed: true/)
  assert.equal(bodyOf(replay), bodyOf(first))
  assert.match(mismatch ?? '', /^HTTP\/1\.1 422[\s\S]*key-reused/)
  assert.match(inFlight ?? '', /^HTTP\/1\.1 201[\s\S]*Idempotent-Replayed: true/, 'the copy has waited for the first one, and has its answer')
  assert.equal(stdout.match(/"id":"pay_[^"]+","amount":(?:100|5)/g)?.length, 2 + 2 + 2, 'two answers of each payment, and both in the list')
})

test('the walk of docs/guides/issued-keys.md does what its comments say, with the configuration above it', async t => {
  const page = read('docs/guides/issued-keys.md')
  const [config, walk] = [/```yaml\n([\s\S]*?)```/, /```sh\n([\s\S]*?)```/].map(block => block.exec(page)?.[1] ?? '')
  const witness = await startWitness()
  t.after(async () => { await witness.close() })
  const env = { ONCEWAY_LISTEN_PORT: '0', ONCEWAY_ADMIN_PORT: '0', KEY_SECRET: 'only for this test, and long enough' }
  const gateway = await startProcess(t, { config: config as string, args: ['--upstream', witness.url], env })
  const script = (walk as string).replaceAll('http://127.0.0.1:8080', gateway.url).replaceAll('curl -', 'curl -sS -')
  const { stdout } = await promisify(execFile)('bash', ['-c', script], { timeout: 30_000 })
  const [first, replay, anothers, own, ...more] = stdout.split(/(?=HTTP\/1\.1 )/)
  assert.deepEqual(more, [])
  assert.match(first ?? '', /^HTTP\/1\.1 201[\s\S]*Idempotency-Status: executed/)
  assert.match(replay ?? '', /^HTTP\/1\.1 201[\s\S]*Idempotent-Replayed: true/)
  assert.equal(bodyOf(replay), bodyOf(first))
  for (const refused of [anothers, own]) assert.match(refused ?? '', /^HTTP\/1\.1 400[\s\S]*key-invalid[\s\S]*only keys that the gateway has issued to this caller/)
  assert.equal(witness.seen.length, 1)
})

test('the walk of docs/guides/accept-now-deliver-later.md does what its comments say, with the configuration above it', async t => {
  const page = read('docs/guides/accept-now-deliver-later.md')
  const [config, walk] = [/```yaml\n([\s\S]*?)```/, /```sh\n([\s\S]*?)```/].map(block => block.exec(page)?.[1] ?? '')
  const witness = await startWitness()
  t.after(async () => { await witness.close() })
  const gateway = await startProcess(t, { config: config as string, args: ['--upstream', witness.url], env: { ONCEWAY_LISTEN_PORT: '0', ONCEWAY_ADMIN_PORT: '0' } })
  const script = (walk as string).replaceAll('http://127.0.0.1:8080', gateway.url).replaceAll('curl -', 'curl -sS -')
  const { stdout } = await promisify(execFile)('bash', ['-c', script], { timeout: 30_000 })
  const [first, again, told, ...more] = stdout.split(/(?=HTTP\/1\.1 )/)
  assert.deepEqual(more, [])
  assert.match(first ?? '', /^HTTP\/1\.1 202[\s\S]*Location: \/\.well-known\/onceway\/messages\/[\s\S]*Idempotency-Status: accepted/)
  assert.match(again ?? '', /^HTTP\/1\.1 202/)
  assert.equal(bodyOf(again), bodyOf(first))
  assert.match(told ?? '', /^HTTP\/1\.1 200[\s\S]*"state":"(?:waiting|delivering|delivered)"/)
  await witness.reached(2)
  assert.deepEqual(witness.seen.map(({ target }) => target).sort(), ['/hooks', '/reports'])
})

function bodyOf (answer: string | undefined): string | undefined {
  return answer?.split('\r\n\r\n')[1]?.split('\n')[0]
}

for (const page of PAGES) {
  test(`${page} links to nothing that is not there`, () => {
    const links = Array.from(read(page).matchAll(/\]\((?!https?:|#)([^)#]+)[^)]*\)/g), ([, link]) => link as string)
    assert.deepEqual(links.filter(link => !existsSync(join(ROOT, dirname(page), link))), [])
  })
}

test('every rule of docs/concepts/protocol.md names a test that exists', () => {
  const text = read('docs/concepts/protocol.md')
  const rows = text.split('\n').filter(line => /^\| [A-Z]\d+b? \|/.test(line))
  assert.deepEqual(rows.map(row => row.split('|')[1]?.trim()), ['P1', 'P2', 'P3', 'P4', 'P5', 'P6', 'P7', 'P8', 'P9', 'P10', 'P11', 'P12', 'E0', 'E1', 'E2', 'E2b', 'E3', 'E4', 'E4b', 'E5', 'E6', 'E7'])
  const named = new Set(Array.from(text.matchAll(/`((?:core|gateway|store|e2e|crash|cli|http|conformance|harness)\/[\w.-]*)`/g), ([, path]) => path as string))
  assert.deepEqual(Array.from(named).filter(path => !existsSync(join(ROOT, 'test', path))), [])
})

test('docs/reference/http.md lists every field that a replay leaves out, and no other', async () => {
  const { NOT_KEPT, NOT_KEPT_PREFIXES } = await import('../src/core/headers.ts')
  const section = read('docs/reference/http.md').split('## What a replay leaves out')[1]?.split('\n## ')[0] ?? ''
  const rows = section.split('\n').filter(line => /^\| the |^\| how long/.test(line))
  const listed = rows.flatMap(line => Array.from(line.matchAll(/`([^`]+)`/g), ([, name]) => name?.toLowerCase() ?? ''))
  assert.deepEqual(listed.sort(), [...NOT_KEPT, ...NOT_KEPT_PREFIXES.map(prefix => `${prefix}*`)].sort())
})

test('every problem that the gateway answers with stands in the documents', async () => {
  const { PROBLEMS } = await import('../src/core/problems.ts')
  const text = PAGES.map(read).join('\n')
  assert.deepEqual(Object.keys(PROBLEMS).filter(code => !text.includes(`\`${code}\``)), [])
})

test('the configuration that docs/guides/drop-duplicates.md shows drops duplicates, in the database and in a filter', async t => {
  const witness = await startWitness()
  t.after(() => witness.close())
  const shown = /```yaml\n([\s\S]*?)```/.exec(read('docs/guides/drop-duplicates.md'))?.[1] ?? ''
  const config = shown.replace('http://127.0.0.1:3000', witness.url)
  assert.notEqual(config, shown)
  const { url } = await startProcess(t, { config, args: ['--port', '0'], env: { ONCEWAY_ADMIN_PORT: '0' } })
  const told: unknown[] = []
  for (const [path, body] of [['/v1/metrics', '{"id":"a"}'], ['/v1/metrics', '{"id":"a","sent":"again"}'], ['/v1/metrics', '{"id":"b"}'], ['/v1/clicks', 'x'], ['/v1/clicks', 'x'], ['/v1/clicks', 'y']] as const) {
    const { status, headers } = await call(url, path, { body, headers: { 'Content-Type': 'application/json' } })
    told.push([status, headers['idempotency-status']])
  }
  assert.deepEqual(told, [[201, 'executed'], [202, 'duplicate'], [201, 'executed'], [201, 'executed'], [200, 'duplicate'], [201, 'executed']])
  assert.equal(witness.seen.length, 4)
})

test('the configuration that deploy/compose.yaml mounts is one that serve takes', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [join(ROOT, 'src/main.ts'), 'check', '--config', join(ROOT, 'deploy/onceway.yaml')])
  assert.match(stdout, /is right/)
})

test('every alert of docs/guides/deployment.md asks for a series that a gateway with an inbox has', async () => {
  const metrics = createMetrics({ processMetrics: false })
  metrics.inbox([{ route: 'hooks', waiting: 1, delivering: 1, held: 1, dead: 1, bytes: 1, oldestMs: 1 }])
  for (const result of ['delivered', 'again'] as const) metrics.delivery('hooks', result, 1)
  const series = (await metrics.expose()).text.split('\n').filter(line => !line.startsWith('#'))
  const block = Array.from(read('docs/guides/deployment.md').matchAll(/```yaml\n([\s\S]*?)```/g), ([, text]) => text as string).find(text => text.includes('alert:')) ?? ''
  const { groups } = parse(block) as { readonly groups: ReadonlyArray<{ readonly rules: ReadonlyArray<{ readonly alert: string, readonly expr: string }> }> }
  const selectors = groups.flatMap(({ rules }) => rules).flatMap(({ expr }) => Array.from(expr.matchAll(/(onceway_\w+)(?:\{([^}]*)\})?/g), ([, name = '', labels = '']) => ({ name, labels: labels.split(',') })))
  assert.ok(selectors.length >= 5)
  assert.deepEqual(selectors.filter(({ name, labels }) => !series.some(line => line.startsWith(`${name}{`) && labels.every(label => line.includes(label)))), [])
})
