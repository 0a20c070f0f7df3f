/** Which differences keep two requests the same, and which make them two, through a whole gateway. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { loadConfig } from '../../../src/config/load.ts'
import { ConfigWorld, fileWith } from '../../config/world.ts'
import { call } from '../../harness/call.ts'
import { guardedRoute, startGateway } from '../../harness/gateway.ts'
import { startWitness } from '../../harness/witness.ts'
import type { Witness } from '../../harness/witness.ts'

interface Started { readonly url: string, readonly witness: Witness }

/** One route, as in a configuration file. */
async function start (t: TestContext, fingerprint: string): Promise<Started> {
  const witness = await startWitness((_seen, response, _socket, count) => { response.writeHead(201).end(`made ${count}`) })
  t.after(async () => { await witness.close() })
  const file = new ConfigWorld(t).write('onceway.yaml', fileWith({ policy: `{ scope: public, fingerprint: ${fingerprint} }` }))
  const [route] = loadConfig(file, { env: {} }).routes
  assert.ok(route?.idempotency)
  const { url } = await startGateway(t, { routes: [{ ...guardedRoute(witness.url), idempotency: route.idempotency }] })
  return { url, witness }
}

const headers = (more: Record<string, string> = {}) => ({ 'Idempotency-Key': 'k', 'Content-Type': 'application/json', ...more })

test('a retry with another trace id is replayed where the route ignores it, and one with another amount is refused', async (t) => {
  const { url, witness } = await start(t, '{ ignore: [/trace_id, /sent_at], query: unordered, headers: [X-Tenant] }')
  const ask = async (body: string, path = '/v1/charges?a=1&b=2', more: Record<string, string> = {}) => call(url, path, {
    body,
    headers: headers(more)
  })
  assert.equal((await ask('{"amount":1,"trace_id":"a"}')).text, 'made 1')
  const retry = await ask('{"trace_id":"b","sent_at":1721234567890123456,"amount":1}', '/v1/charges?b=2&a=1')
  assert.deepEqual([retry.text, retry.headers['idempotent-replayed']], ['made 1', 'true'])
  assert.equal((await ask('{"amount":2,"trace_id":"a"}')).json.code, 'key-reused')
  assert.equal((await ask('{"amount":1}', '/v1/charges?b=2')).json.code, 'key-reused')
  assert.equal((await ask('{"amount":1}', '/v1/charges?a=1&b=2', { 'X-Tenant': 'x' })).json.code, 'key-reused')
  // Rules 2 go with such a policy: headers that change the meaning of the bytes count.
  assert.equal((await ask('{"amount":1}', '/v1/charges?a=1&b=2', { 'X-HTTP-Method-Override': 'PUT' })).json.code, 'key-reused')
  assert.equal((await ask('{"amount":1}', '/v1/charges?a=1&b=2', { 'Stripe-Account': 'other' })).json.code, 'key-reused')
  assert.equal(witness.seen.length, 1)
})

test('only the members that are named are compared', async (t) => {
  const { url, witness } = await start(t, '{ only: [/id] }')
  const ask = async (body: string) => call(url, '/things', { body, headers: headers() })
  await ask('{"id":1,"n":1}')
  assert.equal((await ask('{"n":2,"id":1}')).headers['idempotent-replayed'], 'true')
  assert.equal((await ask('{"id":2,"n":1}')).json.code, 'key-reused')
  assert.equal(witness.seen.length, 1)
})
