import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { call } from '../harness/call.ts'
import type { Called } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { freePort } from '../harness/ports.ts'
import { startProcess } from '../harness/process-gateway.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { startScripted } from '../harness/scripted.ts'
import type { Script, Scripted } from '../harness/scripted.ts'
import { startWitness } from '../harness/witness.ts'
import { configOf, startServers } from './world.ts'
import type { Servers } from './world.ts'

const ANSWER = (status: string, headers: string, body: string): string =>
  `HTTP/1.1 ${status}\r\n${headers}Content-Length: ${body.length}\r\n\r\n${body}`
const CREATED = ANSWER('201 Created', '', 'created')

/** A gateway process on Redis and Postgres in front of an upstream that misbehaves: what becomes of the retry. */
describe('an upstream that fails', needs('postgres', 'redis'), () => {
  let servers: Servers
  before(async () => { servers = await startServers() })
  after(async () => { await servers.stop() })

  async function gatewayFor (t: TestContext, upstream: string, upstreamMore = ''): Promise<ProcessGateway> {
    const database = await servers.postgres.createDatabase('faults')
    return startProcess(t, { config: configOf({ database, redis: servers.redis.url, upstream, upstreamMore }) })
  }

  async function scripted (t: TestContext, script: Script): Promise<{ upstream: Scripted, ask: () => Promise<Called> }> {
    const upstream = await startScripted(t, script)
    const gateway = await gatewayFor(t, upstream.url)
    return { upstream, ask: () => ask(gateway, 'k') }
  }

  const ask = (gateway: ProcessGateway, key: string): Promise<Called> => call(gateway.url, '/things', {
    headers: { 'Idempotency-Key': key },
    body: 'same'
  })

  test('refuses: released with Retry-After, and the retry executes', async (t) => {
    const port = await freePort()
    const gateway = await gatewayFor(t, `http://127.0.0.1:${port}`)
    const refused = await ask(gateway, 'k')
    assert.equal(refused.status, 502)
    assert.equal(refused.json.code, 'upstream-unreachable')
    assert.ok(Number(refused.headers['retry-after']) >= 1)
    const witness = await startWitness(undefined, port)
    t.after(() => witness.close())
    const retry = await ask(gateway, 'k')
    assert.equal(retry.status, 201)
    assert.equal(witness.seen[0]?.headers['idempotency-attempt'], '2')
  })

  test('resets after it has read the request: 502 outcome-unknown, and the retry does not execute', async (t) => {
    const { upstream, ask } = await scripted(t, { onRequest: (socket) => { socket.resetAndDestroy() } })
    for (const answer of [await ask(), await ask()]) {
      assert.equal(answer.status, 502)
      assert.equal(answer.json.code, 'outcome-unknown')
    }
    assert.equal(upstream.requests(), 1)
  })

  for (const [name, answer, retryStatus] of [
    ['a 502 of a hop', ANSWER('502 Bad Gateway', 'Server: nginx\r\n', 'hop'), 502],
    ['a 504 of a hop', ANSWER('504 Gateway Timeout', 'Server: nginx\r\n', 'hop'), 504],
    [
      'a 503 of Envoy after sending',
      ANSWER(
        '503 Service Unavailable',
        'Server: envoy\r\n',
        'upstream connect error or disconnect/reset before headers. reset reason: connection termination'
      ),
      502
    ]
  ] as const) {
    test(`${name}: as it came, and the retry does not execute`, async (t) => {
      const { upstream, ask } = await scripted(t, { onRequest: (socket) => { socket.write(answer) } })
      const first = await ask()
      assert.equal(first.headers['idempotency-status'], 'indeterminate')
      assert.ok(answer.endsWith(first.text))
      const retry = await ask()
      assert.equal(retry.status, retryStatus)
      assert.equal(retry.json.code, 'outcome-unknown')
      assert.equal(upstream.requests(), 1)
    })
  }

  test('a 503 of the application: released, and the retry executes', async (t) => {
    const { upstream, ask } = await scripted(t, {
      onRequest: (socket, count) => {
        socket.write(count === 1 ? ANSWER('503 Service Unavailable', 'Retry-After: 1\r\n', 'busy') : CREATED)
      }
    })
    const first = await ask()
    assert.equal(first.headers['idempotency-status'], 'released')
    assert.equal((await ask()).status, 201)
    assert.equal((await ask()).headers['idempotent-replayed'], 'true')
    assert.equal(upstream.requests(), 2)
  })

  test('an answer too many on an idle connection is never stored', async (t) => {
    let tooMany: (() => void) | null = null
    const upstream = await startScripted(t, {
      onRequest: (socket, count) => {
        socket.write(ANSWER('200 OK', '', `answer-${count}`))
        tooMany = () => { socket.write(ANSWER('200 OK', '', 'one-too-many')) }
      }
    })
    const gateway = await gatewayFor(t, upstream.url, ', connections: 1')
    assert.equal((await ask(gateway, 'one')).text, 'answer-1')
    await eventually(() => tooMany !== null, 'the connection is idle')
    tooMany!()
    const first = await ask(gateway, 'two')
    const retry = await ask(gateway, 'two')
    assert.equal(retry.headers['idempotent-replayed'], 'true')
    assert.deepEqual([first.text, retry.text], ['answer-2', 'answer-2'])
  })
})
