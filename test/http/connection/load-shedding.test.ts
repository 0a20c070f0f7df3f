/** Overload: what an event loop that lags turns away, what it does not, and the number of connections. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { PeerTrust } from '../../../src/http/shared/peer.ts'
import type { ServerLimits } from '../../../src/http/shared/options.ts'
import { createServer } from '../../../src/http/server.ts'
import { compileRoutes } from '../../../src/routing/match.ts'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { UndiciPassThrough } from '../../../src/upstream/passer.ts'
import { call } from '../../harness/call.ts'
import type { Called } from '../../harness/call.ts'
import { eventually } from '../../harness/eventually.ts'
import { faulty } from '../../harness/faulty-store.ts'
import type { FaultyStore } from '../../harness/faulty-store.ts'
import { countingMeter, guardedRoute, recordingLog, SERVER_LIMITS, startGateway } from '../../harness/gateway.ts'
import type { TestGateway } from '../../harness/gateway.ts'
import { slow } from '../../harness/slow.ts'
import { startWitness } from '../../harness/witness.ts'
import type { Behaviour, Witness } from '../../harness/witness.ts'

/** A turn of the stalled loop takes this long: far more than the limit. */
const TURN_MS = 400
const LIMITS: ServerLimits = { ...SERVER_LIMITS, connections: 1_000, eventLoopDelayMs: 200 }
const OFF: ServerLimits = { ...LIMITS, eventLoopDelayMs: 0 }
/** A busy machine makes the loop late by itself: by more than the limit above, and hardly by this. */
const ROOMY: ServerLimits = { ...LIMITS, eventLoopDelayMs: 2_000 }
/** Each takes a turn of the stalled loop or two. */
const TRIES_MAX = 10
/** It takes a twentieth of a second; a busy machine may be late by itself. */
const RECOVERED_WITHIN_MS = 10_000

interface Pressed {
  readonly witness: Witness
  readonly records: FaultyStore
  readonly gateway: TestGateway
  readonly meter: ReturnType<typeof countingMeter>
  readonly log: ReturnType<typeof recordingLog>
  /** A reload may change them. */
  limits: ServerLimits
  readonly url: string
  readonly ask: (key: string) => Promise<Called>
  readonly read: () => Promise<Called>
  readonly dropped: () => number
}

/** The usual world, and before the same gateway a listener that has limits. */
async function startPressed (t: TestContext, limits = LIMITS, answer?: Behaviour, beforeListening = () => {}): Promise<Pressed> {
  const witness = await startWitness(answer)
  const [records, meter, log] = [faulty(new MemoryStore({ nowMs: Date.now })), countingMeter(), recordingLog()]
  const guarded = guardedRoute(witness.url)
  const routes = [guarded, { ...guarded, name: 'rest', match: { path: '/*', methods: [], host: null, exact: false }, idempotency: null }]
  const gateway = await startGateway(t, { routes, world: { records: records.store, meter, log } })
  const pressed = { limits }
  const passing = new UndiciPassThrough([guarded.upstream])
  const { server, cut } = createServer({
    gateway: gateway.gateway,
    passing,
    routes: compileRoutes(routes),
    problemBaseUri: 'urn:onceway:problem:',
    peers: new PeerTrust([]),
    log,
    meter,
    requests: { note: () => {} },
    closing: () => false,
    get limits () { return pressed.limits }
  })
  beforeListening()
  await server.listen({ host: '127.0.0.1', port: 0 })
  t.after(async () => {
    cut()
    await server.close()
    await passing.close()
    await gateway.close()
    await witness.close()
  })
  const url = `http://127.0.0.1:${(server.server.address() as AddressInfo).port}`
  return Object.assign(pressed, {
    witness,
    records,
    gateway,
    meter,
    log,
    url,
    ask: async (key: string) => call(url, '/things', { headers: { 'Idempotency-Key': key }, body: 'same' }),
    read: async () => call(url, '/things', { method: 'GET' }),
    dropped: () => meter.counts.get('shed') ?? 0
  })
}

