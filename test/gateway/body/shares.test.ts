/** Shares: one caller, or one address, cannot take a whole limit from the others (docs/concepts/threat-model.md). */
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import { call } from '../../harness/call.ts'
import type { Called } from '../../harness/call.ts'
import { eventually } from '../../harness/eventually.ts'
import { apiPolicy, countingMeter, guardedRoute, startGateway, startGuarded } from '../../harness/gateway.ts'
import { ManualClock } from '../../harness/manual-clock.ts'
import { slow } from '../../harness/slow.ts'
import { startWitness } from '../../harness/witness.ts'

const LIMITS = {
  share: 0.5,
  executions: 100,
  waiters: 100,
  inFlightPerScope: 0,
  bufferedBytes: 1024 * 1024,
  unsettledBytes: 1024 * 1024,
  recentBytes: 1024 * 1024
}
const as = (who: string) => ({ headers: { Authorization: `Bearer ${who}` } })
/** The test process is every client. A trusted proxy header names them. */
const from = (address: string) => ({ headers: { 'X-Forwarded-For': address } })
const TRUSTED = ['127.0.0.1']

async function refusalOf (answer: Promise<Called>): Promise<string> {
  const { status, json, headers } = await answer
  assert.ok(Number(headers['retry-after']) >= 1)
  return `${status} ${json.code}`
}

test('one caller has half of the executions alone, gets 429 beyond, and another one is served at once', async (t) => {
  const { answer, open } = slow()
  const meter = countingMeter()
  const { ask, witness, gateway } = await startGuarded(t, {
    answer,
    trustProxies: TRUSTED,
    world: { meter, limits: { ...LIMITS, executions: 10 } }
  })
  const held = Array.from({ length: 5 }, async (_, number) => ask(`held-${number}`, as('alice')))
  await witness.reached(5)
  assert.equal(await refusalOf(ask('more', as('alice'))), '429 too-many-in-flight')
  assert.equal(meter.counts.get('shed'), 1)
  const other = ask('other', as('bob'))
  await witness.reached(6)
  open()
  assert.deepEqual((await Promise.all([...held, other])).map(({ status }) => status), Array.from({ length: 6 }, () => 201))
  await eventually(() => gateway.limits.executing.held === 0 && gateway.limits.executing.holders === 0, 'nothing is counted any more')
  assert.equal((await ask('more', as('alice'))).status, 201)
})

test('one address has half of them whatever it calls itself; a trusted proxy has no share, its clients have', async (t) => {
  const { answer, open } = slow()
  const { ask, witness } = await startGuarded(t, { answer, trustProxies: TRUSTED, world: { limits: { ...LIMITS, executions: 10 } } })
  const both = (who: string, address: string) => ({ headers: { ...as(who).headers, ...from(address).headers } })
  const held = Array.from({ length: 5 }, async (_, number) => ask(`held-${number}`, both(`name-${number}`, '192.0.2.1')))
  await witness.reached(5)
  assert.equal(await refusalOf(ask('more', both('another', '192.0.2.1'))), '429 too-many-in-flight')
  const other = ask('other', both('another', '192.0.2.2'))
  await witness.reached(6)
  open()
  for (const { status } of await Promise.all([...held, other])) assert.equal(status, 201)
})

test('who has a share of the waiters gets the in-flight answer at once, and another one waits', async (t) => {
  const { answer, open } = slow()
  const { ask, witness, gateway } = await startGuarded(t, {
    answer,
    policy: { inFlight: { waitMs: 5_000, status: 409 } },
    trustProxies: TRUSTED,
    world: { limits: { ...LIMITS, waiters: 4 } }
  })
  const firsts = ['alice', 'bob'].map(async (who) => ask('k', as(who)))
  await witness.reached(2)
  const waiting = Array.from({ length: 2 }, async () => ask('k', as('alice')))
  await eventually(() => gateway.limits.waiting.held === 2, 'alice has her share')
  assert.equal((await ask('k', as('alice'))).json.code, 'in-flight')
  waiting.push(ask('k', as('bob')))
  await eventually(() => gateway.limits.waiting.held === 3, 'bob waits')
  open()
  for (const { status } of await Promise.all([...firsts, ...waiting])) assert.equal(status, 201)
})

