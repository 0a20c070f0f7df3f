/** What becomes of the methods that a guarded route does not guard, in a gateway that was started with a file. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { call } from '../harness/call.ts'
import { startProcess } from '../harness/process-gateway.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { startWitness } from '../harness/witness.ts'
import type { Witness } from '../harness/witness.ts'

const OTHERS = ['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE'] as const
const KEY = { 'Idempotency-Key': 'k-1' }

async function start (t: TestContext, routes: string): Promise<{ gateway: ProcessGateway, witness: Witness, other: Witness }> {
  const [witness, other] = await Promise.all([startWitness(), startWitness()])
  t.after(async () => { await Promise.all([witness.close(), other.close()]) })
  const gateway = await startProcess(t, {
    config: `version: 1
listen: { host: 127.0.0.1, port: 0 }
admin: { port: 0 }
drain: { delay: 0s }
upstreams: { app: { url: "${witness.url}" }, other: { url: "${other.url}" } }
routes: ${routes}
`
  })
  return { gateway, witness, other }
}

test('a file whose only route is guarded takes no method away from an API', async (t) => {
  const { gateway: { url, output }, witness } = await start(
    t,
    '[{ name: api, match: { path: "/*" }, upstream: app, idempotency: { scope: shared } }]'
  )
  for (const method of OTHERS) {
    const { status, headers } = await call(url, '/things/1', { method })
    assert.deepEqual([method, status, headers['idempotency-status']], [method, 201, undefined])
  }
  assert.deepEqual(witness.seen.map(({ method }) => method), OTHERS)
  // Not guarded: a key on them is ignored, and said to be.
  for (let time = 0; time < 2; time++) {
    assert.equal((await call(url, '/things/1', { method: 'PUT', headers: KEY })).headers['idempotency-status'], 'ignored')
  }
  assert.equal(witness.seen.length, OTHERS.length + 2)
  assert.deepEqual(
    [
      (await call(url, '/things', { headers: KEY })).headers['idempotency-status'],
      (await call(url, '/things', { headers: KEY })).headers['idempotency-status']
    ],
    ['executed', 'replayed']
  )
  // A method that stands in another one's place is guarded as that one.
  const overridden = { method: 'PUT', headers: { 'Idempotency-Key': 'k-2', 'X-HTTP-Method-Override': 'POST' } }
  assert.deepEqual(
    [
      (await call(url, '/things', overridden)).headers['idempotency-status'],
      (await call(url, '/things', overridden)).headers['idempotency-status']
    ],
    ['executed', 'replayed']
  )
  assert.equal(witness.seen.length, OTHERS.length + 4)
  assert.doesNotMatch(output(), /of that path get 404/)
})

test('TRACE, which shows a client what the gateway has added to its request, passes only where a route is written for it', async (t) => {
  const { gateway: { url }, witness } = await start(
    t,
    '[{ name: api, match: { path: "/*" }, upstream: app, idempotency: { scope: shared } }]'
  )
  const { status, json } = await call(url, '/things/1', { method: 'TRACE' })
  assert.deepEqual([status, json.detail], [404, 'No route of the gateway matches this request.'])
  assert.equal(witness.seen.length, 0)
})

test('routes of mode drop and inbox let the other methods pass to their consumer, and later routes go before what nobody wrote', async (t) => {
  const { gateway: { url }, witness, other } = await start(t, `
  - { name: hooks, match: { path: /hooks }, upstream: app, idempotency: { mode: drop, profile: relay, scope: shared } }
  - { name: events, match: { path: /events }, upstream: app, idempotency: { mode: inbox, profile: relay, scope: shared } }
  - { match: { path: "/*", methods: [GET] }, upstream: other }
`)
  for (const path of ['/hooks', '/events']) {
    for (const method of OTHERS) assert.equal((await call(url, path, { method })).status, 201, `${method} ${path}`)
  }
  assert.deepEqual(other.seen.map(({ method, target }) => `${method} ${target}`), ['GET /hooks', 'GET /events'])
  assert.equal(witness.seen.length, 2 * (OTHERS.length - 1))
  assert.equal((await call(url, '/events', { headers: KEY })).status, 202)
})

test('methods that the file names are all that its route takes; the start and the 404 say what to write for the others', async (t) => {
  const { gateway: { url, output }, witness } = await start(
    t,
    '[{ name: pay, match: { path: /pay, methods: [POST] }, upstream: app, idempotency: { scope: shared } }]'
  )
  for (const method of OTHERS) {
    const { status, text } = await call(url, '/pay', { method })
    assert.equal(status, 404)
    if (method !== 'HEAD') {
      assert.match(
        (JSON.parse(text) as { detail: string }).detail,
        /takes POST\. .*leave match\.methods out .*or add a route without idempotency/
      )
    }
  }
  assert.match((await call(url, '/elsewhere')).json.detail, /^No route of the gateway matches this request\.$/)
  assert.equal(witness.seen.length, 0)
  const said = output().split('\n').filter((line) => line.includes('of that path get 404'))
  assert.equal(said.length, 1)
  assert.match(said[0] ?? '', /Route pay takes POST of \/pay; GET, HEAD, OPTIONS, PUT, PATCH, DELETE of that path get 404/)
})
