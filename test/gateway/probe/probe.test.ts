/** `unknown: probe`: the gateway asks the upstream about an unknown outcome, and settles the record by its answer. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { Socket } from 'node:net'
import { readTemplate } from '../../../src/config/routes/probe.ts'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { call } from '../../harness/call.ts'
import type { Called } from '../../harness/call.ts'
import { eventually } from '../../harness/eventually.ts'
import { guardedRoute, recordingLog, startGateway } from '../../harness/gateway.ts'
import type { TestGateway } from '../../harness/gateway.ts'
import { startScripted } from '../../harness/scripted.ts'
import type { Scripted } from '../../harness/scripted.ts'
import type { ProbePolicy, Template } from '../../../src/core/policy/policy.ts'

/** Short enough for a test to wait, where production takes minutes. No request of these tests takes so long. */
const TIMEOUT_MS = 400
const LEASE_MS = 400
const CONFIRM_MS = 200
/** The first sending can no longer be in flight. */
const QUARANTINE_MS = TIMEOUT_MS + LEASE_MS

function template (text: string): Template {
  const read = readTemplate(text)
  assert.ok('value' in read)
  return read.value
}

const probeOf = (over: Partial<ProbePolicy> = {}): ProbePolicy => ({
  method: 'GET',
  path: template('/lookup/{json:/order}?key={key}'),
  headers: [],
  timeoutMs: 500,
  found: { statuses: [200], adopt: null, replayStatus: 201 },
  notFound: [404],
  notFoundMarks: [],
  confirmAfterMs: CONFIRM_MS,
  intervalMs: 50,
  giveUpAfterMs: 60_000,
  ...over
})

interface Told { readonly target: string, readonly atMs: number, readonly head: string }

interface Ledger extends Scripted {
  /** Questions in order of arrival. */
  readonly asked: Told[]
  readonly posted: () => number
}

/** POSTs are executed and never answered. `answer` answers the questions. */
async function startLedger (
  t: TestContext,
  answer: (socket: Socket, count: number) => void,
  onPost: (socket: Socket) => unknown = (socket) => { socket.resetAndDestroy() }
): Promise<Ledger> {
  const asked: Told[] = []
  let posts = 0
  const upstream: Scripted = await startScripted(t, {
    onRequest: (socket) => {
      const head = upstream.received.join('\n').split(/(?=GET |POST |HEAD )/).at(-1) ?? ''
      if (head.startsWith('POST')) {
        posts++
        void onPost(socket)
        return
      }
      asked.push({ target: head.split(' ')[1] ?? '', atMs: performance.now(), head })
      answer(socket, asked.length)
    }
  })
  return { ...upstream, asked, posted: () => posts }
}

