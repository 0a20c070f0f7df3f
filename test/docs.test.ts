import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { call } from './harness/call.ts'
import { makeDirectory } from './harness/directory.ts'
import { eventually } from './harness/eventually.ts'
import { assertShown, walkOf } from './harness/page.ts'
import { startProcess } from './harness/process-gateway.ts'
import { CREATED, startWitness } from './harness/witness.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const PAGES = ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'CHANGELOG.md', ...pagesOf('docs'), ...pagesOf('examples')]
function pagesOf (folder: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `${folder}/${name}`)
}

const read = (page: string): string => readFileSync(join(ROOT, page), 'utf8')

/** What the first walk of a page prints against the toy, answer by answer. */
async function walked (t: TestContext, page: string): Promise<{ readonly stdout: string, readonly answers: string[] }> {
  const walk = Array.from(read(page).matchAll(/```sh\n([\s\S]*?)```/g), ([, text]) => text as string)
    .find((text) => text.includes('# first: executed'))
  assert.ok(walk !== undefined)
  const gateway = await startProcess(t, { args: ['--port', '0'], env: { ONCEWAY_ADMIN_PORT: '0' } })
  const script = walk.replaceAll('http://127.0.0.1:8080', gateway.url).replaceAll('curl -', 'curl -sS -')
  const { stdout } = await promisify(execFile)('bash', ['-c', script], { timeout: 30_000 })
  return { stdout, answers: stdout.split(/(?=HTTP\/1\.1 )/) }
}

test('the curl walk of the README does what its comments say', async (t) => {
  const { answers: [first, retry, ...more] } = await walked(t, 'README.md')
  assert.deepEqual(more, [])
  assert.match(first ?? '', /^HTTP\/1\.1 201[\s\S]*Idempotency-Status: executed/)
  assert.match(retry ?? '', /^HTTP\/1\.1 201[\s\S]*Idempotent-Replayed: true/)
  assert.equal(bodyOf(retry), bodyOf(first))
})

test('the configuration of the README guards what its comments say', async (t) => {
  const witness = await startWitness()
  t.after(async () => { await witness.close() })
  const shown = /```yaml\n([\s\S]*?)```/.exec(read('README.md'))?.[1] ?? ''
  const { url } = await startProcess(t, {
    config: shown,
    args: ['--port', '0', '--upstream', witness.url],
    env: { ONCEWAY_ADMIN_PORT: '0' }
  })
  const credential = { Authorization: 'Bearer alice' }
  const send = async (path: string, headers: Readonly<Record<string, string>>, method = 'POST') => call(url, path, {
    method,
    headers,
    body: 'x'
  })
  const [keyless, anonymous] = [await send('/v1/payments', credential), await send('/v1/payments', { 'Idempotency-Key': 'k' })]
  assert.deepEqual([keyless.status, keyless.json.code, anonymous.status, anonymous.json.code], [400, 'key-missing', 400, 'scope-missing'])
  const answers = [
    await send('/v1/payments', { ...credential, 'Idempotency-Key': 'k' }),
    await send('/v1/payments', { ...credential, 'Idempotency-Key': 'k' }),
    await send('/v1/payments', { Authorization: 'Bearer bob', 'Idempotency-Key': 'k' })
  ]
  assert.deepEqual(answers.map(({ status, headers }) => [status, headers['idempotency-status']]), [
    [201, 'executed'],
    [201, 'replayed'],
    [201, 'executed']
  ])
  const expires = Date.parse(String(answers[0]?.headers['idempotency-expires'])) - Date.now()
  assert.ok(Math.abs(expires - 24 * 60 * 60 * 1_000) < 60_000, `${expires} ms`)
  for (const [path, method] of [['/v1/payments', 'PUT'], ['/elsewhere', 'POST']] as const) {
    assert.equal((await send(path, {}, method)).status, 201)
  }
  assert.deepEqual(witness.seen.map(({ method, target }) => `${method} ${target}`), [
    'POST /v1/payments',
    'POST /v1/payments',
    'PUT /v1/payments',
    'POST /elsewhere'
  ])
})

