import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createLogs, hashedKey, pathOnly } from '../../src/telemetry/log.ts'
import { keyHash } from '../../src/core/record/record-id.ts'
import { eventually } from '../harness/eventually.ts'

interface Line {
  readonly level: string
  readonly msg: string
  readonly err?: { message: string, stack: string, code?: string, cause?: { message: string } }
  readonly [name: string]: unknown
}

function logged (
  write: (log: ReturnType<typeof createLogs>['log']) => void,
  level: 'debug' | 'info' | 'silent' = 'debug'
): { text: string, lines: Line[] } {
  const texts: string[] = []
  write(createLogs({ level, instance: 'gw-1', destination: { write: (line) => { texts.push(line) } } }).log)
  return { text: texts.join(''), lines: texts.map((line) => JSON.parse(line) as Line) }
}

test('a line says when, how severe, which build and which gateway', () => {
  const { lines: [line] } = logged((log) => { log.info({ event: 'settled-late', route: 'charges' }, 'settled') })
  assert.deepEqual(
    [line?.level, line?.event, line?.msg, line?.service, line?.instance, line?.route],
    ['info', 'settled-late', 'settled', 'onceway', 'gw-1', 'charges']
  )
  assert.match(String(line?.time), /^\d{4}-\d\d-\d\dT/)
})

test('what is less severe than the level is not written', () => {
  assert.deepEqual(logged((log) => { log.debug({ event: 'background-failed' }, 'x') }, 'info').lines, [])
  assert.deepEqual(logged((log) => { log.error({ event: 'background-failed' }, 'x') }, 'silent').lines, [])
})

test('credentials, keys and bodies that slip in under a known name are redacted, at three depths', () => {
  const secret = 'hunter2'
  const fields = {
    authorization: secret,
    'proxy-authorization': secret,
    cookie: secret,
    'set-cookie': secret,
    'x-api-key': secret,
    'idempotency-key': secret,
    key: secret,
    keyText: secret,
    body: secret,
    password: secret,
    token: secret
  }
  const { text, lines } = logged((log) => { log.info({ event: 'request', ...fields, request: { ...fields, headers: fields } }, 'x') })
  assert.equal(lines.length, 1)
  assert.ok(!text.includes(secret), text)
})

test('a URL is written without credentials and query', () => {
  const url = 'postgres://u:hunter2@h:5432/db?sslpassword=x'
  const { lines: [line] } = logged((log) => { log.info({ event: 'database-reached', url }, 'x') })
  assert.equal(line?.url, 'postgres://[redacted]@h:5432/db')
})

test('an error is written with its causes, without credentials and without what drivers hang on it', () => {
  const error = Object.assign(new Error('connect postgres://u:hunter2@h failed', { cause: new Error('refused') }), {
    code: 'ECONNREFUSED',
    client: { password: 'hunter2' }
  })
  const { text, lines: [line] } = logged((log) => { log.error({ event: 'admin-error', err: error }, 'x') })
  assert.ok(!text.includes('hunter2'), text)
  assert.deepEqual([line?.err?.code, line?.err?.cause?.message], ['ECONNREFUSED', 'refused'])
})

test('a key is logged as the start of its hash, a target without its query', () => {
  assert.equal(hashedKey(keyHash('order-1')).length, 16)
  assert.ok(keyHash('order-1').toString('base64url').startsWith(hashedKey(keyHash('order-1'))))
  assert.deepEqual(['/a?token=1', '/a#b', '/a', ''].map(pathOnly), ['/a', '/a', '/a', ''])
})

/** What an event pushes out. */
const LINE = {
  requestId: 'r-1',
  route: 'charges',
  method: 'POST',
  outcome: 'replayed',
  status: 201,
  ms: 0.25,
  responseBytes: 12,
  record: 'abc',
  keyFrom: undefined,
  attempt: undefined,
  scopeMs: 0.01,
  bodyMs: 0.1,
  fingerprintMs: 0.02,
  claimMs: undefined,
  upstreamMs: undefined,
  settleMs: undefined,
  waitMs: 0.2,
  requestBytes: 3,
  reason: undefined
}

