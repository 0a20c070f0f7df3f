import assert from 'node:assert/strict'
import { test } from 'node:test'
import Stripe from 'stripe'
import { bySubject } from '../gateway/scope/jwt-world.ts'
import type { countingMeter } from '../harness/gateway.ts'
import { CREATED } from '../harness/witness.ts'
import type { Behaviour } from '../harness/witness.ts'
import { clientWorld, RESET_AFTER_READING } from './world.ts'
import type { ClientWorld } from './world.ts'

/** What the SDK takes for a customer. */
const CUSTOMER: Behaviour = (_seen, response, _socket, count) => {
  response.writeHead(200, { 'Content-Type': 'application/json', 'Request-Id': `req_${count}` })
  response.end(JSON.stringify({ id: `cus_${count}`, object: 'customer' }))
}

function sdk ({ host, port }: ClientWorld, maxNetworkRetries: number): Stripe {
  return new Stripe('sk_test_of_nobody', { host, port, protocol: 'http', maxNetworkRetries, telemetry: false, timeout: 10_000 })
}

const inner = (error: unknown): string => JSON.stringify((error as { raw?: unknown }).raw ?? {})

test('the SDK retries with the key that it made itself and gets the one customer that was created', async (t) => {
  // The gateway's own answer is lost on its way to the client once: the SDK repeats, and only a replay can answer it.
  const world = await clientWorld(t, { inFlight: { waitMs: 2_000, status: 409 } }, CUSTOMER)
  const stripe = new Stripe('sk_test_of_nobody', {
    host: world.host,
    port: world.port,
    protocol: 'http',
    maxNetworkRetries: 2,
    telemetry: false,
    httpClient: Stripe.createFetchHttpClient(losingTheFirstAnswer())
  })
  const customer = await stripe.customers.create({ name: 'Ada' })
  assert.equal(customer.id, 'cus_1')
  assert.equal(world.witness.seen.length, 1)
  assert.match(String(world.witness.seen[0]?.headers['idempotency-key']), /^stripe-node-retry-/)
})

test('an explicit idempotencyKey replays the same object', async (t) => {
  const world = await clientWorld(t, {}, CUSTOMER)
  const stripe = sdk(world, 0)
  const first = await stripe.customers.create({ name: 'Ada' }, { idempotencyKey: 'order-1' })
  const second = await stripe.customers.create({ name: 'Ada' }, { idempotencyKey: 'order-1' })
  assert.equal(second.id, first.id)
  assert.equal(second.lastResponse.headers['idempotent-replayed'], 'true')
  assert.equal(world.witness.seen.length, 1)
})

test('an answer that is still in flight throws when the retries are used up', async (t) => {
  const release = Promise.withResolvers<void>()
  const world = await clientWorld(t, {}, async (...args) => { await release.promise; await CUSTOMER(...args) })
  const stripe = sdk(world, 0)
  const first = stripe.customers.create({ name: 'Ada' }, { idempotencyKey: 'order-1' })
  await world.witness.reached(1)
  await assert.rejects(stripe.customers.create({ name: 'Ada' }, { idempotencyKey: 'order-1' }), (error: Error) => {
    assert.equal((error as { statusCode?: number }).statusCode, 409)
    assert.match(inner(error), /in-flight/)
    return true
  })
  release.resolve()
  assert.equal((await first).id, 'cus_1')
})

test('retryHints tell it not to hammer an unknown outcome', async (t) => {
  const world = await clientWorld(t, { retryHints: true }, RESET_AFTER_READING)
  const stripe = sdk(world, 5)
  await assert.rejects(stripe.customers.create({ name: 'Ada' }, { idempotencyKey: 'order-1' }))
  const { counts } = world.gateway.world.meter as ReturnType<typeof countingMeter>
  assert.equal(counts.get('request'), 1)
})

function losingTheFirstAnswer (): typeof fetch {
  let lost = false
  return async (input, init) => {
    const response = await fetch(input, init)
    if (lost) return response
    lost = true
    await response.arrayBuffer()
    throw new TypeError('fetch failed')
  }
}

