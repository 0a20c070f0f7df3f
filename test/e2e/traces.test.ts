/** What a collector gets of real gateways: the spans of requests, retries, deliveries and probes, and how they lead to each other. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { call } from '../harness/call.ts'
import { startCollector } from '../harness/collector.ts'
import type { CollectedSpan, Collector } from '../harness/collector.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { startProcess } from '../harness/process-gateway.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { CREATED, startWitness } from '../harness/witness.ts'
import type { Seen, Witness } from '../harness/witness.ts'
import { startServers } from './world.ts'
import type { Servers } from './world.ts'

/** A traceparent of a trace of its own, sampled or not. */
const fresh = (flags = '01'): string => `00-${randomBytes(16).toString('hex')}-${randomBytes(8).toString('hex')}-${flags}`

/** It shares the processors with other tests. The gateway sends every two seconds. */
const LONGEST_MS = 30_000

interface Options { readonly stores?: string, readonly upstream: string, readonly collector: string, readonly ratio?: number }

const fileOf = ({ stores = '', upstream, collector, ratio = 0 }: Options): string => `
version: 1
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
drain: { delay: 0s, timeout: 5s }
${stores}
telemetry: { otlp: { url: "${collector}", sampleRatio: ${ratio}, headers: { Authorization: canary-credential } } }
upstreams: { api: { url: "${upstream}", timeout: 10s } }
routes:
  - name: hooks
    match: { path: /hooks, methods: [POST] }
    upstream: api
    idempotency: { mode: inbox, profile: relay, scope: public, key: { from: ["header:Idempotency-Key"], required: true } }
  - name: asked
    match: { path: /asked, methods: [POST] }
    upstream: api
    idempotency:
      scope: public
      unknown: probe
      lease: 2s
      probe: { path: "/asked/{key}", interval: 100ms }
  - name: things
    match: { path: "/*", methods: [POST] }
    upstream: api
    idempotency: { scope: public, inFlight: { wait: 10s } }
`

const post = (gateway: ProcessGateway, key: string, traceparent: string, path = '/things') => call(gateway.url, path, {
  headers: { 'Idempotency-Key': key, traceparent, tracestate: 'vendor=1', 'Content-Type': 'application/json' },
  body: '{"amount":100}'
})

const headerOf = (seen: Seen | undefined, name: string): string => String(seen?.headers[name] ?? '')

/** The trace and the span that a traceparent names. */
function placeOf (traceparent: string): { traceId: string, spanId: string } {
  const [, traceId = '', spanId = ''] = traceparent.split('-')
  return { traceId, spanId }
}

/** The one span that satisfies `is`. */
async function spanOf (collector: Collector, is: (span: CollectedSpan) => boolean): Promise<CollectedSpan> {
  await eventually(() => collector.spans.some(is), 'the collector has the span', LONGEST_MS)
  const found = collector.spans.filter(is)
  assert.equal(found.length, 1)
  return found[0] as CollectedSpan
}

const requestOf = (collector: Collector, outcome: string, traceparent: string): Promise<CollectedSpan> => spanOf(
  collector,
  ({ attributes, traceId }) => attributes['onceway.outcome'] === outcome && traceId === placeOf(traceparent).traceId
)

const linkTo = ({ traceId, spanId }: CollectedSpan) => [{ traceId, spanId }]

interface World { readonly witness: Witness, readonly collector: Collector, readonly gateway: ProcessGateway }

async function world (t: Pick<TestContext, 'after'>, ratio = 0): Promise<World> {
  const [witness, collector] = await Promise.all([startWitness(), startCollector()])
  t.after(() => witness.close())
  t.after(() => collector.close())
  const config = fileOf({ upstream: witness.url, collector: collector.url, ratio })
  return { witness, collector, gateway: await startProcess(t, { config }) }
}

