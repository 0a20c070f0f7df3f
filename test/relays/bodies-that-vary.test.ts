/**
 * Relays whose body is another one for each attempt (Pub/Sub counts in it, a CloudEvent gathers attributes), on routes that
 * compare bodies all the same: what `onMismatch: replay` saves, and what it does not.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { GuardedRoute, IdempotencyPolicy } from '../../src/core/policy/policy.ts'
import { recipes } from './recipes.ts'
import { relayed } from './simulated.ts'
import { STAND_INS } from './stand-ins.ts'
import type { StandIn } from './stand-ins.ts'

const RECIPES = recipes()
const VARYING = ['pubsub', 'cloudevents-webhook']

function comparing ({ route }: StandIn, action: IdempotencyPolicy['onMismatch']['action']): GuardedRoute {
  const recipe = RECIPES.get(route)
  assert.ok(recipe !== undefined)
  return {
    ...recipe,
    idempotency: {
      ...recipe.idempotency,
      fingerprint: { of: ['method', 'target', 'body'], body: 'bytes' },
      onMismatch: { action, status: 422 }
    }
  }
}

for (const relay of STAND_INS.filter(({ route }) => VARYING.includes(route))) {
  const slow = { executesMs: 2.5 * relay.timeoutMs }
  const missing = ({ lost, deadLettered }: Awaited<ReturnType<typeof relayed>>): string[] => [...lost, ...deadLettered]

  test(`${relay.route}: a redelivery with another body gets the stored answer where the route says onMismatch replay`, async () => {
    const { delivered, ...harm } = await relayed(relay, comparing(relay, 'replay'), slow)
    assert.deepEqual(harm, { lost: [], deadLettered: [], doubled: [], together: [] })
    assert.ok(delivered.every(({ attempts }) => attempts > 1))
  })

  test(`${relay.route}: with reject it is refused, and the message that was executed never acknowledged`, async () => {
    assert.deepEqual(missing(await relayed(relay, comparing(relay, 'reject'), slow)), ['message-1', 'message-2'])
  })

  test(`${relay.route}: what nothing is stored of is not executed under another body (I6); the profile's fingerprint leaves bodies out`, async () => {
    const mended = { executesMs: 50, mendedAtMs: 60_000 }
    assert.deepEqual(missing(await relayed(relay, comparing(relay, 'replay'), mended)), ['message-1', 'message-2'])
    const recipe = RECIPES.get(relay.route)
    assert.ok(recipe !== undefined)
    assert.deepEqual(missing(await relayed(relay, recipe, mended)), [])
  })
}
