import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Agent } from 'node:http'
import { connect } from 'node:net'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { ISSUED_KEYS_PATH } from '../../../src/core/key/issued-keys.ts'
import type { IssuedKeysPolicy } from '../../../src/core/policy/policy.ts'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { call, callRaw } from '../../harness/call.ts'
import type { Called, CallOptions } from '../../harness/call.ts'
import { eventually } from '../../harness/eventually.ts'
import { DOWN, faulty } from '../../harness/faulty-store.ts'
import { countingMeter, startGuarded } from '../../harness/gateway.ts'
import type { Guarded, GuardedOptions } from '../../harness/gateway.ts'
import { ManualClock } from '../../harness/manual-clock.ts'
import { bearing, unsigned } from '../scope/jwt-world.ts'

/** Fewer than may wait on a connection. */
const ASKED_AT_ONCE = 32
/** Until the kernel takes no more unread bytes. */
const UNREAD_WITHIN_MS = 30_000
const HOUR_MS = 60 * 60 * 1000
const ALICE = { headers: { Authorization: 'Bearer alice' } }
const BOB = { headers: { Authorization: 'Bearer bob' } }

const ISSUED: IssuedKeysPolicy = {
  scope: { kind: 'credential', anonymous: false, cookies: 'refuse' },
  jwt: null,
  secrets: [{ id: 'one', secret: 'a secret of thirty-two bytes, or more' }],
  lifetimeMs: HOUR_MS
}

interface Issuing extends Guarded { readonly issue: (options?: CallOptions) => Promise<Called> }

async function startIssuing (t: TestContext, options: GuardedOptions = {}): Promise<Issuing> {
  const world = await startGuarded(t, {
    issuedKeys: ISSUED,
    ...options,
    policy: { scope: ISSUED.scope, issued: ISSUED, retentionMs: 2 * HOUR_MS, ...options.policy }
  })
  return { ...world, issue: async (options = ALICE) => call(world.url, ISSUED_KEYS_PATH, options) }
}

test('answers that nobody reads end their connection, as those on a route do', async (t) => {
  let told = 0
  const asking = `POST ${ISSUED_KEYS_PATH} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer alice\r\nContent-Length: 0\r\n\r\n`.repeat(
    ASKED_AT_ONCE
  )
  const { url, held } = await startIssuing(t, {
    server: { clientIdleMs: 300 },
    requests: { note: () => { if (++told % ASKED_AT_ONCE === 0) socket.write(asking) } }
  })
  const socket = connect(Number(new URL(url).port), '127.0.0.1').on('error', () => {}).pause()
  t.after(() => { socket.destroy() })
  socket.write(asking)
  await eventually(() => told > ASKED_AT_ONCE, 'some are answered, and more are asked for')
  await eventually(() => held().connections === 0, 'its connection is ended', UNREAD_WITHIN_MS)
})

test('a key is asked for, used and replayed; it is nobody else\'s, and after its time nobody\'s', async (t) => {
  const clock = new ManualClock()
  const { issue, ask, witness } = await startIssuing(t, { world: { clock }, background: false })
  const issued = await issue()
  assert.equal(issued.status, 201)
  assert.equal(issued.headers['content-type'], 'application/json')
  assert.equal(issued.headers['cache-control'], 'no-store')
  assert.deepEqual(Object.keys(issued.json), ['key', 'expiresAt'])
  assert.equal(issued.json.expiresAt, new Date(clock.wallMs() + HOUR_MS).toISOString())
  assert.equal(witness.seen.length, 0, 'the upstream hears nothing of it')

  const first = await ask(issued.json.key, ALICE)
  assert.equal(first.headers['idempotency-status'], 'executed')
  assert.equal(witness.seen[0]?.headers['idempotency-key'], issued.json.key)
  const replay = await ask(`"${issued.json.key}"`, ALICE)
  assert.equal(replay.headers['idempotent-replayed'], 'true')
  assert.equal(replay.text, first.text)

  const anothers = await ask(issued.json.key, BOB)
  const forged = await ask('order-1', ALICE)
  for (const refused of [anothers, forged]) {
    assert.equal(refused.status, 400)
    assert.equal(refused.json.code, 'key-invalid')
    assert.match(refused.json.detail, /only keys that the gateway has issued to this caller/)
  }
  assert.equal(anothers.json.detail, forged.json.detail, 'that a key is somebody else\'s is not told')

  clock.stall(HOUR_MS)
  const expired = await ask(issued.json.key, ALICE)
  assert.equal(expired.status, 400)
  assert.equal(expired.json.code, 'key-invalid')
  assert.match(expired.json.detail, /has expired/)
  assert.equal((await ask(issued.json.key, BOB)).json.detail, forged.json.detail)
  assert.equal(witness.seen.length, 1)
})