describe('traces of a gateway', () => {
  const ends: Array<() => Promise<void>> = []
  let witness: Witness
  let collector: Collector
  let gateway: ProcessGateway
  before(async () => {
    ({ witness, collector, gateway } = await world({ after: (end) => { ends.push(end as () => Promise<void>) } }))
  })
  after(async () => { for (const end of ends.toReversed()) await end() })

  const lineOf = (event: string, traceparent: string) => gateway.logged((line) =>
    line.event === event && line.trace_id === placeOf(traceparent).traceId)
  const seenIn = (traceparent: string): Seen | undefined => witness.seen.find(({ headers }) =>
    placeOf(String(headers.traceparent)).traceId === placeOf(traceparent).traceId)

  test('a first request is a span with its steps, in the trace of its client, and the upstream is in it', async () => {
    const client = fresh()
    assert.equal((await post(gateway, 'k-1', client)).status, 201)
    const span = await requestOf(collector, 'executed', client)
    assert.equal(span.name, 'POST things')
    assert.equal(span.parentSpanId, placeOf(client).spanId)
    assert.equal(span.attributes['http.response.status_code'], 201)
    assert.equal(span.resource['service.name'], 'onceway')
    const steps = collector.spans.filter(({ parentSpanId }) => parentSpanId === span.spanId)
    assert.deepEqual(steps.map(({ name }) => name).sort(), ['claim', 'forward', 'settle'])
    const [claim, forward, settle] = ['claim', 'forward', 'settle'].map((wanted) => steps.find(({ name }) => name === wanted))
    assert.ok(claim !== undefined && forward !== undefined && settle !== undefined)
    for (const { startNs, endNs } of steps) assert.ok(startNs <= endNs)
    assert.ok(claim.startNs <= forward.startNs && forward.startNs <= settle.startNs)
    assert.deepEqual(placeOf(headerOf(seenIn(client), 'traceparent')), { traceId: span.traceId, spanId: forward.spanId })
    assert.equal(headerOf(seenIn(client), 'tracestate'), 'vendor=1')
    assert.equal(collector.requests[0]?.path, '/v1/traces')
    assert.equal(collector.requests[0]?.headers.authorization, 'canary-credential')
    assert.equal((await lineOf('request', client)).span_id, span.spanId)
  })

  test('a replay, and a duplicate that joined, lead to the span that executed', async () => {
    const [first, second, third] = [fresh(), fresh(), fresh()]
    const begun = Promise.withResolvers<undefined>()
    const before = witness.seen.length
    witness.answer = async (...args) => {
      await begun.promise
      await CREATED(...args)
    }
    const executing = post(gateway, 'k-2', first)
    await witness.reached(before + 1)
    const joining = post(gateway, 'k-2', second)
    await eventually(async () => /onceway_waiters 1/.test((await call(gateway.adminUrl, '/metrics', { method: 'GET' })).text), 'it waits')
    begun.resolve(undefined)
    witness.answer = CREATED
    assert.equal((await executing).headers['idempotency-status'], 'executed')
    assert.equal((await joining).headers['idempotency-status'], 'replayed')
    const executed = await requestOf(collector, 'executed', first)
    const joined = await requestOf(collector, 'replayed', second)
    assert.deepEqual(joined.links, linkTo(executed))
    assert.deepEqual(collector.spans.filter(({ parentSpanId }) => parentSpanId === joined.spanId).map(({ name }) => name), ['wait'])
    await post(gateway, 'k-2', third)
    assert.deepEqual((await requestOf(collector, 'replayed', third)).links, linkTo(executed))
    assert.equal(witness.seen.length, before + 1)
  })

  test('a delivery is in the trace of the request that was accepted, and leads to it', async () => {
    const client = fresh()
    const before = witness.seen.length
    assert.equal((await post(gateway, 'k-3', client, '/hooks')).status, 202)
    await witness.reached(before + 1)
    const accepted = await requestOf(collector, 'accepted', client)
    const delivery = await spanOf(collector, ({ name }) => name === 'deliver hooks')
    assert.deepEqual(delivery.links, linkTo(accepted))
    assert.deepEqual(placeOf(headerOf(seenIn(client), 'traceparent')), { traceId: placeOf(client).traceId, spanId: delivery.spanId })
    assert.equal((await lineOf('delivery', client)).span_id, delivery.spanId)
  })

  test('a probe leads to the span whose outcome it asks for', async (t) => {
    const client = fresh()
    t.after(() => { witness.answer = CREATED })
    witness.answer = (seen, response, socket) => {
      if (seen.method === 'POST') socket.destroy()
      else response.writeHead(200, { 'Content-Type': 'application/json' }).end('{"id":1}')
    }
    assert.equal((await post(gateway, 'k-4', client, '/asked')).status, 502)
    const lost = await requestOf(collector, 'outcome-unknown', client)
    const probe = await spanOf(collector, ({ name }) => name === 'probe asked')
    assert.deepEqual(probe.links, linkTo(lost))
    assert.equal(lost.isError, true)
    const asked = witness.seen.find(({ method }) => method === 'GET')
    assert.equal(placeOf(headerOf(asked, 'traceparent')).spanId, probe.spanId)
  })

  test('what is not sampled is passed on as such, logged, and not sent to the collector', async () => {
    const [quiet, next] = [fresh('00'), fresh()]
    await post(gateway, 'k-5', quiet)
    assert.match(headerOf(seenIn(quiet), 'traceparent'), /-00$/)
    await lineOf('request', quiet)
    await post(gateway, 'k-6', next)
    await requestOf(collector, 'executed', next)
    assert.equal(collector.spans.some(({ traceId }) => traceId === placeOf(quiet).traceId), false)
  })

  test('no span has a word of a client, a consumer or an upstream: no key, path, query, credential, cookie, header or body', async (t) => {
    t.after(() => { witness.answer = CREATED })
    witness.answer = (seen, response, socket) => {
      if (seen.method === 'POST' && seen.target.startsWith('/asked')) socket.destroy()
      else response.writeHead(201, { 'X-Said': 'cnry-answer', 'Set-Cookie': 'cnry-set=cnry-cookie' }).end('{"id":"cnry-answer"}')
    }
    const send = async (path: string, key: string, body: string): Promise<string> => {
      const traceparent = fresh()
      await call(gateway.url, `${path}?cnry-query=cnry-value`, {
        headers: {
          traceparent,
          'Idempotency-Key': key,
          Authorization: 'Bearer cnry-credential',
          Cookie: 'session=cnry-session',
          Baggage: 'user=cnry-baggage',
          'User-Agent': 'cnry-agent',
          'X-Other': 'cnry-header'
        },
        body
      })
      return placeOf(traceparent).traceId
    }
    const sent: string[] = []
    for (const path of ['/cnry-path', '/hooks', '/asked']) {
      // A first request, its retry, and one that is refused for its body.
      for (const body of ['cnry-body', 'cnry-body', 'cnry-other']) sent.push(await send(path, `cnry-key-${path.slice(1)}`, body))
    }
    sent.push(await send('/cnry-path', 'cnry key that is none, "', 'cnry-body'))
    const hasSpan = (traceId: string): boolean => collector.spans.some((span) => span.traceId === traceId)
    await eventually(() => sent.slice(0, 9).every(hasSpan), 'a span of each', LONGEST_MS)
    await eventually(() => ['deliver hooks', 'probe asked'].every((name) => collector.spans.some((span) =>
      span.name === name && sent.includes(span.traceId))), 'a delivery and a probe', LONGEST_MS)
    for (const { body } of collector.requests) assert.equal(body.toString('latin1').match(/cnry[\w-]*/)?.[0], undefined)
  })

  test('a collector that refuses costs spans alone, which are counted, and the log says it once', async () => {
    const [refused, next] = [fresh(), fresh()]
    collector.status = 400
    assert.equal((await post(gateway, 'k-9', refused)).status, 201)
    await gateway.logged(({ event }) => event === 'spans-not-sent')
    const { text } = await call(gateway.adminUrl, '/metrics', { method: 'GET' })
    assert.match(text, /onceway_spans_total\{result="failed"\} [1-9]/)
    collector.status = 200
    assert.equal((await post(gateway, 'k-10', next)).status, 201)
    await gateway.logged(({ event }) => event === 'spans-sent-again')
    await requestOf(collector, 'executed', next)
    assert.equal(gateway.output().includes('canary-credential'), false)
  })

  test('what waits for the collector is sent before the process ends', async () => {
    const client = fresh()
    await post(gateway, 'k-11', client)
    gateway.signal('SIGTERM')
    assert.equal(await gateway.exited, 0)
    await requestOf(collector, 'executed', client)
  })
})