/** Every turn of the loop is a long one, until what is returned is called. */
function stall (): () => void {
  let stalled = true
  const turn = (): void => {
    if (!stalled) return
    block()
    setTimeout(turn, 0)
  }
  turn()
  return () => { stalled = false }
}

function block (ms = TURN_MS): void {
  for (const endsAt = performance.now() + ms; performance.now() < endsAt;);
}

function assertShed (answer: Called): void {
  assert.deepEqual(
    [answer.status, answer.json.code, answer.headers['retry-after'], answer.headers['content-type']],
    [503, 'overloaded', '1', 'application/problem+json']
  )
  assert.equal(answer.headers['idempotency-status'], undefined)
  assert.equal(answer.headers['x-request-id'], answer.json.instance)
}

test('what a process did before it listens delays nobody: its first request is served', async (t) => {
  const { ask, dropped } = await startPressed(t, ROOMY, undefined, () => { block(ROOMY.eventLoopDelayMs + TURN_MS) })
  assert.equal((await ask('first')).status, 201)
  assert.equal(dropped(), 0)
})

test('while the event loop stalls, guarded and other requests get 503 overloaded, nothing is claimed and nothing sent', async (t) => {
  const { ask, read, records, witness, meter, log } = await startPressed(t)
  const recover = stall()
  const answers = await Promise.all([ask('k'), ask('l'), read()])
  recover()
  answers.forEach(assertShed)
  assert.deepEqual([records.calls('insert'), witness.seen.length], [0, 0])
  assert.equal(meter.counts.get('shed'), 3)
  const lines = log.lines.filter(({ limit }) => limit === 'eventLoopDelay')
  assert.equal(lines.length, 1, 'one line for all of them')
  assert.deepEqual([lines[0]?.level, lines[0]?.['delayMsMax']], ['warn', LIMITS.eventLoopDelayMs])
  await eventually(async () => (await ask('k')).status === 201, 'served again', RECOVERED_WITHIN_MS)
  await eventually(async () => (await read()).status === 201, 'and the others', RECOVERED_WITHIN_MS)
  assert.equal(witness.seen.filter(({ method }) => method === 'POST').length, 1)
})

test('what was claimed before the stall ends in the middle of it: settled, answered, replayed afterwards', async (t) => {
  const { answer, open } = slow()
  // The limit comes after the claim: a loop that is late by itself would shed the request that has to be in flight.
  const world = await startPressed(t, OFF, answer)
  const { ask, records, witness, dropped } = world
  const running = ask('k')
  await witness.reached(1)
  world.limits = LIMITS
  const recover = stall()
  assertShed(await ask('k'))
  assertShed(await ask('l'))
  open()
  const first = await running
  recover()
  assert.deepEqual([first.status, first.headers['idempotency-status']], [201, 'executed'])
  assert.equal(first.headers['idempotency-stored'], undefined)
  assert.deepEqual([records.calls('insert'), records.calls('settle'), dropped()], [1, 1, 2])
  let replay = await ask('k')
  await eventually(async () => (replay = await ask('k')).status !== 503, 'served again', RECOVERED_WITHIN_MS)
  assert.deepEqual([replay.headers['idempotent-replayed'], replay.text], ['true', first.text])
  assert.equal(witness.seen.length, 1)
})

async function opened (url: string, localAddress = '127.0.0.1'): Promise<Socket> {
  const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', localAddress })
  socket.on('error', () => {})
  await once(socket, 'connect')
  return socket
}

/** Its bytes are with the gateway's socket before the loop turns again. */
async function written (url: string): Promise<Socket> {
  const socket = await opened(url)
  socket.write('POST /things HTTP/1.1\r\nHost: gateway\r\nIdempotency-Key: k\r\nContent-Length: 4\r\nConnection: close\r\n\r\nsame')
  return socket
}

async function statusOf (socket: Socket): Promise<number> {
  const answer = Buffer.concat(await socket.toArray()).toString()
  return Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1])
}

