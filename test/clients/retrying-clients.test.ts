import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { promisify } from 'node:util'
import axios from 'axios'
import axiosRetry from 'axios-retry'
import { Agent, request, RetryAgent } from 'undici'
import { CREATED } from '../harness/witness.ts'
import type { Behaviour } from '../harness/witness.ts'
import { clientWorld, RESET_AFTER_READING } from './world.ts'

/** 503 twice, as an application that is not ready: not processed, so the key is free again. */
const THIRD_TIME: Behaviour = (seen, response, socket, count) => {
  if (count >= 3) return CREATED(seen, response, socket, count)
  response.writeHead(503, { 'Retry-After': '0' })
  response.end()
}

test('axios with axios-retry: retries after 503 are executed until one succeeds, later ones replay it', async t => {
  const { gateway, witness } = await clientWorld(t, {}, THIRD_TIME)
  const client = axios.create({ baseURL: gateway.url, timeout: 5_000 })
  axiosRetry(client, { retries: 4, retryDelay: () => 1, retryCondition: error => axiosRetry.isNetworkError(error) || error.response?.status === 503 })
  const headers = { 'Idempotency-Key': randomUUID() }
  const first = await client.post('/orders', { amount: 100 }, { headers })
  assert.equal(first.status, 201)
  assert.deepEqual(witness.seen.map(seen => seen.headers['idempotency-attempt']), ['1', '2', '3'])
  const again = await client.post('/orders', { amount: 100 }, { headers })
  assert.equal(again.headers['idempotent-replayed'], 'true')
  assert.deepEqual(again.data, first.data)
  assert.equal(witness.seen.length, 3)
})

test('axios with axios-retry: its own time-out is followed by retries that find the answer', async t => {
  const release = Promise.withResolvers<void>()
  const { gateway, witness } = await clientWorld(t, { inFlight: { waitMs: 3_000, status: 409 } }, async (...args) => { await release.promise; await CREATED(...args) })
  const client = axios.create({ baseURL: gateway.url, timeout: 400 })
  axiosRetry(client, { retries: 10, shouldResetTimeout: true, retryDelay: () => 10, retryCondition: () => true, onRetry: () => { release.resolve() } })
  const answer = await client.post('/orders', { amount: 100 }, { headers: { 'Idempotency-Key': 'slow-1' } })
  assert.equal(answer.status, 201)
  assert.equal(answer.headers['idempotent-replayed'], 'true')
  assert.equal(witness.seen.length, 1)
})

test("undici's RetryAgent: retries of a POST whose outcome is unknown never execute again", async t => {
  const { gateway, witness } = await clientWorld(t, {}, RESET_AFTER_READING)
  const agent = new RetryAgent(new Agent(), { methods: ['POST'], maxRetries: 3, minTimeout: 1, maxTimeout: 10, statusCodes: [502, 503, 504], throwOnError: false })
  t.after(() => agent.close())
  const answer = await request(`${gateway.url}/orders`, { method: 'POST', headers: { 'Idempotency-Key': 'agent-1' }, body: '{"amount":100}', dispatcher: agent })
  assert.equal(answer.statusCode, 502)
  assert.equal((await answer.body.json() as { code: string }).code, 'outcome-unknown')
  assert.equal(witness.seen.length, 1)
})

test("undici's RetryAgent: a 409 in flight is retried after its Retry-After and replays", async t => {
  const release = Promise.withResolvers<void>()
  const { gateway, witness } = await clientWorld(t, {}, async (...args) => { await release.promise; await CREATED(...args) })
  const agent = new RetryAgent(new Agent(), { methods: ['POST'], maxRetries: 5, minTimeout: 1, statusCodes: [409] })
  t.after(() => agent.close())
  const ask = async (dispatcher?: RetryAgent) => request(`${gateway.url}/orders`, { method: 'POST', headers: { 'Idempotency-Key': 'agent-2' }, body: 'x', ...(dispatcher === undefined ? {} : { dispatcher }) })
  const first = ask()
  await witness.reached(1)
  const duplicate = ask(agent)
  setTimeout(() => { release.resolve() }, 200)
  const [one, two] = await Promise.all([first, duplicate])
  assert.equal(two.statusCode, 201)
  assert.equal(two.headers['idempotent-replayed'], 'true')
  assert.equal(await two.body.text(), await one.body.text())
  assert.equal(witness.seen.length, 1)
})

test('curl: --retry with one key is one payment', async t => {
  const { gateway, witness } = await clientWorld(t, {}, THIRD_TIME)
  const curl = async (): Promise<string> => (await promisify(execFile)('curl', ['-sS', '-i', '--retry', '5', '--retry-all-errors', '--retry-delay', '1', '-H', 'Idempotency-Key: "curl-1"', '-d', '{"amount":100}', `${gateway.url}/orders`])).stdout
  const first = await curl()
  assert.match(first, /HTTP\/1\.1 201/)
  const again = await curl()
  assert.match(again, /Idempotent-Replayed: true/)
  assert.equal(again.split('\r\n\r\n').at(-1), first.split('\r\n\r\n').at(-1))
  assert.equal(witness.seen.length, 3)
})