test('a caller that cannot be told apart gets no key, with the same answer as on a route', async (t) => {
  const { issue, ask } = await startIssuing(t)
  const refused = await issue({})
  assert.equal(refused.status, 400)
  assert.equal(refused.json.code, 'scope-missing')
  assert.equal(refused.json.detail, (await ask('k')).json.detail)
})

test('while tokens cannot be verified there is no key: 503 with Retry-After', async (t) => {
  const scope = { kind: 'parts', parts: [{ kind: 'jwt', claim: 'sub' }] } as const
  const issuedKeys = { ...ISSUED, scope, jwt: { jwks: '/nowhere/keys.json', issuer: null, audience: null } }
  const { issue } = await startIssuing(t, { issuedKeys })
  const refused = await issue(bearing(unsigned({ alg: 'ES256' }, { sub: 'alice' })))
  assert.equal(refused.status, 503)
  assert.equal(refused.json.code, 'scope-unavailable')
  assert.equal(refused.headers['retry-after'], '1')
})

test('keys are good in the scope of verified claims, whatever the token that carries them', async (t) => {
  const scope = { kind: 'parts', parts: [{ kind: 'jwt', claim: 'sub' }] } as const
  const issued = { ...ISSUED, scope, jwt: { jwks: 'any', issuer: null, audience: null } }
  // The token is its own subject up to the dot.
  const tokens = { verify: async (_policy: unknown, token: string) => ({ kind: 'claims', claims: { sub: token.split('.')[0] } }) as const }
  const { issue, ask } = await startIssuing(t, { issuedKeys: issued, policy: { scope, jwt: issued.jwt, issued }, world: { tokens } })
  const token = (text: string): CallOptions => ({ headers: { Authorization: `Bearer ${text}` } })
  const { key } = (await issue(token('alice.1'))).json
  assert.equal((await ask(key, token('alice.2'))).headers['idempotency-status'], 'executed')
  assert.equal((await ask(key, token('bob.1'))).json.code, 'key-invalid')
})

test('any other method gets 405 and is told which one', async (t) => {
  const { issue, url, witness } = await startIssuing(t)
  for (const method of ['GET', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'HEAD']) {
    const refused = await issue({ ...ALICE, method })
    assert.equal(refused.status, 405, method)
    assert.equal(refused.headers['allow'], 'POST', method)
  }
  const webSocket = await callRaw(url, `GET ${ISSUED_KEYS_PATH} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`)
  assert.match(webSocket, /^HTTP\/1\.1 405 /)
  assert.equal(witness.seen.length, 0)
})

test('without issuedKeys the path is a path like any other, and so is another spelling of it', async (t) => {
  const without = await startGuarded(t)
  assert.equal((await call(without.url, ISSUED_KEYS_PATH, ALICE)).status, 201)
  assert.equal(without.witness.seen[0]?.target, ISSUED_KEYS_PATH)
  const { url, witness } = await startIssuing(t)
  for (const path of [`${ISSUED_KEYS_PATH}/`, `${ISSUED_KEYS_PATH}/more`, ISSUED_KEYS_PATH.toUpperCase()]) await call(url, path, ALICE)
  assert.equal(witness.seen.length, 3)
  assert.ok('key' in (await call(url, `${ISSUED_KEYS_PATH}?a=b`, ALICE)).json)
})