test('the same key with the same body from a second account is a request of its own', async (t) => {
  const world = await clientWorld(t, {}, CREATED)
  const one = sdk(world, 0)
  const two = new Stripe('sk_test_of_somebody_else', {
    host: world.host,
    port: world.port,
    protocol: 'http',
    maxNetworkRetries: 0,
    telemetry: false
  })
  await one.customers.create({ name: 'Ada' }, { idempotencyKey: 'order-1' })
  await two.customers.create({ name: 'Ada' }, { idempotencyKey: 'order-1' })
  assert.equal(world.witness.seen.length, 2)
})

interface Thrown {
  readonly type?: string
  readonly rawType?: string
  readonly requestId?: string
  readonly statusCode?: number
  readonly message: string
}

async function thrownBy (request: Promise<unknown>): Promise<Thrown> {
  return request.then(() => assert.fail('nothing was thrown'), (error: unknown) => error as Thrown)
}

test('a mismatch is of the type that the SDK knows for keys; with the status of Stripe\'s own it is of that class', async (t) => {
  for (const [status, type] of [[422, 'StripeAPIError'], [400, 'StripeIdempotencyError']] as const) {
    const stripe = sdk(await clientWorld(t, { onMismatch: { action: 'reject', status } }, CUSTOMER), 0)
    await stripe.customers.create({ name: 'Ada' }, { idempotencyKey: 'order-1' })
    const thrown = await thrownBy(stripe.customers.create({ name: 'Grace' }, { idempotencyKey: 'order-1' }))
    assert.deepEqual([thrown.statusCode, thrown.type, thrown.rawType], [status, type, 'idempotency_error'])
  }
})

test('a request that is wrong is no error of its key: the SDK throws what it throws for wrong requests', async (t) => {
  const stripe = sdk(await clientWorld(t, { scope: { kind: 'parts', parts: [{ kind: 'header', name: 'X-Tenant' }] } }, CUSTOMER), 0)
  const thrown = await thrownBy(stripe.customers.create({ name: 'Ada' }, { idempotencyKey: 'order-1' }))
  assert.deepEqual([thrown.statusCode, thrown.type, thrown.rawType], [400, 'StripeInvalidRequestError', 'invalid_request_error'])
})

test('a credential that is no token, where the route asks for one, is an error of authentication', async (t) => {
  const stripe = sdk(await clientWorld(t, bySubject('/nowhere')), 0)
  const thrown = await thrownBy(stripe.customers.create({ name: 'Ada' }, { idempotencyKey: 'order-1' }))
  assert.deepEqual([thrown.statusCode, thrown.type], [401, 'StripeAuthenticationError'])
})

test('an unknown outcome is an error of the API', async (t) => {
  const stripe = sdk(await clientWorld(t, {}, RESET_AFTER_READING), 0)
  const thrown = await thrownBy(stripe.customers.create({ name: 'Ada' }, { idempotencyKey: 'order-1' }))
  assert.deepEqual([thrown.statusCode, thrown.type, thrown.rawType], [502, 'StripeAPIError', 'api_error'])
})

test('every answer and every error has the id by which it is found: the API\'s own on what the API said, the gateway\'s on the rest', async (t) => {
  const stripe = sdk(await clientWorld(t, {}, CUSTOMER), 0)
  const created = await stripe.customers.create({ name: 'Ada' }, { idempotencyKey: 'order-1' })
  const again = await stripe.customers.create({ name: 'Ada' }, { idempotencyKey: 'order-1' })
  assert.deepEqual([created.lastResponse.requestId, again.lastResponse.requestId], ['req_1', 'req_1'])
  const thrown = await thrownBy(stripe.customers.create({ name: 'Grace' }, { idempotencyKey: 'order-1' }))
  assert.match(String(thrown.requestId), /^[0-9a-f-]{36}$/)
  assert.match(inner(thrown), new RegExp(String(thrown.requestId)))
})