/** A guarded upload that stops before its end. */
function stopped (url: string, { headers }: { readonly headers: Readonly<Record<string, string>> }, bytes: number): Socket {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.on('error', () => {})
  socket.write(`POST /things HTTP/1.1\r\nHost: gateway\r\nIdempotency-Key: stopped\r\n${Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`).join('')}Content-Length: ${bytes + 1}\r\n\r\n${'x'.repeat(bytes)}`)
  return socket
}

test('uploads that stop hold a share of the buffers, and others\' requests are read', async (t) => {
  const { url, ask, gateway } = await startGuarded(t, {
    trustProxies: TRUSTED,
    policy: { keep: { ...apiPolicy().keep, requestBytesMax: 20_000 } },
    world: { limits: { ...LIMITS, bufferedBytes: 80_000 } }
  })
  const uploads = Array.from({ length: 8 }, () => stopped(url, from('192.0.2.1'), 10_000))
  await eventually(() => gateway.limits.buffered.held === 30_000, () => `its share is held, not ${gateway.limits.buffered.held}`)
  assert.equal((await ask('k', { ...from('192.0.2.2'), body: 'x'.repeat(10_000) })).status, 201)
  assert.equal(await refusalOf(ask('l', { ...from('192.0.2.1'), body: 'x'.repeat(10_000) })), '429 too-many-in-flight')
  for (const socket of uploads) socket.destroy()
  await eventually(() => gateway.limits.buffered.held === 0, 'they have gone')
})

// Its share of the total was all that requests may take: other callers had none.
test('by default, too, others have room for more than a little beside uploads that stop', async (t) => {
  const { url, ask, gateway } = await startGuarded(t, {
    trustProxies: TRUSTED,
    policy: { keep: { ...apiPolicy().keep, requestBytesMax: 200_000 } },
    world: { limits: { ...LIMITS, share: 0.75, bufferedBytes: 800_000 } }
  })
  const uploads = Array.from({ length: 100 }, () => stopped(url, from('192.0.2.1'), 10_000))
  await eventually(() => gateway.limits.buffered.held === 450_000, () => `its share is held, not ${gateway.limits.buffered.held}`)
  assert.equal((await ask('k', { ...from('192.0.2.2'), body: 'x'.repeat(60_000) })).status, 201)
  for (const socket of uploads) socket.destroy()
})

test('a body that no share would ever hold is read while nobody is in its way, and it is one', async (t) => {
  // A share is half of the 75,000 for requests. A share of the total would hold the body.
  const { url, ask, gateway } = await startGuarded(t, {
    trustProxies: TRUSTED,
    policy: { keep: { ...apiPolicy().keep, requestBytesMax: 45_000 } },
    world: { limits: { ...LIMITS, bufferedBytes: 100_000 } }
  })
  const largest = 'x'.repeat(45_000)
  assert.equal((await ask('largest', { ...from('192.0.2.1'), body: largest })).status, 201)
  const sockets = [stopped(url, from('192.0.2.1'), 36_000)]
  try {
    await eventually(() => gateway.limits.buffered.held === 36_000, () => `the first is held, not ${gateway.limits.buffered.held}`)
    assert.equal(await refusalOf(ask('another', { ...from('192.0.2.1'), body: 'x'.repeat(10_000) })), '429 too-many-in-flight')
    sockets.push(stopped(url, from('192.0.2.2'), 36_000))
    await eventually(() => gateway.limits.buffered.held === 72_000, () => `both are held, not ${gateway.limits.buffered.held}`)
    assert.equal(await refusalOf(ask('third', { ...from('192.0.2.3'), body: 'x'.repeat(4_000) })), '503 overloaded')
  } finally {
    for (const socket of sockets) socket.destroy()
  }
  await eventually(() => gateway.limits.buffered.held === 0, 'they have gone')
  assert.equal((await ask('third', { ...from('192.0.2.3'), body: largest })).status, 201)
})

test('a body that a share would hold has no more than its share, however small that is just now', async (t) => {
  // There are 30,000 for requests. With two bodies of others, a share of the rest is less than this body.
  const { url, ask, gateway } = await startGuarded(t, {
    trustProxies: TRUSTED,
    policy: { keep: { ...apiPolicy().keep, requestBytesMax: 12_000 } },
    world: { limits: { ...LIMITS, bufferedBytes: 40_000 } }
  })
  const sockets = ['192.0.2.1', '192.0.2.2'].map((address) => stopped(url, from(address), 8_000))
  try {
    await eventually(() => gateway.limits.buffered.held === 16_000, () => `both are held, not ${gateway.limits.buffered.held}`)
    assert.equal(await refusalOf(ask('k', { ...from('192.0.2.3'), body: 'x'.repeat(10_000) })), '429 too-many-in-flight')
  } finally {
    for (const socket of sockets) socket.destroy()
  }
  await eventually(() => gateway.limits.buffered.held === 0, 'they have gone')
  assert.equal((await ask('k', { ...from('192.0.2.3'), body: 'x'.repeat(10_000) })).status, 201)
})

test('what passes through has places of its own, and one address a share of them', async (t) => {
  const { answer, open } = slow()
  const witness = await startWitness(answer)
  const route = guardedRoute(witness.url, {}, { passThroughMax: 4, connectTimeoutMs: 100 })
  // The shares of connections come with the upstreams.
  const { url, held } = await startGateway(t, {
    routes: [{ ...route, match: { ...route.match, methods: [] }, idempotency: null }],
    trustProxies: TRUSTED,
    share: 0.5
  })
  t.after(async () => { await witness.close() })
  const read = async (address: string): Promise<Called> => call(url, '/a', { method: 'GET', ...from(address) })
  const first = [read('192.0.2.1'), read('192.0.2.1')]
  await witness.reached(2)
  assert.equal(await refusalOf(read('192.0.2.1')), '429 too-many-in-flight')
  const other = read('192.0.2.2')
  await witness.reached(3)
  const waits = read('192.0.2.1')
  open()
  for (const { status } of await Promise.all([...first, other, waits])) assert.equal(status, 201)
  await eventually(() => held().passing === 0, 'every place is free')
})

test('of an upstream\'s connections one caller has a share, and those who wait for one take turns', async (t) => {
  const { answer, open } = slow()
  const { ask, witness } = await startGuarded(t, {
    answer,
    trustProxies: TRUSTED,
    share: 0.5,
    upstream: { connectionsMax: 4 },
    world: { limits: { ...LIMITS, share: 1 } }
  })
  const alices = Array.from({ length: 12 }, async (_, number) => ask(`a${number}`, as('alice')))
  await witness.reached(2)
  const bobs = Array.from({ length: 2 }, async (_, number) => ask(`b${number}`, as('bob')))
  await witness.reached(3)
  await new Promise((resolve) => setTimeout(resolve, 100))
  const order = (): string => witness.seen.map(({ headers }) => String(headers['idempotency-key'])[0]).join('')
  assert.equal(order(), 'aab')
  open()
  for (const { status } of await Promise.all([...alices, ...bobs])) assert.equal(status, 201)
  // Not queued behind all of hers.
  assert.ok(order().lastIndexOf('b') < 6, order())
})

test('a request that has waited for a connection has all of its time at the upstream; one that waits in vain is told of the bound', async (t) => {
  const meter = countingMeter()
  const clock = new ManualClock()
  const answers: Array<() => void> = []
  // Two slots, of which alice has one.
  const { ask, witness, gateway } = await startGuarded(t, {
    share: 0.6,
    background: false,
    policy: { answerWithinMs: 60_000 },
    upstream: { connectionsMax: 2, timeoutMs: 10_000 },
    world: { clock, meter },
    answer: (_seen, response) => { answers.push(() => { response.writeHead(201).end() }) }
  })
  /** Waits for a slot. */
  const waiting = async (key: string): Promise<{ readonly told: Promise<Called> }> => {
    const forwarded = (): number => gateway.executions.all().filter(({ state }) => state === 'forward').length
    const before = forwarded()
    const told = ask(key, as('alice'))
    await eventually(() => forwarded() > before, 'its time runs')
    return { told }
  }
  const first = ask('first', as('alice'))
  await witness.reached(1)
  const second = await waiting('second')
  await clock.advance(7_000)
  answers[0]?.()
  assert.equal((await first).status, 201)
  await witness.reached(2)
  // If the time counted from arrival, it would be cut off here, with an unknown outcome.
  await clock.advance(4_000)
  const third = await waiting('third')
  const fourth = await waiting('fourth')
  await clock.advance(5_000)
  answers[1]?.()
  assert.equal((await second.told).status, 201)
  await witness.reached(3)
  await clock.advance(6_000)
  const { status, json, headers } = await fourth.told
  assert.deepEqual([status, json.code, headers['retry-after'], headers['idempotency-status']], [429, 'too-many-in-flight', '1', 'released'])
  assert.deepEqual([meter.counts.get('shed'), witness.seen.length], [1, 3])
  answers[2]?.()
  assert.equal((await third.told).status, 201)
  const again = ask('fourth', as('alice'))
  await witness.reached(4)
  answers[3]?.()
  assert.equal((await again).status, 201, 'its key is free')
})

const LARGE = { size: 12 * 1024 * 1024, limits: { ...LIMITS, share: 1, bufferedBytes: 64 * 1024 * 1024, recentBytes: 64 * 1024 * 1024 } }

test('a stored answer is sent whole or not begun: where there is no room its client is told to ask again', async (t) => {
  const meter = countingMeter()
  const { url, gateway, witness } = await startGuarded(t, {
    world: { meter, limits: LARGE.limits },
    policy: { keep: { ...apiPolicy().keep, responseBytesMax: LARGE.size } },
    answer: (_seen, response) => { response.end(Buffer.alloc(LARGE.size)) }
  })
  const ask = async (): Promise<string> => {
    const answer = await fetch(`${url}/things`, { method: 'POST', headers: { authorization: 'Bearer a', 'idempotency-key': 'k' } })
    const body = Buffer.from(await answer.arrayBuffer())
    return answer.status === 200
      ? `200 ${body.length}`
      : `${answer.status} ${(JSON.parse(body.toString()) as { code: string }).code} ${answer.headers.get('retry-after')}`
  }
  assert.equal(await ask(), `200 ${LARGE.size}`)
  // All of them read at once. Bytes that the kernel had not taken yet counted, and some answers were cut off.
  const answers = await Promise.all(Array.from({ length: 12 }, ask))
  const refused = answers.filter((answer) => answer === '503 overloaded 1').length
  assert.deepEqual(
    answers.filter((answer) => answer !== '503 overloaded 1'),
    Array.from({ length: 12 - refused }, () => `200 ${LARGE.size}`)
  )
  assert.ok(refused < 12)
  assert.equal(meter.counts.get('shed') ?? 0, refused)
  await eventually(() => gateway.limits.buffered.held === 0, 'nothing is held')
  assert.equal(await ask(), `200 ${LARGE.size}`)
  assert.equal(witness.seen.length, 1)
})

test('stored answers that nobody reads are no more than there is room for', async (t) => {
  const { url, gateway } = await startGuarded(t, {
    server: { clientIdleMs: 60_000 },
    world: { limits: LARGE.limits },
    policy: { keep: { ...apiPolicy().keep, responseBytesMax: LARGE.size } },
    answer: (_seen, response) => { response.end(Buffer.alloc(LARGE.size)) }
  })
  await (await fetch(`${url}/things`, { method: 'POST', headers: { authorization: 'Bearer a', 'idempotency-key': 'k' } })).arrayBuffer()
  const heads: string[] = []
  const sockets = Array.from({ length: 8 }, () => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1').on('error', () => {})
    socket.write('POST /things HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer a\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n')
    socket.once('data', (chunk: Buffer) => {
      heads.push(chunk.toString('latin1').slice(9, 12))
      socket.pause()
    })
    return socket
  })
  await eventually(() => heads.length === 8, 'all of them have a head')
  // 48 MiB are for answers.
  assert.deepEqual(heads.toSorted(), ['200', '200', '200', '200', '503', '503', '503', '503'])
  assert.ok(gateway.limits.buffered.held <= 48 * 1024 * 1024)
  for (const socket of sockets) socket.destroy()
  await eventually(() => gateway.limits.buffered.held === 0, 'nothing is held')
})

test('a small answer for which there is no room while its client does not read it is cut', async (t) => {
  const meter = countingMeter()
  const size = 60 * 1024
  const { url, gateway } = await startGuarded(t, {
    server: { clientIdleMs: 60_000 },
    world: { meter, limits: { ...LIMITS, share: 1, bufferedBytes: 4 * size / 3 } },
    answer: (_seen, response) => { response.end(Buffer.alloc(size)) }
  })
  await (await fetch(`${url}/things`, { method: 'POST', headers: { authorization: 'Bearer a', 'idempotency-key': 'k' } })).arrayBuffer()
  const sockets = Array.from({ length: 3 }, () => connect(Number(new URL(url).port), '127.0.0.1').on('error', () => {}).pause())
  // Until the kernel takes no more: one of them fits.
  const asks = setInterval(() => {
    for (const socket of sockets) {
      socket.write('POST /things HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer a\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n')
    }
  }, 5)
  t.after(() => { clearInterval(asks) })
  await eventually(() => (meter.counts.get('shed') ?? 0) > 0, 'one of them is cut', 60_000)
  assert.ok(gateway.limits.buffered.held <= size)
  clearInterval(asks)
  for (const socket of sockets) socket.destroy()
  await eventually(() => gateway.limits.buffered.held === 0, 'nothing is held')
})

test('an address has one share however it is spelled', async (t) => {
  const { answer, open } = slow()
  const { ask, witness } = await startGuarded(t, { answer, trustProxies: TRUSTED, world: { limits: { ...LIMITS, executions: 10 } } })
  const spellings = ['20.0.0.1', '::ffff:20.0.0.1', '::ffff:1400:1', '::FFFF:1400:0001', '0:0:0:0:0:ffff:20.0.0.1']
  const held = spellings.map(async (address, number) => ask(`held-${number}`, from(address)))
  await witness.reached(5)
  for (const address of spellings) assert.equal(await refusalOf(ask('more', from(address))), '429 too-many-in-flight', address)
  open()
  for (const { status } of await Promise.all(held)) assert.equal(status, 201)
})