test('a body is read and forgotten, one that is too large gets 413, and a connection serves again after each answer that it can', async (t) => {
  const world = await startIssuing(t)
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.after(() => { agent.destroy() })
  for (const body of ['', '{"for":"anything"}', 'x'.repeat(16 * 1024)]) {
    assert.equal((await world.issue({ ...ALICE, body, agent })).status, 201)
  }
  assert.equal((await world.issue({ agent })).json.code, 'scope-missing')
  assert.equal(world.held().connections, 1)
  const refused = await world.issue({ ...ALICE, body: 'x'.repeat(16 * 1024 + 1), agent })
  assert.equal(refused.status, 413)
  assert.equal(refused.headers['connection'], 'close')
})

test('a body that does not come holds its connection no longer than any other', async (t) => {
  const clock = new ManualClock()
  const world = await startIssuing(t, { world: { clock }, background: false, server: { requestBodyMs: 10_000 } })
  const { deadlines } = world.gateway
  const answer = callRaw(
    world.url,
    `POST ${ISSUED_KEYS_PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer alice\r\nContent-Length: 5\r\n\r\n`
  )
  await eventually(() => deadlines.size === 1, 'the body is waited for')
  await clock.advance(10_000)
  assert.match(await answer, /^HTTP\/1\.1 408 [\s\S]*connection: close/i)
})

test('a client that leaves while its body is awaited leaves nothing behind', async (t) => {
  const clock = new ManualClock()
  const world = await startIssuing(t, { world: { clock }, background: false })
  const { deadlines, limits } = world.gateway
  const socket = connect({ host: '127.0.0.1', port: Number(new URL(world.url).port) })
  socket.write(`POST ${ISSUED_KEYS_PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer alice\r\nContent-Length: 5\r\n\r\nab`)
  await eventually(() => deadlines.size === 1, 'the body is waited for')
  socket.destroy()
  await once(socket, 'close')
  await eventually(() => deadlines.size === 0 && limits.buffered.held === 0, 'nothing is waited for any more')
  assert.equal((await world.issue()).status, 201)
})

test('a gateway that is draining gives out no keys', async (t) => {
  const world = await startIssuing(t)
  world.gateway.drain.advance('refusing')
  const refused = await world.issue()
  assert.equal(refused.status, 503)
  assert.equal(refused.json.code, 'draining')
  assert.equal(refused.headers['connection'], 'close')
})

test('what is issued is counted, and needs no store', async (t) => {
  const meter = countingMeter()
  const records = faulty(new MemoryStore({ nowMs: Date.now }))
  for (const operation of ['insert', 'look', 'take', 'settle'] as const) records.faults.set(operation, DOWN)
  const { issue } = await startIssuing(t, { world: { meter, records: records.store } })
  assert.equal((await issue()).status, 201)
  assert.equal(meter.counts.get('request'), 1)
})

test('a key that was issued counts for one record on each route: it is the caller\'s, not the route\'s', async (t) => {
  const { issue, url } = await startIssuing(t)
  const { key } = (await issue()).json
  const headers = { ...ALICE.headers, 'Idempotency-Key': key }
  assert.equal((await call(url, '/things', { headers, body: 'a' })).headers['idempotency-status'], 'executed')
  assert.equal((await call(url, '/others', { headers, body: 'a' })).json.code, 'key-reused')
})

test('a key that comes from anywhere but a header is issued by nobody, whatever the configuration let pass', async (t) => {
  const key = {
    sources: [{ kind: 'json', pointer: ['id'], written: '/id' }],
    header: 'idempotency-key',
    required: true,
    syntax: 'lenient',
    store: 'text',
    windowMs: 86_400_000
  } as const
  const { issue, url, witness } = await startIssuing(t, { policy: { key } })
  const issued = (await issue()).json.key
  assert.equal((await call(url, '/things', { ...ALICE, body: JSON.stringify({ id: issued }) })).json.code, 'key-invalid')
  assert.equal(witness.seen.length, 0)
})

test('without a key the route does what it does: issued says nothing about requests that carry none', async (t) => {
  const open = await startIssuing(t)
  assert.equal((await call(open.url, '/things', { ...ALICE, body: 'a' })).status, 201)
})