test('one long pause sheds what has piled up behind it, and then no more', async (t) => {
  const { url, ask, records, dropped } = await startPressed(t)
  const socket = await written(url)
  block()
  assert.equal(await statusOf(socket), 503)
  assert.deepEqual([dropped(), records.calls('insert')], [1, 0])
  await eventually(async () => (await ask('k')).status === 201, 'served', RECOVERED_WITHIN_MS)
})

test('a pause within the limit, as a garbage collection makes it, sheds nothing', async (t) => {
  const { url, dropped } = await startPressed(t, { ...LIMITS, eventLoopDelayMs: 10_000 })
  const socket = await written(url)
  block()
  assert.equal(await statusOf(socket), 201)
  assert.equal(dropped(), 0)
})

test('a limit of 0 sheds nothing, and one that a reload sets counts when the loop is asked next', async (t) => {
  const world = await startPressed(t, OFF)
  const recover = stall()
  const served = await world.ask('k')
  world.limits = LIMITS
  // A request may still come in between: the loop is asked twenty times a second how late it is.
  let shed = await world.ask('l')
  for (let tries = 0; shed.status !== 503 && tries < TRIES_MAX; tries++) shed = await world.ask(`l-${tries}`)
  recover()
  assert.equal(served.status, 201)
  assertShed(shed)
})

test('connections beyond their limit are closed, counted and logged; those within it are served', async (t) => {
  const { url, dropped, log } = await startPressed(t, { ...OFF, connections: 2 })
  const kept = [await opened(url), await opened(url)]
  const beyond = await opened(url)
  await once(beyond.resume(), 'close')
  assert.equal(dropped(), 1)
  assert.ok(log.lines.some(({ limit, connectionsMax }) => limit === 'connections' && connectionsMax === 2))
  const [first] = kept as [Socket]
  first.write('GET /things HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n')
  const [head] = await once(first, 'data') as [Buffer]
  assert.match(head.toString(), /^HTTP\/1\.1 201 /)
  first.destroy()
  await eventually(async () => call(url, '/things', { method: 'GET' }).then(
    ({ status }) => status === 201,
    () => false
  ), 'there is room again')
  for (const socket of kept) socket.destroy()
})

/** A connection that was refused is closed without a word. */
async function isServed (socket: Socket): Promise<boolean> {
  socket.write('GET /things HTTP/1.1\r\nHost: gateway\r\n\r\n')
  return new Promise((resolve) => {
    socket.once('data', (chunk) => { resolve(chunk.toString().startsWith('HTTP/1.1 201 ')) })
    socket.once('close', () => { resolve(false) })
  })
}

test('one address gets its share of the connections and no more, and another one still gets one', async (t) => {
  const { url, dropped, log } = await startPressed(t, { ...OFF, connections: 10, share: 0.5 })
  const greedy: Socket[] = []
  const served = async (address: string): Promise<boolean> => {
    const socket = await opened(url, address)
    t.after(() => { socket.destroy() })
    const is = await isServed(socket)
    if (is && address === '127.0.0.1') greedy.push(socket)
    return is
  }
  for (let count = 0; count < 10; count++) await served('127.0.0.1')
  assert.equal(greedy.length, 5)
  assert.equal(dropped(), 5)
  assert.deepEqual(log.lines.filter(({ limit }) => limit === 'connections').map(({ by }) => by), ['peer'])
  assert.equal(await served('127.0.0.2'), true)
  // What it lets go of is its own again.
  for (const socket of greedy.splice(0)) socket.destroy()
  await eventually(async () => {
    await served('127.0.0.1')
    return greedy.length === 4
  }, 'it gets as many again as the other one leaves it')
})

test('a reload changes how large a share is', async (t) => {
  const pressed = await startPressed(t, { ...OFF, connections: 10, share: 0.2 })
  const isTaken = async (): Promise<boolean> => {
    const socket = await opened(pressed.url)
    t.after(() => { socket.destroy() })
    return isServed(socket)
  }
  assert.deepEqual([await isTaken(), await isTaken(), await isTaken()], [true, true, false])
  pressed.limits = { ...pressed.limits, share: 0.5 }
  assert.equal(await isTaken(), true)
})
