/** A real process at its limits: a loop that stalls, and more connections than it may have. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import { call } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { startWitness } from '../harness/witness.ts'
import { fileOf, startReloadable } from './reload-world.ts'

/** Long enough for a test that is late itself to write a request meanwhile; the limit is a tenth of it. */
const STALL_MS = 2_000
/** Said on stdout as it begins: what is written then is there when it ends. */
const STALLS = `data:text/javascript,import { writeSync } from 'node:fs'
process.on('SIGUSR2', () => {
  writeSync(1, 'stalled\\n')
  for (const endsAt = performance.now() + ${STALL_MS}; performance.now() < endsAt;);
})`
const RECOVERED_WITHIN_MS = 10_000

async function opened (url: string): Promise<Socket> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.on('error', () => {})
  await once(socket, 'connect')
  return socket
}

async function answerOf (socket: Socket): Promise<string> {
  return Buffer.concat(await socket.toArray()).toString()
}

async function shedOf (adminUrl: string, limit: string): Promise<number> {
  const { text } = await call(adminUrl, '/metrics', { method: 'GET' })
  return Number(new RegExp(`^onceway_shed_total\\{limit="${limit}",by="full"\\} (\\d+)$`, 'm').exec(text)?.[1] ?? 0)
}

test('what has come in behind a stall gets 503 overloaded and is not sent; the limit is the one of the last reload', async (t) => {
  const witness = await startWitness()
  t.after(() => witness.close())
  const file = (delay: string): string => fileOf({ upstream: witness.url, more: `limits: { eventLoopDelay: ${delay} }` })
  const gateway = await startReloadable(t, file('0s'), [], { NODE_OPTIONS: `--import=${encodeURI(STALLS)}` })
  const stalls = (): number => gateway.output().split('\nstalled').length - 1
  const behindStall = async (head: string, count: number): Promise<string> => {
    const socket = await opened(gateway.url)
    gateway.signal('SIGUSR2')
    await eventually(() => stalls() === count, 'it stalls', RECOVERED_WITHIN_MS)
    socket.write(`${head}\r\nHost: gateway\r\nConnection: close\r\n\r\n`)
    return answerOf(socket)
  }
  assert.match(await behindStall('GET /things HTTP/1.1', 1), /^HTTP\/1\.1 201 /, 'it is switched off')
  await gateway.reload(file(`${STALL_MS / 10}ms`))
  const guarded = await behindStall('POST /things HTTP/1.1\r\nContent-Length: 0\r\nIdempotency-Key: k', 2)
  assert.match(guarded, /^HTTP\/1\.1 503 [^]*retry-after: 1\r\n[^]*"code":"overloaded"/i)
  assert.match(await behindStall('GET /things HTTP/1.1', 3), /^HTTP\/1\.1 503 [^]*"code":"overloaded"/)
  assert.equal(witness.seen.length, 1)
  assert.equal(await shedOf(gateway.adminUrl, 'eventLoopDelay'), 2)
  const { count, delayMsMax } = await gateway.logged(({ limit }) => limit === 'eventLoopDelay')
  assert.deepEqual([count, delayMsMax], [1, STALL_MS / 10])
  await eventually(
    async () => (await call(gateway.url, '/things', { headers: { 'Idempotency-Key': 'k' } })).headers['idempotency-status'] === 'executed',
    'it is served, and has not been executed before',
    RECOVERED_WITHIN_MS
  )
})

test('connections beyond limits.connections are closed and counted; the limit is the one of the last reload, and the admin port has none', async (t) => {
  const witness = await startWitness()
  t.after(() => witness.close())
  const file = (connections: number): string => fileOf({ upstream: witness.url, more: `limits: { connections: ${connections} }` })
  const gateway = await startReloadable(t, file(1))
  const held = await opened(gateway.url)
  await once((await opened(gateway.url)).resume(), 'close')
  await eventually(async () => await shedOf(gateway.adminUrl, 'connections') === 1, 'counted')
  await gateway.logged(({ limit, connectionsMax }) => limit === 'connections' && connectionsMax === 1)
  // Of which one peer alone may have three.
  await gateway.reload(file(4))
  assert.equal((await call(gateway.url, '/things', { method: 'GET' })).status, 201)
  held.write('GET /things HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n')
  assert.match(await answerOf(held), /^HTTP\/1\.1 201 /, 'the one that was there is served')
})
