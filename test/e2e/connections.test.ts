/**
 * Connections that only hold on: none of them claims, executes or waits, each of them ends within its time, and guarded
 * requests are answered all the while. The times are the product's own, so this takes a minute.
 */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { call } from '../harness/call.ts'
import type { Called } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { startProcess } from '../harness/process-gateway.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { startWitness } from '../harness/witness.ts'
import type { Behaviour, Witness } from '../harness/witness.ts'
import { metricsOf, totalOf } from './metrics.ts'
import { needsOpenFiles } from './open-files.ts'
import { idle, silent, slowBody, slowHead, slowSecondHead, stalledReader } from './slow-clients.ts'
import type { Held } from './slow-clients.ts'

const MIB = 1024 * 1024
const IDLE_CONNECTIONS = 10_000
/** Beside the connections: the store, the log, the listeners, the upstream. */
const OTHER_FILES = 200
/** Opened at once; well below the backlog of a listener. */
const OPENED_AT_ONCE = 200
/** Of each kind of slow client. */
const SLOW_CLIENTS = 50
/** More than the sockets of both sides take without anybody reading. */
const KEPT_BYTES = 16 * MIB
const STREAMED_BYTES = 24 * MIB
/** Heads have 30 s, bodies and stalled readers a minute, Node looks every 30 s; and the machine is busy. */
const ENDED_WITHIN_MS = 150_000
const SOCKETS_GONE_WITHIN_MS = 30_000
const ASK_EVERY_MS = 500

describe('connections that only hold on', { concurrency: 2 }, () => {
  test('slow heads, slow bodies and readers that stop are ended in time, claim nothing, and hold nobody up', {
    timeout: 2 * ENDED_WITHIN_MS
  }, async (t) => {
    const { gateway, witness, ask } = await startWorld(t)
    const sockets = await socketsOf(gateway)
    const held = await Promise.all([
      ...many('silent', async () => silent(gateway.url)),
      ...many('head', async (key) => slowHead(gateway.url, key)),
      ...many('second-head', async (key) => slowSecondHead(gateway.url, key)),
      ...many('body', async (key) => slowBody(gateway.url, key))
    ])
    const readers = [await stalledReader(gateway.url, 'kept', KEPT_BYTES), await stalledReader(gateway.url, 'streamed', STREAMED_BYTES)]
    const answers = inTime(Promise.all(held.map(async ({ ended }) => ended)), 'every slow client is refused')
    const asked = await askWhile(ask, answers)
    await eachRefused(await answers)
    await socketsBack(gateway, sockets, ENDED_WITHIN_MS)
    await readersAreCut(readers)
    await assertNothingHeld(gateway)
    assert.equal(witness.seen.length, asked + readers.length, 'the upstream saw the guarded requests and the two large ones, once each')
    await slowKeysAreFree(ask)
    await largeAnswersAreSettled(ask)
  })

  test('ten thousand idle connections are held at once, guarded requests are answered beside them, and nothing is left when they close', needsOpenFiles(
    IDLE_CONNECTIONS + OTHER_FILES
  ), async (t) => {
    const { gateway, witness, ask } = await startWorld(t)
    await firstAndReplay(ask, 'before')
    const before = await metricsOf(gateway.adminUrl)
    const sockets = await socketsOf(gateway)
    const idlers = await openIdle(gateway.url)
    const during = await metricsOf(gateway.adminUrl)
    const perConnection = (totalOf(during, 'process_resident_memory_bytes') -
      totalOf(before, 'process_resident_memory_bytes')) / IDLE_CONNECTIONS
    t.diagnostic(
      `${IDLE_CONNECTIONS} idle connections: ${Math.round(perConnection)} bytes of resident memory each, answered requests included`
    )
    assert.ok(await socketsOf(gateway) >= sockets + IDLE_CONNECTIONS, 'all of them are open in the gateway')
    for (let turn = 0; turn < SLOW_CLIENTS; turn++) await firstAndReplay(ask, `beside-${turn}`)
    assert.ok(idlers.every(({ socket }) => !socket.closed), 'none of them was closed for it')
    for (const { socket } of idlers) socket.destroy()
    await socketsBack(gateway, sockets, SOCKETS_GONE_WITHIN_MS)
    await assertNothingHeld(gateway)
    assert.equal(witness.seen.length, 1 + SLOW_CLIENTS)
  })
})

type AskKey = (key: string) => Promise<Called>

interface World { readonly gateway: ProcessGateway, readonly witness: Witness, readonly ask: AskKey }

async function startWorld (t: TestContext): Promise<World> {
  const witness = await startWitness(sized)
  t.after(() => witness.close())
  const gateway = await startProcess(t, { config: configOf(witness.url) })
  return {
    gateway,
    witness,
    ask: async (key) => call(gateway.url, '/things', { headers: { 'Idempotency-Key': key, Connection: 'close' } })
  }
}

