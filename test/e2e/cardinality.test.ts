/** The number of series is bounded by the configuration: ten thousand requests that differ in everything add none. */
import assert from 'node:assert/strict'
import { Agent, METHODS } from 'node:http'
import { test } from 'node:test'
import { declaredMetrics } from '../../src/telemetry/metrics.ts'
import { HTTP_METHODS } from '../../src/telemetry/http-metrics.ts'
import { REQUEST_BUCKETS } from '../../src/telemetry/declare.ts'
import { call, callRaw } from '../harness/call.ts'
import { startTraffic } from '../http/traffic-world.ts'

const REQUESTS = 10_000
const AT_ONCE = 50
/** Each method with each status, guarded and not, and each of them twice. */
const WARM = 2_000
const STATUSES = [200, 201, 204, 301, 304, 400, 404, 409, 418, 500, 502, 503, 599]
const METHODS_SENT = METHODS.filter((method) => method !== 'CONNECT')

test('after ten thousand paths, methods, hosts, statuses, keys and callers there is no series more', async (t) => {
  const traffic = await startTraffic(t, {
    answer: ({ method, target }, response) => {
      const status = STATUSES[Number(/\d+/.exec(target)?.[0]) % STATUSES.length] ?? 200
      response.writeHead(status, { 'X-Odd': `${method} ${target}` }).end()
    }
  })
  const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE })
  t.after(() => { agent.destroy() })
  const ask = async (number: number): Promise<void> => {
    const guarded = number % 2 === 0
    await call(traffic.url, `/${number % 7 === 0 ? 'nowhere' : guarded ? 'things' : 'open'}/${number}/${number * 31}?q=${number}`, {
      method: guarded ? 'POST' : METHODS_SENT[Math.floor(number / 2) % METHODS_SENT.length] ?? 'GET',
      headers: {
        Host: `host-${number}.example`,
        'Idempotency-Key': `key-${number}`,
        Authorization: `Bearer caller-${number}`,
        'X-Request-Id': `id-${number}`,
        'User-Agent': `agent/${number}`
      },
      agent
    })
    if (number % 100 === 0) await callRaw(traffic.url, `M${number} /${number} HTTP/1.1\r\nHost: x\r\n\r\n`)
  }
  const send = async (from: number, count: number): Promise<void> => {
    let next = from
    await Promise.all(Array.from({ length: AT_ONCE }, async () => { while (next < from + count) await ask(next++) }))
  }
  const series = async (): Promise<string[]> =>
    (await traffic.exposed()).split('\n').filter((line) => /^onceway_/.test(line)).map((line) => line.slice(0, line.lastIndexOf(' ')))
  await send(0, WARM)
  const before = await series()
  await send(WARM, REQUESTS)
  const after = await series()
  assert.deepEqual(after.filter((name) => !before.includes(name)), [])
  assert.ok(traffic.witness.seen.length > REQUESTS / 2)

  const ofTraffic = (name: string): number => after.filter((line) => line.startsWith(name)).length
  // The guarded route, the one that passes through, and none of both.
  const routes = 3
  assert.ok(ofTraffic('onceway_http_requests_total') <= routes * (HTTP_METHODS.length * 5 + 1))
  assert.ok(ofTraffic('onceway_http_request_duration_seconds') <= routes * (REQUEST_BUCKETS.length + 3))
  // No metric has more than its labels allow, and nothing of a request is in any of them.
  assert.deepEqual(after.filter((name) => /host-|key-\d|caller-|id-\d|agent|nowhere|M\d/.test(name)), [])
  const declared = new Set(declaredMetrics().map(({ name }) => name))
  assert.deepEqual(after.filter((name) => !declared.has(name.replace(/\{.*/, '').replace(/_(?:bucket|sum|count)$/, ''))), [])
})