test('the curl walk of docs/guides/protect-an-api.md does what its comments say', async (t) => {
  const { stdout, answers: [first, replay, mismatch, inFlight] } = await walked(t, 'docs/guides/protect-an-api.md')
  assert.match(first ?? '', /^HTTP\/1\.1 201[\s\S]*Idempotency-Status: executed/)
  assert.match(replay ?? '', /^HTTP\/1\.1 201[\s\S]*Idempotent-Replayed: true/)
  assert.equal(bodyOf(replay), bodyOf(first))
  assert.match(mismatch ?? '', /^HTTP\/1\.1 422[\s\S]*key-reused/)
  assert.match(
    inFlight ?? '',
    /^HTTP\/1\.1 201[\s\S]*Idempotent-Replayed: true/,
    'the copy has waited for the first one, and has its answer'
  )
  assert.equal(stdout.match(/"id":"pay_[^"]+","amount":(?:100|5)/g)?.length, 2 + 2 + 2, 'two answers of each payment, and both in the list')
})

test('the walk of docs/guides/issued-keys.md does what its comments say, with the configuration above it', async (t) => {
  const page = read('docs/guides/issued-keys.md')
  const [config, walk] = [/```yaml\n([\s\S]*?)```/, /```sh\n([\s\S]*?)```/].map((block) => block.exec(page)?.[1] ?? '')
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
  for (const refused of [anothers, own]) {
    assert.match(refused ?? '', /^HTTP\/1\.1 400[\s\S]*key-invalid[\s\S]*only keys that the gateway has issued to this caller/)
  }
  assert.equal(witness.seen.length, 1)
})

test('the walk of docs/guides/accept-now-deliver-later.md does what its comments say, with the configuration above it', async (t) => {
  const page = read('docs/guides/accept-now-deliver-later.md')
  const [config, walk] = [/```yaml\n([\s\S]*?)```/, /```sh\n([\s\S]*?)```/].map((block) => block.exec(page)?.[1] ?? '')
  const witness = await startWitness()
  t.after(async () => { await witness.close() })
  const gateway = await startProcess(t, {
    config: config as string,
    args: ['--upstream', witness.url],
    env: { ONCEWAY_LISTEN_PORT: '0', ONCEWAY_ADMIN_PORT: '0' }
  })
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

interface Clone {
  readonly url: string
  /** In a shell beside the gateway, where `onceway` and `onceway.yaml` are its own. */
  readonly run: (script: string) => Promise<string>
  readonly listed: (command: string) => Promise<ReadonlyArray<Readonly<Record<'id' | 'owner' | 'state', string>>>>
}

async function startClone (t: TestContext, config: string): Promise<Clone> {
  const { path: cwd, remove } = makeDirectory('clone')
  t.after(remove)
  writeFileSync(join(cwd, 'onceway.yaml'), config)
  const dataDir = join(cwd, 'store')
  const { url } = await startProcess(t, { config, args: ['--data-dir', dataDir, '--port', '0'], env: { ONCEWAY_ADMIN_PORT: '0' } })
  const onceway = `onceway () { '${process.execPath}' '${join(ROOT, 'src/main.ts')}' "$@"; }`
  const run = async (script: string): Promise<string> => {
    const { stdout } = await promisify(execFile)('bash', ['-c', `set -e; ${onceway}; ${script}`], {
      cwd,
      env: { ...process.env, ONCEWAY_DATA_DIR: dataDir },
      timeout: 30_000
    })
    return stdout
  }
  return {
    url,
    run,
    listed: async (command) => (await run(`${command} --config onceway.yaml --json`)).trimEnd().split('\n').filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Record<'id' | 'owner' | 'state', string>)
  }
}

test('docs/guides/resolve-an-unknown-outcome.md: its commands list, show, resolve and release, and print what the page shows', async (t) => {
  const page = read('docs/guides/resolve-an-unknown-outcome.md')
  const witness = await startWitness(() => {})
  t.after(async () => { await witness.close() })
  const shown = Array.from(page.matchAll(/```yaml\n([\s\S]*?)```/g), ([, text]) => text as string)
    .find((text) => text.includes('timeout: 2s')) ?? ''
  const config = shown.replace('http://127.0.0.1:3000', witness.url).replace('timeout: 2s', 'timeout: 1s')
  assert.match(config, /timeout: 1s[\s\S]*lease: 3s/)
  const { url, run, listed } = await startClone(t, config)
  const send = async (script: string, key = 'order-1'): Promise<string> =>
    run(script.replace('http://127.0.0.1:8080', url).replace('curl -i', 'curl -sS -i').replace('order-1', key))
  const walk = walkOf(page)
  assert.deepEqual(walk.map(({ script }) => /curl|records \w+/.exec(script)?.[0]), [
    'curl', 'records list', 'records show', 'records resolve', 'curl', 'records release', 'records audit'
  ])
  const printed = async (script: string): Promise<string> => {
    if (script.includes('curl')) return send(script)
    if (!script.includes('ID')) return run(script)
    const { id = '', owner = '' } = (await listed('onceway records list --state indeterminate')).at(-1) ?? {}
    const command = script.replace(/\bID\b/, id).replace('OWNER', owner)
    if (!script.includes('release')) return run(command)
    // Refused while the first sending may be on its way: a second of the upstream's timeout and three of the lease.
    let released = ''
    await eventually(async () => run(command).then((text) => { released = text; return true }, () => false), command, 20_000)
    return released
  }
  for (const [at, step] of walk.entries()) {
    assertShown(step, await printed(step.script))
    if (at === 0) await send(step.script, 'order-2')
  }
  witness.answer = CREATED
  assert.match(await send(walk[0]?.script ?? '', 'order-2'), /^HTTP\/1\.1 201[\s\S]*Idempotency-Status: executed/)
  assert.deepEqual(witness.seen.map(({ headers }) => headers['idempotency-attempt']), ['1', '1', '2'])
})

test('docs/guides/accept-now-deliver-later.md: its commands list, show and retry messages, and print what the page shows', async (t) => {
  const page = read('docs/guides/accept-now-deliver-later.md')
  const witness = await startWitness((_seen, response) => {
    response.writeHead(422, { 'Content-Type': 'application/json' }).end('{"error":"no such account"}')
  })
  t.after(async () => { await witness.close() })
  const shown = /```yaml\n([\s\S]*?)```/.exec(page)?.[1] ?? ''
  assert.match(shown, /maxAttempts: 20/)
  const { url, run, listed } = await startClone(
    t,
    shown.replace('http://127.0.0.1:3000', witness.url).replace('maxAttempts: 20', 'maxAttempts: 2')
  )
  for (const [key, account] of [['event-1', 'a'], ['event-2', 'b']] as const) {
    const { status } = await call(url, '/hooks', {
      body: `{"account": "${account}"}`,
      headers: { 'Idempotency-Key': key, 'Content-Type': 'application/json' }
    })
    assert.equal(status, 202)
  }
  const dead = async (): ReturnType<Clone['listed']> => listed('onceway inbox list --state dead')
  await eventually(async () => (await dead()).length === 2, 'both messages are dead', 30_000)
  const walk = walkOf(page)
  assert.deepEqual(walk.map(({ script }) => /inbox \w+(?: --all)?/.exec(script)?.[0]), [
    'inbox list',
    'inbox show',
    'inbox retry',
    'inbox retry --all'
  ])
  witness.answer = CREATED
  for (const step of walk) assertShown(step, await run(step.script.replace(/\bID\b/, (await dead())[0]?.id ?? '')))
  await eventually(async () => (await listed('onceway inbox list')).every(({ state }) =>
    state === 'delivered'), 'both messages are delivered', 30_000)
})

function bodyOf (answer: string | undefined): string | undefined {
  return answer?.split('\r\n\r\n')[1]?.split('\n')[0]
}

for (const page of PAGES) {
  test(`${page} links to nothing that is not there`, () => {
    const links = Array.from(read(page).matchAll(/\]\((?!https?:|#)([^)#]+)[^)]*\)/g), ([, link]) => link as string)
    assert.deepEqual(links.filter((link) => !existsSync(join(ROOT, dirname(page), link))), [])
  })
}

test('every rule of docs/concepts/protocol.md names a test that exists', () => {
  const text = read('docs/concepts/protocol.md')
  const rows = text.split('\n').filter((line) => /^\| [A-Z]\d+b? \|/.test(line))
  assert.deepEqual(rows.map((row) => row.split('|')[1]?.trim()), [
    'P1', 'P2', 'P3', 'P4', 'P5', 'P6', 'P7', 'P8', 'P9', 'P10', 'P11', 'P12', 'E0', 'E1', 'E2', 'E2b', 'E3', 'E4',
    'E4b', 'E5', 'E6', 'E7'
  ])
  const named = new Set(
    Array.from(text.matchAll(/`((?:core|gateway|store|e2e|crash|cli|http|conformance|harness)\/[\w.-]*)`/g), ([, path]) => path as string)
  )
  assert.deepEqual(Array.from(named).filter((path) => !existsSync(join(ROOT, 'test', path))), [])
})

test('docs/reference/http.md lists every field that a replay leaves out, and no other', async () => {
  const { NOT_KEPT, NOT_KEPT_PREFIXES } = await import('../src/core/headers/headers.ts')
  const section = read('docs/reference/http.md').split('## What a replay leaves out')[1]?.split('\n## ')[0] ?? ''
  const rows = section.split('\n').filter((line) => /^\| the |^\| how long/.test(line))
  const listed = rows.flatMap((line) => Array.from(line.matchAll(/`([^`]+)`/g), ([, name]) => name?.toLowerCase() ?? ''))
  assert.deepEqual(listed.sort(), [...NOT_KEPT, ...NOT_KEPT_PREFIXES.map((prefix) => `${prefix}*`)].sort())
})

test('every problem that the gateway answers with stands in the documents', async () => {
  const { PROBLEMS } = await import('../src/core/protocol/problems.ts')
  const text = PAGES.map(read).join('\n')
  assert.deepEqual(Object.keys(PROBLEMS).filter((code) => !text.includes(`\`${code}\``)), [])
})

test('the configuration that docs/guides/drop-duplicates.md shows drops duplicates, in the database and in a filter', async (t) => {
  const witness = await startWitness()
  t.after(() => witness.close())
  const shown = /```yaml\n([\s\S]*?)```/.exec(read('docs/guides/drop-duplicates.md'))?.[1] ?? ''
  const config = shown.replace('http://127.0.0.1:3000', witness.url)
  assert.notEqual(config, shown)
  const { url } = await startProcess(t, { config, args: ['--port', '0'], env: { ONCEWAY_ADMIN_PORT: '0' } })
  const told: unknown[] = []
  for (const [path, body] of [
    ['/v1/metrics', '{"id":"a"}'],
    ['/v1/metrics', '{"id":"a","sent":"again"}'],
    ['/v1/metrics', '{"id":"b"}'],
    ['/v1/clicks', 'x'],
    ['/v1/clicks', 'x'],
    ['/v1/clicks', 'y']
  ] as const) {
    const { status, headers } = await call(url, path, { body, headers: { 'Content-Type': 'application/json' } })
    told.push([status, headers['idempotency-status']])
  }
  assert.deepEqual(told, [
    [201, 'executed'],
    [202, 'duplicate'],
    [201, 'executed'],
    [201, 'executed'],
    [200, 'duplicate'],
    [201, 'executed']
  ])
  assert.equal(witness.seen.length, 4)
})

test('the configuration that deploy/compose.yaml mounts is one that serve takes', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [
    join(ROOT, 'src/main.ts'),
    'check',
    '--config',
    join(ROOT, 'deploy/onceway.yaml')
  ])
  assert.match(stdout, /is right/)
})