test('the line of a guarded request is the same log: its level, its base fields, what is not known left out', () => {
  const texts: string[] = []
  const logs = createLogs({ level: 'info', instance: 'gw-1', destination: { write: (line) => { texts.push(line) } } })
  logs.requests.note(LINE)
  logs.setLevel('warn')
  logs.requests.note(LINE)
  logs.log.warn({ event: 'background-failed' }, 'an event')
  assert.equal(texts.length, 2)
  const { time, version, ...rest } = JSON.parse(texts[0] ?? '') as Record<string, unknown>
  assert.match(String(time), /^\d{4}-/)
  assert.equal(typeof version, 'string')
  assert.deepEqual(rest, {
    level: 'info',
    service: 'onceway',
    instance: 'gw-1',
    event: 'request',
    requestId: 'r-1',
    route: 'charges',
    method: 'POST',
    outcome: 'replayed',
    status: 201,
    ms: 0.25,
    responseBytes: 12,
    record: 'abc',
    scopeMs: 0.01,
    bodyMs: 0.1,
    fingerprintMs: 0.02,
    waitMs: 0.2,
    requestBytes: 3,
    msg: 'guarded'
  })
})

/** Writes 40 MiB of lines to a stdout that nobody reads, says so, and goes on writing until it ends. */
const TALKER = `
import { createLogs } from ${JSON.stringify(new URL('../../src/telemetry/log.ts', import.meta.url).href)}
const { requests } = createLogs({ level: 'info' })
const line = ${JSON.stringify({ ...LINE, keyFrom: 'x'.repeat(1_000) })}
const noteMany = async (left) => {
  for (let i = 0; i < 200; i++) requests.note(line)
  await new Promise((resolve) => setImmediate(resolve))
  if (left > 1) await noteMany(left - 1)
}
await noteMany(150)
process.stderr.write(String(process.memoryUsage().rss))
await new Promise((resolve) => process.stdin.once('data', resolve))
process.exitCode = 0
process.stdin.destroy()
await new Promise((resolve) => setTimeout(resolve, 300))
requests.note(line)
`

test('a reader that stands still costs lines, which are counted, and no memory beyond a bound', async (t) => {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', TALKER], { stdio: ['pipe', 'pipe', 'pipe'] })
  t.after(() => { child.kill('SIGKILL') })
  const [rss] = await once(child.stderr, 'data') as [Buffer]
  const closed = once(child, 'close')
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => { output += chunk.toString() })
  child.stdin.end('read')
  await closed
  const lines = output.trimEnd().split('\n').map((line) => JSON.parse(line) as Line)
  const dropped = lines.filter(({ event }) => event === 'log-lines-dropped').map((line) => Number(line['lines']))
  const noted = lines.filter(({ event }) => event === 'request').length
  assert.ok(dropped.length > 0, 'it says so')
  assert.equal(noted + dropped.reduce((sum, each) => sum + each, 0), 150 * 200 + 1)
  assert.ok(Number(String(rss)) < 200 * 1024 * 1024, `${String(rss)} bytes`)
})

test('nor does it keep a process from its end', async (t) => {
  const talker = `${TALKER}; process.exit(3)`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', talker], { stdio: ['pipe', 'pipe', 'pipe'] })
  t.after(() => { child.kill('SIGKILL') })
  await once(child.stderr, 'data')
  child.stdin.end('end')
  assert.deepEqual(await Promise.race([once(child, 'exit'), sleep(10_000, 'it waits for its reader', { ref: false })]), [3, null])
})

test('a disk that is full costs lines, and neither memory nor the process', async (t) => {
  const full = openSync('/dev/full', 'w')
  t.after(() => { closeSync(full) })
  const child = spawn(process.execPath, ['--input-type=module', '--eval', `${TALKER}; process.exit(3)`], { stdio: ['pipe', full, 'pipe'] })
  assert.ok(child.stdin !== null && child.stderr !== null)
  t.after(() => { child.kill('SIGKILL') })
  let said = ''
  child.stderr.on('data', (chunk: Buffer) => { said += chunk.toString() })
  await eventually(() => /\d{8,}$/.test(said), () => said)
  assert.match(said, /^onceway: stdout cannot be written \(ENOSPC\)[^\n]*\n\d+$/, 'once, and goes on')
  assert.ok(Number(/\d+$/.exec(said)?.[0]) < 200 * 1024 * 1024, said)
  child.stdin.end('end')
  assert.deepEqual(await Promise.race([once(child, 'exit'), sleep(10_000, 'it waits for the disk', { ref: false })]), [3, null])
})

test('a reader that is found to be gone only by the last write of a process does not keep it from its end', async (t) => {
  // Nothing else runs before the end, so nothing finds it out earlier.
  const talker = `${TALKER}
process.stderr.write('ending')
Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500)
process.exit(3)`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', talker], { stdio: ['pipe', 'pipe', 'pipe'] })
  t.after(() => { child.kill('SIGKILL') })
  await once(child.stderr, 'data')
  child.stdin.end('end')
  await once(child.stderr, 'data')
  child.stdout.destroy()
  assert.deepEqual(await Promise.race([once(child, 'exit'), sleep(10_000, 'it waits for its reader', { ref: false })]), [3, null])
})

