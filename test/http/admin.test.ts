import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { createAdmin } from '../../src/http/admin.ts'
import type { AdminOptions, Readiness } from '../../src/http/admin.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'

const READY: Readiness = { phase: 'ready', degraded: [], blocked: null, durability: null }

async function adminWith (t: TestContext, readiness: () => Readiness, options: Partial<AdminOptions> = {}): Promise<string> {
  const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
  const admin = createAdmin({
    readiness,
    mode: 'lenient',
    hosts: ['ops.example'],
    metrics: createMetrics({ processMetrics: false }),
    log: silent,
    ...options
  })
  t.after(async () => { await admin.close() })
  return admin.listen({ host: '127.0.0.1', port: 0 })
}

async function ask (url: string, init?: RequestInit): Promise<{ status: number, body: unknown }> {
  const answer = await fetch(url, init)
  const text = await answer.text()
  return { status: answer.status, body: text === '' ? '' : JSON.parse(text) as unknown }
}

test('it is alive whatever its stores do, and asks nobody', async (t) => {
  const url = await adminWith(t, () => { throw new Error('asked') })
  assert.deepEqual(await ask(`${url}/livez`), { status: 200, body: { status: 'alive' } })
})

test('it is not ready while starting, draining, or with a schema that cannot be served', async (t) => {
  let now = READY
  const url = await adminWith(t, () => now)
  const says = async (readiness: Readiness) => {
    now = readiness
    return ask(`${url}/readyz`)
  }
  assert.deepEqual(await says(READY), { status: 200, body: { status: 'ready', degraded: [] } })
  assert.deepEqual(await says({ ...READY, phase: 'starting' }), { status: 503, body: { status: 'starting', degraded: [] } })
  assert.deepEqual(await says({ ...READY, phase: 'draining', degraded: ['redis'] }), {
    status: 503,
    body: { status: 'draining', degraded: ['redis'] }
  })
  assert.deepEqual(await says({ ...READY, phase: 'starting', blocked: 'The schema is newer.' }), {
    status: 503,
    body: { status: 'blocked', degraded: [], reason: 'The schema is newer.' }
  })
})

test('which promise holds stands beside the status, once it is known', async (t) => {
  const standing = { promise: 'weakened' as const, reasons: ['fsync-off' as const], remarks: ['redis-evicts' as const] }
  const url = await adminWith(t, () => ({ ...READY, durability: standing }))
  assert.deepEqual(await ask(`${url}/readyz`), { status: 200, body: { status: 'ready', degraded: [], ...standing } })
})

test('a lost store is 200 with its name, or 503 where readiness is strict', async (t) => {
  const lost = () => ({ ...READY, degraded: ['postgres'] })
  const body = { status: 'degraded', degraded: ['postgres'] }
  assert.deepEqual(await ask(`${await adminWith(t, lost)}/readyz`), { status: 200, body })
  assert.deepEqual(await ask(`${await adminWith(t, lost, { mode: 'strict' })}/readyz`), { status: 503, body })
})

test('metrics are given in the format of Prometheus', async (t) => {
  const answer = await fetch(`${await adminWith(t, () => READY)}/metrics`)
  assert.match(answer.headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/)
  assert.match(await answer.text(), /^onceway_executions 0$/m)
})

test('what there is not is 404, another method 405, both as JSON', async (t) => {
  const url = await adminWith(t, () => READY)
  assert.deepEqual(await ask(`${url}/`), { status: 404, body: { error: 'not found' } })
  assert.deepEqual(await ask(`${url}/readyz?x=1`, { method: 'POST', body: 'x' }), { status: 405, body: { error: 'method not allowed' } })
  assert.deepEqual(await ask(`${url}/%ff`), { status: 400, body: { error: 'bad request' } })
  assert.equal((await fetch(`${url}/livez`, { method: 'HEAD' })).status, 200)
})

test('a failure says nothing of its reason', async (t) => {
  const url = await adminWith(t, () => READY, { metrics: { expose: () => Promise.reject(new Error('hunter2')) } })
  assert.deepEqual(await ask(`${url}/metrics`), { status: 500, body: { error: 'internal error' } })
})

test('closing does not wait for idle connections', async () => {
  const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
  const admin = createAdmin({
    readiness: () => READY,
    mode: 'lenient',
    hosts: ['ops.example'],
    metrics: createMetrics({ processMetrics: false }),
    log: silent
  })
  const { port } = new URL(await admin.listen({ host: '127.0.0.1', port: 0 }))
  const socket = connect(Number(port), '127.0.0.1')
  const closed = new Promise((resolve) => { socket.once('close', resolve) })
  await new Promise((resolve) => { socket.once('connect', resolve) })
  await admin.close()
  await closed
})

/** The answer's status line to a GET with this Host line. */
async function statusFor (url: string, path: string, host: string): Promise<string> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.end(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
  let text = ''
  for await (const chunk of socket) text += String(chunk)
  return /^HTTP\/1\.1 ([0-9]{3})/.exec(text)?.[1] ?? text
}

test('a name that is not its own gets 421, so that no page can have a browser ask it; probes and metrics are asked by any', async (t) => {
  const url = await adminWith(t, () => READY)
  for (const host of [
    'evil.example', 'evil.example:8081', 'xops.example', '', 'localhost.evil.example', '127.0.0.1.evil.example',
    '[::1].evil.example', '[::1]evil', 'evil.example@localhost', 'localhost/evil', '127.0.0.1:evil.example',
    '127.0.0.1\r\nHost: evil.example'
  ]) {
    assert.equal(await statusFor(url, '/anything', host), '421', host)
    for (const path of ['/livez', '/readyz?a', '/metrics']) assert.equal(await statusFor(url, path, host), '200', `${path} ${host}`)
  }
  for (const host of [
    '127.0.0.1', '127.0.0.1:8081', '10.1.2.3:9', '[::1]:8081', 'localhost', 'LOCALHOST:1', 'ops.example',
    'Ops.Example.:8081'
  ]) {
    assert.equal(await statusFor(url, '/anything', host), '404', host)
  }
})