test('two traceparents, and one that is none, are no context: the request begins a trace of its own', async (t) => {
  const { witness, collector, gateway } = await world(t, 1)
  const [one, other, nothing] = [fresh(), fresh(), `00-${'0'.repeat(32)}-00f067aa0ba902b7-01`]
  await call(gateway.url, '/things', { headers: { 'Idempotency-Key': 'k-7', traceparent: [one, other] }, body: 'a' })
  await call(gateway.url, '/things', { headers: { 'Idempotency-Key': 'k-8', traceparent: nothing }, body: 'a' })
  for (const seen of witness.seen) {
    assert.equal(seen.rawHeaders.filter((name) => name.toLowerCase() === 'traceparent').length, 1)
    const { traceId } = placeOf(headerOf(seen, 'traceparent'))
    assert.match(traceId, /^[0-9a-f]{32}$/)
    assert.ok([one, other, nothing].every((sent) => placeOf(sent).traceId !== traceId))
    await eventually(() => collector.spans.some((span) => span.traceId === traceId && span.parentSpanId === ''), 'a root', LONGEST_MS)
  }
})

describe('traces across gateways', needs('postgres', 'redis'), () => {
  let servers: Servers
  before(async () => { servers = await startServers() })
  after(async () => { await servers.stop() })

  for (const withRedis of [true, false]) {
    test(`a replay at another gateway leads to the span that executed, ${withRedis ? 'by the copy in Redis' : 'by the row'}`, async (t) => {
      const [witness, collector] = await Promise.all([startWitness(), startCollector()])
      t.after(() => witness.close())
      t.after(() => collector.close())
      const database = await servers.postgres.createDatabase('traces')
      const stores = `stores: { postgres: { url: "${database}" }${withRedis ? `, redis: { url: "${servers.redis.url}" }` : ''} }`
      const config = fileOf({ stores, upstream: witness.url, collector: collector.url })
      const [one, other] = await Promise.all([startProcess(t, { config }), startProcess(t, { config })])
      const [first, again] = [fresh(), fresh()]
      assert.equal((await post(one, 'k-1', first)).status, 201)
      const executed = await requestOf(collector, 'executed', first)
      for (const key of ['k-1', 'k-1']) assert.equal((await post(other, key, again)).headers['idempotency-status'], 'replayed')
      await eventually(() => collector.spans.filter(({ traceId }) => traceId === placeOf(again).traceId).length >= 2, 'both', LONGEST_MS)
      // The first by the store, the second from memory.
      const replays = collector.spans.filter(({ attributes }) => attributes['onceway.outcome'] === 'replayed')
      assert.deepEqual(replays.map(({ links }) => links), [linkTo(executed), linkTo(executed)])
      assert.equal(witness.seen.length, 1)
    })
  }
})