test('lines of requests wait for one another, a tenth of a second at most, and stand before the event that comes after them', async () => {
  const texts: string[] = []
  const logs = createLogs({ level: 'info', destination: { write: (text) => { texts.push(text) } } })
  logs.requests.note(LINE)
  logs.requests.note({ ...LINE, requestId: 'r-2', reason: 'says "no"\n' })
  assert.deepEqual(texts, [])
  logs.log.info({ event: 'background-failed' }, 'an event')
  const lines = texts.join('').trimEnd().split('\n').map((text) => JSON.parse(text) as Line)
  assert.deepEqual(lines.map(({ msg, requestId }) => requestId ?? msg), ['r-1', 'r-2', 'an event'])
  assert.equal(lines[1]?.['reason'], 'says "no"\n')
  logs.requests.note(LINE)
  await eventually(() => texts.length === 3, 'the line is written without any event')
})

test('the line of a delivery is gathered like those of requests: a thousand of them are not a thousand writes', () => {
  const texts: string[] = []
  const logs = createLogs({ level: 'info', instance: 'gw-1', destination: { write: (text) => { texts.push(text) } } })
  const delivery = {
    record: 'abc',
    route: 'hooks',
    requestId: 'r-1',
    attempt: 2,
    tries: 2,
    replay: undefined,
    status: 204,
    error: undefined,
    inMs: undefined,
    ms: 3
  }
  for (let i = 0; i < 1_000; i++) logs.deliveries.note({ ...delivery, result: 'delivered' })
  assert.ok(texts.length < 50, `${texts.length} writes`)
  logs.deliveries.note({ ...delivery, result: 'again', status: null, error: 'says "no"', inMs: 40, replay: true })
  logs.log.info({ event: 'background-failed' }, 'an event')
  const lines = texts.join('').trimEnd().split('\n').map((text) => JSON.parse(text) as Line)
  assert.equal(lines.length, 1_002)
  const [{ time, version, ...first } = { level: '', msg: '' }, again] = [lines[0], lines[1_000]]
  assert.deepEqual([typeof time, typeof version], ['string', 'string'])
  assert.deepEqual(first, {
    level: 'info',
    service: 'onceway',
    instance: 'gw-1',
    event: 'delivery',
    record: 'abc',
    route: 'hooks',
    requestId: 'r-1',
    attempt: 2,
    tries: 2,
    result: 'delivered',
    status: 204,
    ms: 3,
    msg: 'message delivered'
  })
  assert.deepEqual(
    [again?.msg, again?.['replay'], again?.['status'], again?.['error'], again?.['inMs']],
    ['message not delivered; it will be tried again', true, null, 'says "no"', 40]
  )
  logs.setLevel('warn')
  const before = texts.length
  logs.deliveries.note({ ...delivery, result: 'delivered' })
  logs.log.warn({ event: 'background-failed' }, 'an event')
  assert.equal(texts.length, before + 1)
})

test('what is gathered is written in pieces that fit into a pipe which others write to', () => {
  const texts: string[] = []
  const logs = createLogs({ level: 'info', shared: true, destination: { write: (text) => { texts.push(text) } } })
  for (let i = 0; i < 100; i++) logs.requests.note({ ...LINE, reason: 'ü'.repeat(i) })
  logs.log.info({ event: 'background-failed' }, 'the end')
  assert.ok(texts.length > 5 && texts.every((text) => Buffer.byteLength(text) <= 4096 && text.endsWith('\n')))
  assert.equal(texts.join('').split('\n').length, 102)
})

test('an event that comes while others are being written waits for no timer: it is written right behind them', () => {
  const written: string[] = []
  const flushes: (() => void)[] = []
  const destination = { write: (line: string) => { written.push(line) }, flush: (done: () => void) => { flushes.push(done) } }
  const { log } = createLogs({ level: 'info', destination })
  log.info({ event: 'background-failed' }, 'first')
  log.info({ event: 'background-failed' }, 'second')
  log.info({ event: 'background-failed' }, 'third')
  assert.equal(flushes.length, 1, 'one write at a time')
  flushes[0]?.()
  assert.equal(flushes.length, 2, 'what came meanwhile, or was not among what was being written already')
  flushes[1]?.()
  assert.equal(flushes.length, 2)
  assert.equal(written.length, 3)
})