/** As many bytes as the request says, and the number of the execution in front. */
const sized: Behaviour = (seen, response, _socket, count) => {
  response.writeHead(201, { 'Content-Type': 'text/plain' })
  response.end(`execution ${count}`.padEnd(Number(seen.headers['x-bytes'] ?? 0), '.'))
}

/** Nothing below `/nowhere`: answered by the gateway alone. */
const configOf = (upstream: string): string => `
version: 1
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
drain: { delay: 0s, timeout: 5s }
upstreams: { witness: { url: "${upstream}", timeout: 20s } }
routes:
  - name: things
    match: { path: "/things" }
    upstream: witness
    idempotency: { scope: public, keep: { responseBytesMax: ${(KEPT_BYTES + MIB) / MIB}MiB } }
`

function many (name: string, open: (key: string) => Promise<Held>): Array<Promise<Held>> {
  return Array.from({ length: SLOW_CLIENTS }, async (_, index) => open(`${name}-${index}`))
}

async function openIdle (url: string): Promise<Held[]> {
  const idlers: Held[] = []
  while (idlers.length < IDLE_CONNECTIONS) idlers.push(...await Promise.all(Array.from({ length: OPENED_AT_ONCE }, async () => idle(url))))
  return idlers
}

/** Asks new keys and their replays until it is over; says how many. */
async function askWhile (ask: AskKey, over: Promise<unknown>): Promise<number> {
  const state = { over: false }
  const settled = over.finally(() => { state.over = true })
  let asked = 0
  while (!state.over) {
    await firstAndReplay(ask, `beside-${asked++}`)
    await new Promise((resolve) => { setTimeout(resolve, ASK_EVERY_MS) })
  }
  await settled
  return asked
}

async function firstAndReplay (ask: AskKey, key: string): Promise<void> {
  const first = await ask(key)
  assert.equal(first.status, 201)
  assert.equal(first.headers['idempotency-status'], 'executed')
  const replay = await ask(key)
  assert.equal(replay.headers['idempotent-replayed'], 'true')
  assert.deepEqual(replay.body, first.body)
}

async function inTime<T> (promise: Promise<T>, what: string): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => { reject(new Error(`never came true in ${ENDED_WITHIN_MS} ms: ${what}`)) }, ENDED_WITHIN_MS)
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

/** 408 in the gateway's own shape and a closed connection; what came before it on the connection stays. */
async function eachRefused (answers: readonly string[]): Promise<void> {
  for (const [index, text] of answers.entries()) {
    assert.match(text, /HTTP\/1\.1 408 [\s\S]*"code":"request-timeout"/, `slow client ${index} was told: ${text || 'nothing'}`)
    assert.match(text, /\r\nConnection: close\r\n/i)
  }
}

/** What they had not read when they were cut never comes. */
async function readersAreCut (readers: readonly Held[]): Promise<void> {
  for (const { socket } of readers) {
    let read = 0
    socket.on('data', (chunk: Buffer) => { read += chunk.length })
    socket.resume()
    await eventually(() => socket.closed, 'the connection is closed')
    assert.ok(read < KEPT_BYTES, `${read} bytes were still to be read`)
  }
}

async function assertNothingHeld (gateway: ProcessGateway): Promise<void> {
  const metrics = await metricsOf(gateway.adminUrl)
  assert.equal(totalOf(metrics, 'onceway_executions'), 0)
  assert.equal(totalOf(metrics, 'onceway_waiters'), 0)
}

/** A key that a slow client had named was never claimed: its first request is a first request. */
async function slowKeysAreFree (ask: AskKey): Promise<void> {
  for (const name of ['head', 'second-head', 'body']) await firstAndReplay(ask, `${name}-0`)
}

/** The executions of readers that stopped did not wait for them (E1, E5). */
async function largeAnswersAreSettled (ask: AskKey): Promise<void> {
  const kept = await ask('kept')
  assert.equal(kept.headers['idempotent-replayed'], 'true')
  assert.equal(kept.body.length, KEPT_BYTES)
  const streamed = await ask('streamed')
  assert.equal(streamed.json.code, 'answer-not-kept')
}

/** The probe's own connection is one of them, before and after. */
async function socketsOf (gateway: ProcessGateway): Promise<number> {
  return totalOf(await metricsOf(gateway.adminUrl), 'nodejs_active_resources{type="TCPSocketWrap"}')
}

async function socketsBack (gateway: ProcessGateway, sockets: number, withinMs: number): Promise<void> {
  let last = 0
  await eventually(
    async () => (last = await socketsOf(gateway)) <= sockets,
    () => `${last} sockets are open where there were ${sockets}`,
    withinMs
  )
}