const reply = (socket: Socket, status: string, body = ''): void => {
  socket.write(`HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
}

interface Setting extends TestGateway {
  readonly upstream: Ledger
  readonly records: MemoryStore
  readonly log: ReturnType<typeof recordingLog>
  readonly ask: (key?: string, body?: string) => Promise<Called>
}

async function start (t: TestContext, upstream: Ledger, probe: Partial<ProbePolicy> = {}): Promise<Setting> {
  const log = recordingLog()
  const records = new MemoryStore({ nowMs: Date.now })
  const route = guardedRoute(upstream.url, { unknown: 'probe', probe: probeOf(probe), leaseMs: LEASE_MS }, { timeoutMs: TIMEOUT_MS })
  const started = await startGateway(t, { routes: [route], world: { log, records } })
  return {
    ...started,
    upstream,
    records,
    log,
    ask: async (key = 'k', body = '{"order":"o-1"}') => call(started.url, '/things', {
      headers: { 'Idempotency-Key': key, 'Content-Type': 'application/json' },
      body
    })
  }
}

async function becomes ({ records }: Setting, state: string): Promise<void> {
  await eventually(async () => (await records.list({ limit: 1 }))[0]?.state === state, `the record is ${state}`, 10_000)
}

test('found: the record gets the answer of the upstream, and every retry replays it; nothing is sent again', async (t) => {
  const setting = await start(t, await startLedger(t, (socket) => { reply(socket, '200 OK', '{"id":"ch_1"}') }))
  const first = await setting.ask()
  assert.deepEqual([first.status, first.json.code], [502, 'outcome-unknown'])
  await becomes(setting, 'completed')
  for (let time = 0; time < 2; time++) {
    const retry = await setting.ask()
    assert.deepEqual(
      [retry.status, retry.text, retry.headers['idempotent-replayed'], retry.headers['idempotency-status']],
      [201, '{"id":"ch_1"}', 'true', 'replayed']
    )
  }
  const { asked, posted } = setting.upstream
  assert.deepEqual([asked.map(({ target }) => target), posted()], [['/lookup/o-1?key=k'], 1])
  const [detail] = await setting.records.list({ limit: 1 })
  assert.equal(detail?.settledBy, 'probe')
  assert.deepEqual(setting.records.audits.map(({ who, action }) => [who, action]), [['probe', 'resolve']])
})

test('the question carries the record\'s id and the upstream\'s static fields, and nothing of the caller', async (t) => {
  const upstream = await startLedger(t, (socket) => { reply(socket, '200 OK', '{}') })
  const route = guardedRoute(
    upstream.url,
    {
      unknown: 'probe',
      leaseMs: LEASE_MS,
      probe: probeOf({ headers: [['X-Order', template('{json:/order}')], ['Authorization', template('Bearer of-the-gateway')]] })
    },
    { timeoutMs: TIMEOUT_MS, requestHeaders: [['X-Env', 'live']] }
  )
  const { url } = await startGateway(t, { routes: [route] })
  await call(url, '/things', {
    headers: { 'Idempotency-Key': 'k', Authorization: 'Bearer of-the-caller', Cookie: 'a=b' },
    body: '{"order":"o-1"}'
  })
  await eventually(() => upstream.asked.length > 0, 'the upstream was asked')
  const head = upstream.asked[0]?.head ?? ''
  assert.match(head, /^GET \/lookup\/o-1\?key=k HTTP\/1\.1\r\n/)
  for (const line of [
    'X-Order: o-1', 'Authorization: Bearer of-the-gateway', 'X-Env: live', 'Accept-Encoding: identity',
    'Via: 1.1 onceway'
  ]) {
    assert.ok(head.includes(`${line}\r\n`), `${line} in\n${head}`)
  }
  assert.match(head, /\r\nOnceway-Key: [A-Za-z0-9_-]{43}\r\n/)
  assert.doesNotMatch(head, /of-the-caller|cookie/i)
})

test('not found twice, after the first sending is certainly over: the key is free, and the next request is sent as attempt 2', async (t) => {
  let working = true
  const upstream = await startLedger(
    t,
    (socket) => { reply(socket, '404 Not Found') },
    (socket) => { if (working) socket.resetAndDestroy(); else reply(socket, '201 Created', '{"id":"ch_2"}') }
  )
  const setting = await start(t, upstream)
  // Taken before the outcome can become unknown. How long the client takes to hear of it depends on the machine.
  const askedAt = performance.now()
  await setting.ask()
  await becomes(setting, 'released')
  const tookMs = performance.now() - askedAt
  assert.ok(tookMs >= QUARANTINE_MS + CONFIRM_MS - 20, `freed after ${tookMs} ms`)
  const counted = upstream.asked.filter(({ atMs }) => atMs - askedAt >= QUARANTINE_MS - 5)
  assert.ok(counted.length >= 2)
  assert.ok((counted.at(-1)?.atMs ?? 0) - (counted[0]?.atMs ?? 0) >= CONFIRM_MS - 5)
  working = false
  const again = await setting.ask()
  assert.deepEqual([again.status, again.headers['idempotency-status']], [201, 'executed'])
  assert.equal(upstream.posted(), 2)
  assert.match(upstream.received.join('\n'), /idempotency-attempt: 2/i)
})

test('a "not found" without the mark that the route demands, as a hop says it, frees nothing; with it, it does', async (t) => {
  let isHop = true
  const setting = await start(t, await startLedger(t, (socket, count) => {
    isHop = count < 8
    if (isHop) reply(socket, '404 Not Found', '{"message":"no Route matched with those values"}')
    else reply(socket, '404 Not Found', '{"error":{"code":"resource_missing"}}')
  }), { notFoundMarks: [{ kind: 'json', pointer: ['error', 'code'] }] })
  await setting.ask()
  await becomes(setting, 'released')
  assert.ok(!isHop && setting.upstream.asked.length >= 9, `freed after ${setting.upstream.asked.length} questions`)
  assert.equal(setting.upstream.posted(), 1)
})

test('no answer: it is held and asked again until there is one', async (t) => {
  const setting = await start(t, await startLedger(t, (socket, count) => {
    if (count === 1) socket.resetAndDestroy()
    else if (count === 2) reply(socket, '503 Service Unavailable')
    else reply(socket, '200 OK', '{"id":"ch_1"}')
  }))
  await setting.ask()
  assert.deepEqual([(await setting.ask()).json.code], ['outcome-unknown'])
  await becomes(setting, 'completed')
  assert.deepEqual([setting.upstream.asked.length, setting.upstream.posted()], [3, 1])
})

test('an upstream that is silent to the question is asked again after the time for it', async (t) => {
  const setting = await start(t, await startLedger(t, (socket, count) => { if (count > 1) reply(socket, '200 OK', '{}') }), {
    timeoutMs: 100
  })
  await setting.ask()
  await becomes(setting, 'completed')
  assert.equal(setting.upstream.asked.length, 2)
})

test('given up: the record is held, nobody asks any more, and the log says so once', async (t) => {
  const setting = await start(t, await startLedger(t, (socket) => { reply(socket, '500 Internal Server Error') }), { giveUpAfterMs: 100 })
  await setting.ask()
  const said = (): unknown[] => setting.log.lines.filter(({ message }) => message.includes('giveUpAfter'))
  await eventually(() => said().length === 1, 'it is given up')
  const count = setting.upstream.asked.length
  await new Promise((resolve) => setTimeout(resolve, 300))
  assert.deepEqual([setting.upstream.asked.length, said().length, (await setting.ask()).json.code], [count, 1, 'outcome-unknown'])
})

test('the true answer that comes late wins over a question under way', async (t) => {
  const held: Socket[] = []
  const setting = await start(t, await startLedger(t, (socket) => { held.push(socket) }))
  await setting.ask()
  await eventually(() => held.length === 1, 'the upstream is asked')
  const [{ id, owner, attempt } = assert.fail()] = await setting.records.list({ limit: 1 })
  await setting.records.settle({
    token: { id, owner, attempt },
    outcome: 'completed',
    keepMs: 60_000,
    status: 200,
    headers: Buffer.from([1, 0, 0]),
    body: Buffer.from('the true one'),
    reason: null
  })
  for (const socket of held) reply(socket, '200 OK', '{"id":"of the question"}')
  await eventually(async () => (await setting.ask()).text === 'the true one', 'the true answer is replayed')
  const [detail] = await setting.records.list({ limit: 1 })
  assert.equal(detail?.settledBy, 'owner')
})

test('an owner who comes after a probe gives its clients what the probe has settled, not its own', async (t) => {
  const upstream = await startLedger(t, () => {}, async (socket) => {
    const [{ id, owner, attempt } = assert.fail()] = await setting.records.list({ limit: 1 })
    const token = { id, owner, attempt }
    await setting.records.settle({
      token,
      outcome: 'indeterminate',
      keepMs: 60_000,
      status: null,
      headers: null,
      body: null,
      reason: { stage: 'lease', code: 'LEASE_OVER' }
    })
    await setting.records.resolve({
      token,
      outcome: 'completed',
      keepMs: 60_000,
      status: 201,
      headers: Buffer.from([1, 0, 0]),
      body: Buffer.from('of the probe'),
      by: 'probe',
      tries: null,
      audit: { action: 'resolve', who: 'probe', why: 'found' }
    })
    reply(socket, '201 Created', '"of the owner"')
  })
  const setting = await start(t, upstream)
  assert.deepEqual([(await setting.ask()).text, (await setting.ask()).text], ['of the probe', 'of the probe'])
})

test('what a dead gateway left behind is asked about by another one, also what it was just asking', async (t) => {
  const upstream = await startLedger(t, (socket) => { reply(socket, '200 OK', '{"id":"ch_1"}') }, () => {})
  const route = guardedRoute(upstream.url, { unknown: 'probe', probe: probeOf(), leaseMs: LEASE_MS }, { timeoutMs: 60_000 })
  const records = new MemoryStore({ nowMs: Date.now })
  const dead = await startGateway(t, { routes: [route], world: { records }, background: false })
  const ask = async (url: string): Promise<Called> => call(url, '/things', { headers: { 'Idempotency-Key': 'k' }, body: '{"order":"o-1"}' })
  void ask(dead.url).catch(() => {})
  await eventually(() => upstream.posted() === 1, 'the request was sent')
  dead.gateway.stop()
  const living = await startGateway(t, { routes: [route], world: { records } })
  await eventually(async () => (await records.list({ limit: 1 }))[0]?.state === 'completed', 'it is settled', 10_000)
  const retry = await ask(living.url)
  assert.deepEqual([retry.status, retry.text], [201, '{"id":"ch_1"}'])
  assert.equal(upstream.posted(), 1)
})

test('a request that lacks what the question needs is executed all the same; its unknown outcome is held', async (t) => {
  const setting = await start(t, await startLedger(t, (socket) => { reply(socket, '404 Not Found') }))
  assert.equal((await setting.ask('k', '{"other":1}')).json.code, 'outcome-unknown')
  await new Promise((resolve) => setTimeout(resolve, QUARANTINE_MS + 2 * CONFIRM_MS))
  assert.deepEqual([setting.upstream.asked.length, (await setting.ask('k', '{"other":1}')).json.code], [0, 'outcome-unknown'])
})

test('a record whose upstream is not the route\'s any more is not asked about elsewhere', async (t) => {
  const upstream = await startLedger(t, () => {})
  const elsewhere = await startLedger(t, (socket) => { reply(socket, '404 Not Found') })
  const records = new MemoryStore({ nowMs: Date.now })
  const policy = { unknown: 'probe', probe: probeOf(), leaseMs: LEASE_MS } as const
  const old = await startGateway(t, {
    routes: [guardedRoute(upstream.url, policy, { timeoutMs: TIMEOUT_MS })],
    world: { records },
    background: false
  })
  await call(old.url, '/things', { headers: { 'Idempotency-Key': 'k' }, body: '{"order":"o-1"}' })
  const log = recordingLog()
  await startGateway(t, {
    routes: [guardedRoute(elsewhere.url, policy, { name: 'another', timeoutMs: TIMEOUT_MS })],
    world: { records, log }
  })
  await eventually(() => log.lines.some(({ message }) => message.includes('cannot be asked')), 'it is said')
  assert.deepEqual([elsewhere.asked.length, (await records.list({ limit: 1 }))[0]?.state], [0, 'indeterminate'])
})

test('an answer that is larger than what is kept: a tombstone, and the original status is said', async (t) => {
  const setting = await start(t, await startLedger(t, (socket) => { reply(socket, '200 OK', 'x'.repeat(300 * 1024)) }))
  await setting.ask()
  await becomes(setting, 'consumed')
  const retry = await setting.ask()
  assert.deepEqual([retry.status, retry.json.code, retry.json.originalStatus], [409, 'answer-not-kept', 201])
})

test('a question goes to the host that the request went to', async (t) => {
  const upstream = await startLedger(t, (socket) => { reply(socket, '200 OK', '{}') })
  const route = guardedRoute(
    upstream.url,
    { unknown: 'probe', leaseMs: LEASE_MS, probe: probeOf() },
    { timeoutMs: TIMEOUT_MS, host: 'preserve' }
  )
  const { url } = await startGateway(t, { routes: [route] })
  await call(url, '/things', { headers: { 'Idempotency-Key': 'k', Host: 'tenant.example' }, body: '{"order":"o-1"}' })
  await eventually(() => upstream.asked.length > 0, 'the upstream was asked')
  assert.match(upstream.asked[0]?.head ?? '', /\r\nhost: tenant\.example\r\n/i)
})

test('an answer without an end is broken off, and holds no connection', async (t) => {
  let open = 0
  const upstream = await startLedger(t, (socket) => {
    open++
    socket.on('close', () => { open-- })
    socket.write('HTTP/1.1 500 Oh\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n')
    const tick = setInterval(() => { if (!socket.destroyed) socket.write('4\r\ntick\r\n') }, 20)
    socket.on('close', () => { clearInterval(tick) })
  })
  const route = guardedRoute(
    upstream.url,
    { unknown: 'probe', leaseMs: LEASE_MS, probe: probeOf() },
    { timeoutMs: TIMEOUT_MS, connectionsMax: 1 }
  )
  const { url } = await startGateway(t, { routes: [route] })
  await call(url, '/things', { headers: { 'Idempotency-Key': 'k' }, body: '{"order":"o-1"}' })
  await eventually(() => upstream.asked.length >= 3, 'it is asked again and again', 10_000)
  assert.ok(open <= 1, `${open} connections are open`)
})

test('an upstream that is silent holds up no other route\'s questions', async (t) => {
  const slow = await startLedger(t, () => {})
  const quick = await startLedger(t, (socket) => { reply(socket, '200 OK', '{}') })
  const policy = { unknown: 'probe', probe: probeOf({ timeoutMs: 5_000, path: template('/lookup/{key}') }), leaseMs: LEASE_MS } as const
  const routes = ([['slow', slow], ['quick', quick]] as const).map(([name, { url }]) => ({
    ...guardedRoute(url, policy, { name, timeoutMs: TIMEOUT_MS }),
    name,
    match: { path: `/${name}`, methods: ['POST'], host: null, exact: false }
  }))
  const records = new MemoryStore({ nowMs: Date.now })
  const { url } = await startGateway(t, { routes, world: { records } })
  await Promise.all(Array.from({ length: 30 }, async (_, index) => call(url, '/slow', { headers: { 'Idempotency-Key': `k-${index}` } })))
  const startedAt = performance.now()
  await call(url, '/quick', { headers: { 'Idempotency-Key': 'k' } })
  await eventually(async () =>
    (await records.list({ route: 'quick', limit: 1 }))[0]?.state === 'completed', 'the other one is settled', 10_000)
  assert.ok(performance.now() - startedAt < 4_000, 'before any silence was over')
  assert.ok(slow.asked.length <= 8, `${slow.asked.length} questions at once`)
})
