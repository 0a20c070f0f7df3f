import assert from 'node:assert/strict'
import { test } from 'node:test'
import Stripe from 'stripe'
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

test('the SDK retries with the key that it made itself and gets the one customer that was created', async t => {
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

test('an explicit idempotencyKey replays the same object', async t => {
  const world = await clientWorld(t, {}, CUSTOMER)
  const stripe = sdk(world, 0)
  const first = await stripe.customers.create({ name: 'Ada' }, { idempotencyKey: 'order-1' })
  const second = await stripe.customers.create({ name: 'Ada' }, { idempotencyKey: 'order-1' })
  assert.equal(second.id, first.id)
  assert.equal(second.lastResponse.headers['idempotent-replayed'], 'true')
  assert.equal(world.witness.seen.length, 1)
})

test('a mismatch throws', async t => {
  const stripe = sdk(await clientWorld(t, {}, CUSTOMER), 0)
  await stripe.customers.create({ name: 'Ada' }, { idempotencyKey: 'order-1' })
  await assert.rejects(stripe.customers.create({ name: 'Grace' }, { idempotencyKey: 'order-1' }), (error: Error) => {
    assert.equal((error as { statusCode?: number }).statusCode, 422)
    assert.match(inner(error), /key-reused/)
    return true
  })
})

test('an answer that is still in flight throws when the retries are used up', async t => {
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

test('an unknown outcome throws, retried or not, and is never executed twice', async t => {
  const world = await clientWorld(t, {}, RESET_AFTER_READING)
  const stripe = sdk(world, 2)
  await assert.rejects(stripe.customers.create({ name: 'Ada' }, { idempotencyKey: 'order-1' }), (error: Error) => {
    assert.equal((error as { statusCode?: number }).statusCode, 502)
    assert.match(inner(error), /outcome-unknown/)
    return true
  })
  assert.equal(world.witness.seen.length, 1)
})

test('retryHints tell it not to hammer an unknown outcome', async t => {
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

test('the same key with the same body from a second account is a request of its own', async t => {
  const world = await clientWorld(t, {}, CREATED)
  const one = sdk(world, 0)
  const two = new Stripe('sk_test_of_somebody_else', { host: world.host, port: world.port, protocol: 'http', maxNetworkRetries: 0, telemetry: false })
  await one.customers.create({ name: 'Ada' }, { idempotencyKey: 'order-1' })
  await two.customers.create({ name: 'Ada' }, { idempotencyKey: 'order-1' })
  assert.equal(world.witness.seen.length, 2)
})
